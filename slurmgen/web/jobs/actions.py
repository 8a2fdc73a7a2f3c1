"""Cancel jobs and submit them again, from the page."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

from msgspec import Struct, convert, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Races
from slurmgen.ledger.request import kept_of, resubmits
from slurmgen.remote.route import Route as Place
from slurmgen.remote.transport import Transport
from slurmgen.request.model import Request as JobRequest
from slurmgen.sites.profiles import profile_paths
from slurmgen.slurm.sbatch_options import given
from slurmgen.status import sweep
from slurmgen.status.job import Job, group_by_route, table_of
from slurmgen.status.query import save_final_states
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN
from slurmgen.submit.again import Original, Resubmission, Target, original_script, proposed, script_diff
from slurmgen.submit.cancel import cancel_all
from slurmgen.submit.how import How
from slurmgen.submit.job import ready, submit
from slurmgen.submit.prepare import Prepared, new_key
from slurmgen.submit.proposal import PER_CPU, PER_GPU, Proposal
from slurmgen.submit.submission import Login, Observer
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.poller import Connections, State, state_of
from slurmgen.web.jobs.request import asked_job, query_of
from slurmgen.web.jobs.rows import job_of, key_of, record_of, record_of_job
from slurmgen.web.pages import page, with_fields

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


def first_form(original: Original, proposed: Proposal | None, tasks: str) -> Form:
    """The form as it is opened: the values of the job, or what is proposed after it lacked memory or time."""
    more, had = _texts((proposed and proposed.request) or JobRequest()), _had(original)
    values = {name: more[name] or had[name] for name in FIELDS}
    return Form(new_key(), original.kept.site, False, values, tasks)


def proposed_for(original: Original, report: Report | None, connections: Connections) -> Proposal | None:
    """What is proposed after the job ran out of memory or time.

    Raises:
        SlurmgenError: the job cannot be made again.
    """
    wanted = Resubmission(original=original)
    if not original.kept.batch_script:
        wanted.spec().plan()
    return proposed(wanted, report, connections.use) if report else None


class _Pooled(Observer):
    """Uses the connections of the page, and refuses another submission than the earlier one of its form."""

    def __init__(self, connections: Connections, earlier: Record | None = None) -> None:
        self._connections, self._earlier = connections, earlier

    def login(self, route: Place, *, starts: bool) -> Login:
        """See Observer."""
        return _PooledLogin(route, self._connections)

    def prepared(self, arrays: Sequence[Prepared]) -> None:
        """See Observer."""
        if self._earlier and self._earlier.fingerprint != arrays[0].record.fingerprint:
            raise RequestError(_CHANGED, _AS_SENT)


class _PooledLogin(Login):
    """Connections of the page, for one submission."""

    def __init__(self, route: Place, connections: Connections) -> None:
        super().__init__(route, starts=False)
        self._stack, self._connections = ExitStack(), connections

    def use(self, route: Place) -> AbstractContextManager[Transport]:
        """See Login."""
        return self._connections.use(route)

    def transport(self) -> Transport:
        """See Login."""
        return self._stack.enter_context(self._connections.use(self._route))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def wanted_by(original: Original, form: Form) -> tuple[Resubmission, How]:
    """What the form asks for. The submission has the key of the form.

    Raises:
        RequestError: a value is not valid.
    """
    number = form.tasks if form.tasks != FAILED else ""
    wanted = Resubmission(
        original=original,
        changes=_changes(original, form),
        site=form.site or None,
        present_files=form.present_files,
        tasks=Target(original.record.id, int(number)) if number else None,
        failed=form.tasks == FAILED,
        key=form.key,
    )
    return wanted, How(command=_command(original, form), directory=original.kept.project)


def submit_again(
    original: Original, form: Form, connections: Connections, known: dict[str, Record]
) -> Record:
    """Submit it exactly once, however often the same form is sent.

    Args:
        known: the job of each form whose key another command's entry replaced.

    Returns:
        The new job; of a sweep with several arrays, the first.

    Raises:
        SlurmgenError: there is no job, or it is not known whether there is one.
    """
    earlier = known.get(form.key) or Ledger().of_key(form.key)
    if earlier and not earlier.pending:
        return _of_this(original, earlier)
    with submit(*wanted_by(original, form), _Pooled(connections, earlier)) as outcomes:
        known[form.key] = outcomes[0].record
    return known[form.key]


def _of_this(original: Original, earlier: Record) -> Record:
    """Refuse the key of a job that is not a resubmission of this one."""
    if resubmits(earlier) != original.record.key:
        raise RequestError("this form is of another job", "Close it, and open it again.")
    return earlier


def _changes(original: Original, form: Form) -> JobRequest:
    changed = _changed_texts(original, form)
    sbatch = {name: changed.pop(name) for name in SBATCH if name in changed}
    values = {name: _number(text) if name == "gpus" else text for name, text in changed.items()}
    return convert({**values, "sbatch": sbatch}, JobRequest)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise RequestError(f"{text!r} is not a number of GPUs", "Give a whole number.", "gpus")
    return int(text)


def _command(original: Original, form: Form) -> str:
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
    kept = original.kept
    return _texts(kept.options if kept.batch_script else kept.request)


def _texts(asked: JobRequest) -> dict[str, str]:
    fields = {name: value for name, value in structs.asdict(asked).items() if value is not None}
    values = given(asked.sbatch) | fields
    return {name: str(values.get(name, "")) for name in FIELDS}


def ask_cancel(request: Request) -> Response:
    """The confirmation."""
    return _dialog(request, _reports(request))


def do_cancel(request: Request) -> Response:
    """Cancel, and show what Slurm replied."""
    reports = _reports(request)
    try:
        done = _cancelled(state_of(request), reports)
    except SlurmgenError as error:
        return _dialog(request, reports, error=error)
    return _dialog(request, reports, done=done)


def _dialog(
    request: Request,
    reports: Sequence[Report],
    error: SlurmgenError | None = None,
    done: Sequence[Report] = (),
) -> Response:
    query = query_of(request)
    is_task = _is_task(reports[0].job)
    values = {"reports": reports, "is_task": is_task, "query": query, "error": error, "done": done}
    return page(request, "job_cancel.html", 422 if error else 200, **values)


def _cancelled(state: State, reports: Sequence[Report]) -> list[Report]:
    """Cancel those jobs that have not ended, and give up what is still submitted.

    Returns:
        What is known of all of them then.
    """
    jobs = [report.job for report in reports]
    done = cancel_all(jobs, state.connections.use, lambda _line: None)
    whole = [report for report in done if not _is_task(report.job)]
    save_final_states(whole)
    for route in group_by_route(jobs):
        state.board.put(route, [report for report in whole if report.job.route == route])
        state.poller.hurry(route)
    return done


def _is_task(job: Job) -> bool:
    """Whether it is one task of a job; its state is not the job's."""
    return str(job.id) != record_of_job(job).id


