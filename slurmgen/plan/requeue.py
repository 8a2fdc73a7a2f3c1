"""The sbatch options of a job that is requeued when its time limit ends it, and only then.

Slurm sends USR2 to all processes of the step before the time limit. The ranks save their state and exit
with status 75, or create the file REQUEUE_FILE, because launchers hide the exit status of their ranks.
The batch script checks for both. USR1 is not used because NCCL handles it.
"""

import re

from slurmgen.errors import RequestError
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
_FOR_RANKS = r"(R:)?(SIG)?USR2@\d+"


def further_options(
    request: Request, of_site: SbatchOptions, constraint: str | None, time_limit: str | None
) -> dict[str, str]:
    """The sbatch options beyond those of every plan; the request overrides the site.

    Raises:
        RequestError: the request contradicts --requeue, or names a signal that prevents it.
    """
    options = sbatch_options.given({**of_site, **request.sbatch, **_constraint(request, of_site, constraint)})
    if not request.requeue:
        return options
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise RequestError("--requeue and --sbatch no-requeue exclude each other", "Leave one out.")
    signal = f"USR2@{_lead(time_limit or '')}"
    options = {"requeue": "", "open-mode": "append", "signal": signal} | options
    signal_option = options.get("signal", "")
    if not re.fullmatch(_FOR_RANKS, signal_option):
        raise RequestError(
            f"--requeue needs the signal USR2, and --signal is {signal_option or 'missing'}",
            "Set --sbatch signal=USR2@SECONDS, or leave it out.",
        )
    return options


def _constraint(request: Request, of_site: SbatchOptions, of_type: str | None) -> SbatchOptions:
    """The constraint of the GPU type, joined with that of the request or the site."""
    other = {**of_site, **request.sbatch}.get("constraint", "")
    if not of_type or not isinstance(other, str):
        return {}
    parts = [f"({text})" if "|" in text else text for text in (of_type, other) if text]
    return {"constraint": "&".join(parts) if len(parts) > 1 else of_type}


def _lead(time_limit: str) -> int:
    """Seconds between the signal and the time limit: at most a quarter of a short job."""
    return min(LEAD, max(durations.seconds(time_limit) // 4, 1))
