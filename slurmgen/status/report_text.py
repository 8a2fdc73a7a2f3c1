"""Reports as lines for a terminal. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import structs

from slurmgen.slurm import units
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import WAITING, JobState, Usage, in_one_form
from slurmgen.status import preflight_reports
from slurmgen.status.job import Job
from slurmgen.status.preflight_reports import Found
from slurmgen.status.report import Report
from slurmgen.status.segments import WHAT_TO_DO
from slurmgen.status.sweep import cause, is_sweep, tally
from slurmgen.text import counted, visible

USE_EXCLUDED = (
    "Run `slurmgen cancel {}`. Then submit it for fewer nodes, or with --no-exclude-bad-nodes; "
    "`slurmgen nodes` lists and clears bad nodes."
)
"For a job that no nodes are left for."
RELEASE = (
    "Run `scontrol release {}` on the cluster, or `slurmgen cancel {}`. If it is held again, tell the site's "
    "support: a node has a fault."
)
"For a job that Slurm holds."
MAX_TASKS = 20
"Tasks of an array that are listed."


def lines(report: Report) -> Iterator[str]:
    """The state of a job, and what explains it."""
    yield from map(visible, head(report))
    yield from (f"  {visible(': '.join(filter(None, pair)))}" for pair in details(report))


def origin(job: Job) -> Iterator[tuple[str, str]]:
    """Where a job of the ledger comes from, as labels and texts; empty for another job."""
    record, route = job.record, job.route
    if record is None:
        return
    changes = "with uncommitted changes (dirty)" if record.dirty else "clean"
    rows = (
        ("site", f"{route.place} on this machine" if route.via == "twin" else route.site),
        ("submitted", local_time(record.submitted)),
        ("commit", record.commit and f"{record.commit}, {changes}"),
        ("command", record.command),
        ("run in", record.directory),
    )
    yield from ((label, text) for label, text in rows if text)


def local_time(utc: str) -> str:
    """A time of the ledger in the time zone of this machine; the text itself if it is not a time."""
    try:
        return datetime.fromisoformat(utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return utc


def describe(states: Sequence[JobState], job: JobId, where: str) -> list[str]:
    """Slurm's states of a job in lines: one, or one for each task of an array."""
    return [visible(_state_line(state)) for state in states] or [_gone(job, where)]


def head(report: Report) -> Iterator[str]:
    """The state of a job, and of the tasks of an array."""
    job = report.job
    if report.error:
        name = f"job {job.id}" if job.id.number else f"submission {job.record.key if job.record else ''}"
        yield f"{name} is {report.state}: {report.error}"
    elif not report.states:
        yield _gone(job.id, job.route.site)
    elif report.segment:
        yield _state_line(structs.replace(report.main, id=job.id.number, name=report.name), report.segment)
    elif report.is_array or is_sweep(report):
        yield from _array_lines(report)
    else:
        yield _state_line(report.states[0])


def _array_lines(report: Report) -> Iterator[str]:
    states = report.states
    if is_sweep(report):
        yield f"job {report.job.id} ({report.name}) is {report.state}: {tally(report)}"
        return
    counts = Counter(state.state for state in states)
    numbers = ", ".join(f"{number} {state}" for state, number in counts.most_common())
    yield f"job {report.job.id} ({report.name}) is {report.state}, an array of {len(states)}: {numbers}"
    # Tasks that need attention come first.
    ordered = sorted(states, key=lambda state: (state.state in {"COMPLETED", "PENDING"}, state.state))
    yield from (f"  {_state_line(state)}" for state in ordered[:MAX_TASKS])
    if len(states) > MAX_TASKS:
        yield f"  and {len(states) - MAX_TASKS} more; --json lists all"


def details(report: Report) -> Iterator[tuple[str, str]]:
    """What explains the state of a job: a label and a text, or no label and a sentence."""
    yield from (("", text) for text in [report.lost] if text)
    yield from (("last known", known.text()) for known in [report.last_known] if known)
    yield from _waiting(report)
    yield from _failure(report)
    if report.usage and report.elapsed and not report.is_array:
        used = ", ".join(_used(report.usage, report.elapsed, report.time_limit))
        yield from (("used", text) for text in [used] if text)
        yield from (("enough", str(smaller)) for smaller in [report.enough] if smaller)
    if report.remembered:
        yield "remembered", report.remembered


def _waiting(report: Report) -> Iterator[tuple[str, str]]:
    if report.waits:
        yield "why", report.waits
    if report.requeued and not (report.segment and report.ended):
        yield "before" if report.segment else "requeued", report.requeued.text
    if report.excludes:
        yield "excludes", report.excludes
    yield from (("do", text) for text in [_todo(report)] if text)
    if report.state == "PENDING" and report.main.start and not report.is_held:
        yield "", f"expected to start at {report.main.start}"


def _todo(report: Report) -> str:
    if report.held_task:
        return RELEASE.format(report.held_task, report.job.id)
    todo = WHAT_TO_DO if report.is_stuck else USE_EXCLUDED if report.lacks_nodes else ""
    return todo.format(report.job.id)


def _failure(report: Report) -> Iterator[tuple[str, str]]:
    if report.why and (text := cause(report)):
        yield "why", text
        place = ":".join(filter(None, [report.why.file, str(report.why.number or "")]))
        yield from (("at", text) for text in [place] if text)
        yield from (("log", text) for text in report.why.line.splitlines())
        yield from (("do", text) for text in [report.why.todo] if text)
    if not _names_its_bad_node(report):
        yield from ((f"bad node {node}", finding.text) for node, finding in report.bad_nodes.items())


def _names_its_bad_node(report: Report) -> bool:
    """Whether the only bad node is why the job failed."""
    cause = preflight_reports.why(Found(report.bad_nodes)) if len(report.bad_nodes) == 1 else None
    return bool(cause and report.why and cause.what == report.why.what)


def _used(usage: Usage, elapsed: int, time_limit: int | None) -> Iterator[str]:
    if usage.memory and usage.memory_used:
        yield f"memory {units.canonical_size(usage.memory_used)} of {units.canonical_size(usage.memory)}"
    if usage.cpus and usage.cpu_seconds is not None:
        yield f"{100 * usage.cpu_seconds / (elapsed * usage.cpus):.0f} % of {counted(usage.cpus, 'CPU')}"
    if time_limit:
        yield f"{100 * elapsed / time_limit:.0f} % of its time limit"
    if usage.gpus:
        share = "unknown use" if usage.gpu_percent is None else f"{usage.gpu_percent} %"
        yield f"{share} of {counted(usage.gpus, 'GPU')}"


def _gone(job: JobId, where: str) -> str:
    return (
        f"job {job} is gone from the records of {where}: Slurm forgets a job some minutes after its end, "
        "and accounting has no record of it"
    )


def _state_line(state: JobState, segment: str = "") -> str:
    name = f" ({state.name})" if state.name else ""
    details = (
        f"in {segment}" if segment else "",
        f"({state.reason})" if state.reason and not state.ended else "",
        f"after {in_one_form(state.elapsed)}" if state.elapsed and state.state not in WAITING else "",
        f"on {state.nodes}" if state.nodes else "",
        f"with exit code {state.end}" if state.end else "",
    )
    return " ".join([f"job {state.id}{name} is {state.state}", *filter(None, details)])
