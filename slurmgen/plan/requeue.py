"""What a job needs so that it is put back in the queue when it was cut short, and only then.

Slurm sends USR2 to all processes of the step before the time limit. The ranks save and leave with
status 75, or make the file REQUEUE_FILE, as launchers hide the status of their ranks; the batch
script looks for either. Not USR1, which NCCL takes.
"""

import re

from slurmgen.errors import RequestError
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.slurm import durations, sbatch_options

LEAD = 120  # seconds: Slurm itself may be a minute early or late
REASONS = {
    "requeue": "Slurm puts back only a job that allows it",
    "open-mode": "each go writes on below the log of the one before",
    "signal": "so long before the end the ranks hear of it, save, and leave with status 75",
}
"Why each sbatch option of such a job is there."
_FOR_RANKS = r"(R:)?(SIG)?USR2@\d+"


def further_options(request: Request, site: Site, time_limit: str | None) -> dict[str, str]:
    """All sbatch options beyond those of every plan; the site overrules requeueing, the request both.

    Raises:
        RequestError: the request wants a requeue and its opposite, or a signal that would not bring it.
    """
    if not request.requeue:
        return sbatch_options.given({**site.sbatch, **request.sbatch})
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise RequestError("--requeue and --sbatch no-requeue exclude each other", "Leave one out.")
    signal = f"USR2@{_lead(time_limit or '')}"
    own = {"requeue": "", "open-mode": "append", "signal": signal}
    said = sbatch_options.given({**own, **site.sbatch, **request.sbatch})
    if not re.fullmatch(_FOR_RANKS, said.get("signal", "")):
        raise RequestError(
            f"with --requeue nobody takes the signal {said.get('signal', 'that is left out')}",
            "Write USR2@SECONDS, or leave it out.",
        )
    return said


def _lead(time_limit: str) -> int:
    """Seconds before the end at which the ranks hear of it: a short job keeps most of its time."""
    return min(LEAD, max(durations.seconds(time_limit) // 4, 1))
