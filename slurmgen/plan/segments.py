"""A job in segments: one job array whose tasks run one after the other, until the training is finished.

One sbatch call submits all of them, and `%1` lets one run at a time. Each task reads in a file of the run
folder how the one before ended, and continues only an unfinished run.
"""

from slurmgen.errors import contradiction
from slurmgen.field_names import option
from slurmgen.request import Request

REASONS = {
    "array": "each task is a segment of the run, and only one of them runs at a time",
    "open-mode": "each segment appends to the log of the segments before",
}
"The reason for each sbatch option of such a job."


def options(request: Request) -> dict[str, str]:
    """The sbatch options of the array.

    Raises:
        RequestError: the request contradicts --segments.
    """
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
