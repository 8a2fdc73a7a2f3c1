"""A job again, as the form of a page asks for it: the same steps as `slurmgen resubmit`. No HTTP."""

import re
import shlex
from collections.abc import Mapping

from msgspec import Struct, convert, structs

from slurmgen.errors import RequestError
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.new_entry import new_key
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.proposal import Proposal, lacked, proposal
from slurmgen.jobs.recorded_request import kept_of, resubmits
from slurmgen.jobs.report import Report
from slurmgen.jobs.resubmission import Resubmission, next_room, ready, route_to
from slurmgen.jobs.resubmit import Original
from slurmgen.jobs.room import PER_CPU, PER_GPU
from slurmgen.jobs.sweep_again import Target, named_tasks, tasks_that_failed
from slurmgen.jobs.sweep_arrays import submit_arrays
from slurmgen.request import Request, merge
from slurmgen.slurm.sbatch_options import given
from slurmgen.sweep import Sweep
from slurmgen.web.jobs.connections import Connections
from slurmgen.web.jobs.records import record_of_job

_KEY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
FAILED = "failed"
"Instead of the number of a task: those that failed."
SBATCH = (PER_CPU, PER_GPU)
"The options of sbatch that the form has."
FIELDS = ("time", "gpus", "mem", *SBATCH)
"All that may change: fields of the request, and those options."
_CHANGED = "it is not known whether this form has submitted a job, and the form has changed since"
_AS_SENT = "Undo the changes and press Submit, which finds the job. For another job, open the form again."


class Form(Struct, frozen=True):
    """What the user chose; every value comes from a browser."""

    key: str
    "The idempotency key of the submission: the form has it from its beginning."
    site: str
    present_files: bool
    values: dict[str, str]
    "The text of each of `FIELDS`; empty as it was."
    tasks: str = ""
    "Of a sweep, the number of a task in its array, or `failed`; empty for all."

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Form":
        """The form that was sent.

        Raises:
            RequestError: it has no valid key.
        """
        key = fields.get("key", "")
        if not _KEY.fullmatch(key):
            raise RequestError("this form is not valid", "Close it, and open it again.")
        values = {name: fields.get(name, "").strip()[:100] for name in FIELDS}
        tasks = fields.get("tasks", "")
        if tasks not in ("", FAILED) and not _NUMBER.fullmatch(tasks):
            raise RequestError("this form names no task", "Close it, and open it again.")
        return cls(key, fields.get("site", "")[:100], fields.get("files") == "present", values, tasks)


def original_of(job: Job) -> Original:
    """The job that is submitted again.

    Raises:
        RequestError: its request is not recorded.
    """
    record = record_of_job(job)
    return Original(job, record, kept_of(record))


def first_form(original: Original, proposed: Proposal | None, tasks: str) -> Form:
    """The form as it is opened: the values of the job, or what is proposed after it lacked memory or time."""
    more, had = _texts((proposed and proposed.request) or Request()), _had(original)
    values = {name: more[name] or had[name] for name in FIELDS}
    return Form(new_key(), original.kept.site, False, values, tasks)


def proposed_for(original: Original, report: Report | None, connections: Connections) -> Proposal | None:
    """What is proposed after the job ran out of memory or time; only then, a batch script is read.

    Raises:
        SlurmgenError: the job cannot be made again.
    """
    is_script = bool(original.kept.batch_script)
    if report is None or (is_script and not lacked(report.main, report.why)):
        return None
    return proposal(report.main, report.why, next_room(original, Request(), None, connections.use))


def arrays_again(original: Original, form: Form, connections: Connections) -> list[Prepared]:
    """The submission; of a sweep that needs several arrays, each of them. It has the key of the form.

    Raises:
        SlurmgenError: the site cannot run the job, or the job cannot be made again.
    """
    wanted = Resubmission(
        original=original,
        changes=merge(_changes(original, form), _only_some(original, form, connections)),
        site=form.site or None,
        present_files=form.present_files,
        command=_command(original, form),
        directory=original.kept.project,
        key=form.key,
    )
    return ready(wanted, route_to(wanted), connections.use).arrays


def submit_again(
    original: Original, form: Form, connections: Connections, known: dict[str, Record]
) -> Record:
    """Submit it exactly once, however often the same form is sent.

    Args:
        original: the job that is submitted again.
        form: what the user chose.
        connections: those of the server.
        known: the job of each form whose key another command's entry replaced.

    Returns:
        The new job; of a sweep with several arrays, the first.

    Raises:
        SlurmgenError: there is no job, or it is not known whether there is one.
    """
    earlier = known.get(form.key) or Ledger().of_key(form.key)
    if earlier and not earlier.pending:
        return _of_this(original, earlier)
    arrays = arrays_again(original, form, connections)
    if earlier and earlier.fingerprint != arrays[0].record.fingerprint:
        raise RequestError(_CHANGED, _AS_SENT)
    with (
        connections.use(arrays[0].route) as transport,
        submit_arrays(arrays, lambda: transport) as outcomes,
    ):
        known[form.key] = outcomes[0].record
    return known[form.key]


def _of_this(original: Original, earlier: Record) -> Record:
    """Refuse the key of a job that is not a resubmission of this one."""
    if resubmits(earlier) != original.record.key:
        raise RequestError("this form is of another job", "Close it, and open it again.")
    return earlier


def _changes(original: Original, form: Form) -> Request:
    """The fields of the request that differ from those of the job."""
    changed = _changed_texts(original, form)
    sbatch = {name: changed.pop(name) for name in SBATCH if name in changed}
    values = {name: _number(text) if name == "gpus" else text for name, text in changed.items()}
    return convert({**values, "sbatch": sbatch}, Request)


def _only_some(original: Original, form: Form, connections: Connections) -> Request:
    """The change of the request that selects tasks of a sweep; none for a whole job."""
    if not form.tasks:
        return Request()
    if form.tasks == FAILED:
        with connections.use(original.job.route) as transport:
            tasks = tasks_that_failed(transport, original.job)
    else:
        tasks = named_tasks(original.record, Target(original.record.id, int(form.tasks)))
    return Request(sweep=Sweep(tasks=tasks))


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise RequestError(f"{text!r} is not a number of GPUs", "Give a whole number.", "gpus")
    return int(text)


def _command(original: Original, form: Form) -> str:
    """The command line that makes the same submission."""
    changed = _changed_texts(original, form)
    options = [f"--{'sbatch=' * (name in SBATCH)}{name}={text}" for name, text in changed.items()]
    site = [f"--site={form.site}"] if form.site not in ("", original.kept.site) else []
    files = ["--present-files"] if form.present_files else []
    failed = ["--failed"] if form.tasks == FAILED else []
    task = f"_{form.tasks}" if form.tasks and not failed else ""
    words = [f"{original.record.id}{task}", *failed, *options, *site, *files, "--unchanged"]
    return shlex.join(["slurmgen", "resubmit", *words])


def _changed_texts(original: Original, form: Form) -> dict[str, str]:
    had = _had(original)
    return {name: text for name, text in form.values.items() if text and text != had[name]}


def _had(original: Original) -> dict[str, str]:
    """What the job asked for; of a batch script, only what overrode its header."""
    kept = original.kept
    return _texts(kept.options if kept.batch_script else kept.request)


def _texts(asked: Request) -> dict[str, str]:
    """The fields of the form, by a request."""
    fields = {name: value for name, value in structs.asdict(asked).items() if value is not None}
    values = given(asked.sbatch) | fields
    return {name: str(values.get(name, "")) for name in FIELDS}