def _reports(request: Request) -> list[Report]:
    is_whole = request.query_params.get("whole") == "1"
    job, board = asked_job(request, may_be_pending=is_whole), state_of(request).board
    record, alone = record_of_job(job), Report(job=job, state=UNKNOWN)
    if _is_task(job):
        return [alone]
    board.read()
    group = together(board, record) if is_whole else []
    return group or [board.report(key_of(record)) or alone]


def together(board: Board, record: Record) -> list[Report]:
    """What is known of the group of a job; of a race also of the jobs that are still being submitted.

    A race only ends if all of them are cancelled.
    """
    race = Races().of(record)
    entries = Races().entries(race) if race else ()
    return [report for one in entries if (report := board.report(key_of(one)))] or board.group(record.part_of)


CANCEL_ROUTES = (
    Route("/jobs/{key}/cancel", ask_cancel),
    Route("/jobs/{key}/cancel", do_cancel, methods=["POST"]),
)

_LABELS = {"time": "Time limit", "gpus": "GPUs"}
_MEMORY = {"mem": "Memory per node", PER_CPU: "Memory per CPU", PER_GPU: "Memory per GPU"}


def ask_resubmit(request: Request) -> Response:
    """The form."""
    board, job = state_of(request).board, asked_job(request, may_be_pending=True)
    board.read()
    try:
        original = _original(request)
        report = board.report_of(job)
        proposed = proposed_for(original, report, state_of(request).connections)
        form = first_form(original, proposed, _tasks(job, _failed(request, original)))
    except SlurmgenError as error:
        return page(request, "job_refused.html", 422, error=error)
    is_second = bool(report and report.states and not report.ended)
    values = _values(request, original, form) | {"proposed": proposed, "is_second": is_second, "error": None}
    return page(request, "job_resubmit.html", **values)


