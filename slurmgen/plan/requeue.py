"""The sbatch options of a job that is requeued when its time limit ends it, and only then.

Before the time limit, the ranks are asked to save their state in one of three ways:

- USR2: Slurm sends it to all processes of the step, and launchers ignore it. USR1 is not used because NCCL
  handles it.
- TERM: launchers end their ranks when they get it, and PyTorch's data loaders end too. So Slurm sends
  nothing: a timer in each task sends it to the ranks alone.
- file: a timer in the batch script creates the file STOP_FILE.

The ranks exit with status 75, or create the file REQUEUE_FILE, because launchers hide the exit status of
their ranks. With TERM, the timer creates the file: most programs that handle it end with status 0.
"""

import re

from msgspec import Struct

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import option
from slurmgen.hints import Hint, offered
from slurmgen.launchers import Launcher
from slurmgen.plan import segments
from slurmgen.request import Request
from slurmgen.slurm import durations, sbatch_options
from slurmgen.slurm.sbatch_options import SbatchOptions

LEAD = 120  # seconds; Slurm may send the signal a minute early or late
REASONS = {
    "requeue": "Slurm requeues only a job that allows it",
    "open-mode": "each run of the job appends to the log of the previous run",
    "signal": "that long before the time limit, the ranks save their state and exit with status 75",
}
"The reason for each sbatch option of such a job."
_COMMENTS = {
    "USR2": "Before the time limit, Slurm sends USR2. Launchers ignore it; ranks must save and stop.",
    "TERM": "{} s before the time limit, each task sends TERM to its ranks. They must save and stop.",
    "file": "{} s before the time limit, STOP_FILE appears. The script must watch it: save and stop.",
}
_FOR_RANKS = r"(R:)?(SIG)?USR2@\d+"


class Notice(Struct, frozen=True):
    """How the ranks learn that the time limit is near."""

    by: str
    "USR2, TERM or file."
    lead: int
    "Seconds before the time limit."

    @property
    def comment(self) -> str:
        """What happens then, for the script."""
        return _COMMENTS[self.by].format(self.lead)


def find_notice(request: Request, launcher: Launcher, time_limit: str | None) -> Notice | None:
    """The notice of a job; None without --requeue and --segments.

    Raises:
        RequestError: --requeue-signal without these, or too long before the time limit.
    """
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
    limit = durations.seconds(time_limit or "")
    if seconds and not 0 < int(seconds) < limit:
        raise RequestError(
            f"{option('requeue_signal', by)}@{seconds} is not within the {limit} seconds of the time limit",
            f"Name fewer seconds, or ask for more with {option('time')}.",
        )
    return Notice(by, int(seconds) if seconds else _lead(limit))


def further_options(
    request: Request, of_site: SbatchOptions, constraint: str | None, notice: Notice | None
) -> dict[str, str]:
    """The sbatch options beyond those of every plan; the request overrides the site.

    Raises:
        RequestError: the request contradicts --requeue, or names a signal that prevents it.
    """
    options = sbatch_options.given({**of_site, **request.sbatch, **_constraint(request, of_site, constraint)})
    if not notice:
        return options
    options = _own(request) | _signal(notice) | options
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
        return segments.options(request)
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise contradiction(option("requeue"), option("sbatch", "no-requeue"))
    return {"requeue": "", "open-mode": "append"}


def _signal(notice: Notice) -> dict[str, str]:
    return {"signal": f"USR2@{notice.lead}"} if notice.by == "USR2" else {}


def _constraint(request: Request, of_site: SbatchOptions, of_type: str | None) -> SbatchOptions:
    """The constraint of the GPU type, joined with that of the request or the site."""
    other = {**of_site, **request.sbatch}.get("constraint", "")
    if not of_type or not isinstance(other, str):
        return {}
    parts = [f"({text})" if "|" in text else text for text in (of_type, other) if text]
    return {"constraint": "&".join(parts) if len(parts) > 1 else of_type}


def _lead(limit: int) -> int:
    """Seconds between the notice and the time limit: at most a quarter of a short job."""
    return min(LEAD, max(limit // 4, 1))
