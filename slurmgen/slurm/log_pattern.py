"""The patterns that sbatch replaces in the name of a log."""

import re

PATTERN = re.compile(r"%(\d*)([xjJAa%])", re.ASCII)
"The patterns that need no more than a job's id and name, each with the width to which Slurm pads a number."


def is_of_task(output: str) -> bool:
    """Whether each task of an array has a log of its own.

    >>> is_of_task("%x-%A_%4a.out"), is_of_task("50%%a-%A.out")
    (True, False)
    """
    return any(match[2] == "a" for match in PATTERN.finditer(output))