def _tasks(job: Job, failed: int) -> str:
    _, _, task = job.id.number.partition("_")
    return task or (FAILED if failed else "")


def _failed(request: Request, original: Original) -> int:
    board, record = state_of(request).board, original.record
    reports = board.group(record.part_of) or list(filter(None, [board.report(key_of(record))]))
    states = (state.state for report in reports for state in report.states)
    return sum(state in sweep.FAILED for state in states) if record.tasks else 0


@with_fields
def preview(request: Request, given: dict[str, str]) -> Response:
    """How the script will differ."""
    connections = state_of(request).connections
    try:
        original, form = _original(request), Form.of(given)
        with ready(*wanted_by(original, form), _Pooled(connections)) as ((prepared, *_), _):
            made = prepared.submission
        with connections.use(original.job.route) as transport:
            before = original_script(transport, original)
    except SlurmgenError as error:
        return page(request, "job_error.html", error=error)
    lines = (script_diff(before, made.script) if before else made.script).splitlines()
    options = shlex.join(made.sbatch_options)
    return page(request, "job_changes.html", lines=lines, is_diff=bool(before), options=options)


@with_fields
def do_resubmit(request: Request, given: dict[str, str]) -> Response:
    """Submit it, and show the new job."""
    state = state_of(request)
    try:
        original, form = _original(request), Form.of(given)
    except SlurmgenError as error:
        return page(request, "job_refused.html", 422, error=error)
    try:
        record = submit_again(original, form, state.connections, state.submitted)
    except SlurmgenError as error:
        values = _values(request, original, form) | {"proposed": None, "is_second": False, "error": error}
        return page(request, "job_resubmit.html", 422, **values)
    state.board.read()
    state.poller.hurry(job_of(record).route)
    return page(request, "job_submitted.html", original=original.record, record=record, key=key_of(record))


def _original(request: Request) -> Original:
    """The job that is submitted again.

    Raises:
        RequestError: its request is not recorded.
    """
    record = record_of(request.path_params["key"])
    return Original(job_of(record), record, kept_of(record))


def _values(request: Request, original: Original, form: Form) -> dict[str, Any]:
    table = table_of(original.record)
    task = form.tasks if form.tasks != FAILED else ""
    memory = {name for name in _MEMORY if form.values[name]} or {"mem"}
    return {
        "failed": _failed(request, original),
        "task": task,
        "parameters": table.tasks.get(int(task), ()) if table and task else (),
        "original": original,
        "key": key_of(original.record),
        "form": form,
        "labels": _LABELS | {name: label for name, label in _MEMORY.items() if name in memory},
        "sites": sorted({original.kept.site, *profile_paths()}),
    }


RESUBMIT_ROUTES = (
    Route("/jobs/{key}/resubmit", ask_resubmit),
    Route("/jobs/{key}/resubmit", do_resubmit, methods=["POST"]),
    Route("/jobs/{key}/resubmit/preview", preview, methods=["POST"]),
)
