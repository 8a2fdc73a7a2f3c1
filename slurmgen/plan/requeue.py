"""How a job continues: requeue, segments, mail, bad nodes and the gate of a race."""

import re
from typing import NamedTuple

from slurmgen.errors import Hint, RequestError, cleared, contradiction, did_you_mean, offered, option
from slurmgen.launchers import Launcher
from slurmgen.plan.model import Notice
from slurmgen.request.model import NONE, Request
from slurmgen.slurm import sbatch_options, units
from slurmgen.slurm.sbatch_options import SbatchOptions

LEAD = 120  # seconds; Slurm may send the signal a minute early or late
REASONS = {
    "requeue": "Slurm requeues only a job that allows it",
    "open-mode": "each run of the job appends to the log of the previous run",
    "signal": "that long before the time limit, the ranks save their state and exit with status 75",
}
"The reason for each sbatch option of such a job."

_FOR_RANKS = r"(R:)?(SIG)?USR2@\d+"


def find_notice(request: Request, launcher: Launcher, time_limit: str | None) -> Notice | None:
    """The notice of a job; None without --requeue and --segments."""
    if not request.may_stop_early:
        if request.requeue_signal and request.requeue is None:
            raise RequestError(
                f"{option('requeue_signal')} has no effect without {option('requeue')} "
                f"or {option('segments')}",
                Hint("Add one of them.", offered("requeue", "yes")),
            )
        return None
    by, _, seconds = (request.requeue_signal or launcher.requeue_signal).partition("@")
    if by == "TERM" and launcher.why_not_term:
        raise RequestError(
            f"{option('requeue_signal', 'TERM')} does not work with {launcher.name}: {launcher.why_not_term}",
            Hint("Use USR2 or file.", offered("requeue_signal", "USR2", "file")),
        )
    if request.requeue_signal and (seconds or by != "USR2") and "signal" in request.sbatch:
        raise contradiction(option("requeue_signal"), option("sbatch", "signal"))
    limit = units.seconds(time_limit or "")
    if seconds and not 0 < int(seconds) < limit:
        raise RequestError(
            f"{option('requeue_signal', by)}@{seconds} is not within the {limit} seconds of the time limit",
            f"Name fewer seconds, or ask for more with {option('time')}.",
        )
    # At most a quarter of a short job.
    return Notice(by, int(seconds) if seconds else min(LEAD, max(limit // 4, 1)))


def further_options(
    request: Request, of_site: SbatchOptions, constraint: str | None, notice: Notice | None
) -> dict[str, str]:
    """The further sbatch options of a plan; the request overrides the site."""
    options = sbatch_options.given({**of_site, **request.sbatch, **_constraint(request, of_site, constraint)})
    if not notice:
        return options
    signal = {"signal": f"USR2@{notice.lead}"} if notice.by == "USR2" else {}
    options = _own(request) | signal | options
    for log in ("error", "output"):
        if not options.get(log, ".out").endswith((".err", ".out")):
            raise RequestError(
                f"{option('sbatch', log)}={options[log]} would count as progress of a requeued job",
                "Choose a name that ends with .err or .out.",
            )
    signal_option = options.get("signal", "")
    if notice.by == "USR2" and not re.fullmatch(_FOR_RANKS, signal_option):
        field = "segments" if request.in_segments else "requeue"
        raise RequestError(
            f"{option(field)} needs the signal USR2, and --signal is {signal_option or 'missing'}",
            f"Set {option('sbatch', 'signal=USR2@SECONDS')}, leave it out, "
            f"or choose another {option('requeue_signal')}.",
        )
    return options


def _own(request: Request) -> dict[str, str]:
    if request.in_segments:
        return _segment_options(request)
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise contradiction(option("requeue"), option("sbatch", "no-requeue"))
    return {"requeue": "", "open-mode": "append"}


def _constraint(request: Request, of_site: SbatchOptions, of_type: str | None) -> SbatchOptions:
    other = {**of_site, **request.sbatch}.get("constraint", "")
    if not of_type or not isinstance(other, str):
        return {}
    parts = [f"({text})" if "|" in text else text for text in (of_type, other) if text]
    return {"constraint": "&".join(parts) if len(parts) > 1 else of_type}


TRIES = 3
"How often a job starts in all that leaves bad nodes."
RETRY_REASONS = {
    "requeue": "the job leaves a bad node by a requeue, which Slurm must allow",
    "open-mode": "each run of the job appends to the log of the previous run",
}
"The reason for each sbatch option of a job that leaves bad nodes."
# One name, or several in brackets as Slurm writes them, such as gpu[1-3,7].
_NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:\[[0-9,-]{1,200}\][A-Za-z0-9._-]{0,99}){0,4}")


class Excluded(NamedTuple):
    """A node that a job excludes, and why."""

    node: str
    why: str


def excluded(request: Request) -> tuple[Excluded, ...]:
    """The nodes that a request excludes."""
    parts = (text.partition("=") for text in request.exclude or ())
    nodes = tuple(Excluded(node, why.strip()) for node, _, why in parts)
    for node, _ in nodes:
        if not _NODES.fullmatch(node):
            raise RequestError(
                f"{option('exclude')} {node!r} is not the name of a node",
                "Write NODE, NODE=WHY, or gpu[1-3].",
            )
    return nodes


def with_bad_nodes(request: Request, options: dict[str, str]) -> dict[str, str]:
    """The further sbatch options of a job, with those for bad nodes."""
    if request.on_bad_node == "retry":
        _check_requeue(request)
        options = {"requeue": "", "open-mode": "append"} | options
        options.pop("no-requeue", None)
    nodes = [node for node, _ in excluded(request)]
    if nodes:
        own = options.get("exclude", "")
        options = options | {"exclude": ",".join(dict.fromkeys([own, *nodes] if own else nodes))}
    return options


def _check_requeue(request: Request) -> None:
    if not request.preflight:
        raise RequestError(
            f"{option('on_bad_node')} has no effect without {option('preflight')}",
            Hint(
                f"Add {option('preflight')}, or leave it out.",
                (*offered("preflight", "yes"), *cleared("on_bad_node")),
            ),
        )
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise contradiction(option("on_bad_node", "retry"), option("sbatch", "no-requeue"))


def bad_node_refusals(request: Request) -> dict[str, str]:
    """What to do when Slurm has too few nodes for a job that excludes some, by a part of its message."""
    todo = (
        "The job excludes nodes: submit it with --no-exclude-bad-nodes, or clear some with `slurmgen nodes`. "
        "Else request less, or another --partition or --gpu-type."
    )
    return {"node configuration is not available": todo} if request.exclude else {}


def why_no_requeue(request: Request) -> str:
    """Why a job is not requeued at its time limit, if nothing is requested."""
    retry = request.on_bad_node == "retry"
    return f"not requested{'; only a bad node requeues the job' if retry else ''}"


def bad_node_reason(request: Request, option: str) -> str | None:
    """Why a job has an sbatch option, if it is for bad nodes."""
    if option == "exclude" and request.exclude:
        also = " and of --sbatch exclude" if sbatch_options.given(request.sbatch).get(option) else ""
        return f"the nodes of --exclude{also}"
    is_own = request.on_bad_node != "retry" or option in request.sbatch
    return None if is_own else RETRY_REASONS.get(option)


GATE_SECONDS = 600
"""Seconds that the script waits for its gate. Only a client that was stopped needs so long to open one: it
looks for a start at least every half minute. What the job waits counts as used time."""

GATE_SHUT = 76
"Exit status of a script whose gate was not opened."

EVENTS = frozenset(
    """
    all array_tasks begin end fail invalid_depend requeue stage_out time_limit time_limit_50 time_limit_80
    time_limit_90
    """.split()
)
"Of --mail-type, in lower case. https://slurm.schedmd.com/sbatch.html#OPT_mail-type"
FIELDS = {"mail-type": "mail", "mail-user": "mail_user"}
"The field of the request that sets an option."
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def with_mail(request: Request, options: dict[str, str]) -> dict[str, str]:
    """The further sbatch options of a job, with those for mail."""
    if request.mail_user is not None and not _ADDRESS.fullmatch(request.mail_user):
        raise RequestError(
            f"{option('mail_user')} {request.mail_user!r} is not an address",
            "Write one such as NAME@example.org.",
        )
    if request.mail in (None, NONE):
        return options
    events = [text.strip() for text in (request.mail or "").split(",")]
    for name in events:
        if name.lower() not in EVENTS:
            hint = did_you_mean(name.lower(), EVENTS, "mail")
            raise RequestError(f"{option('mail')}: {name!r} is not an event", hint)
    own = {"mail-type": ",".join(events).upper()} | (
        {"mail-user": request.mail_user} if request.mail_user else {}
    )
    if twice := own.keys() & request.sbatch.keys():
        raise contradiction(option("mail"), option("sbatch", min(twice)))
    return options | own


SEGMENT_REASONS = {
    "array": "each task is a segment of the run, and only one of them runs at a time",
    "open-mode": "each segment appends to the log of the segments before",
}
"The reason for each sbatch option of such a job."


def _segment_options(request: Request) -> dict[str, str]:
    contradictions = {
        option("requeue"): request.requeue,
        option("on_bad_node", "retry"): request.on_bad_node == "retry",
        option("sbatch", "array"): "array" in request.sbatch,
        option("sweep"): request.sweep is not None,
    }
    for other, is_asked in contradictions.items():
        if is_asked:
            then = "Leave one out; an unfinished run continues in its next segment."
            raise contradiction(option("segments"), other, then=then)
    return {"array": f"1-{request.segments}%1", "open-mode": "append"}
