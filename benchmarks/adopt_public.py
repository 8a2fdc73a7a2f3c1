"""Measures `slurmgen adopt` on a folder of batch scripts, which this repository does not contain.

    python benchmarks/adopt_public.py FOLDER [--list]

It counts the scripts whose header becomes one that requests the same: nodes, tasks, GPUs, CPUs, memory, time
and every other option, in any spelling. A name or a log that a script leaves to Slurm is not compared.
`--list` names the scripts that differ. The other numbers are the scripts whose program is found, and those
without a line that is not expressed.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from slurmgen.adopt import Adopted, adopt
from slurmgen.adopt.body import PLACEHOLDER
from slurmgen.lint.reader import read
from slurmgen.sites.profiles import load_site


def cause(made: Adopted) -> str:
    """Why a header differs: the error, or the names of the facts."""
    return made.error or ", ".join(sorted({one.name for one in made.differences}))


def measure(folder: Path, *, listed: bool) -> None:
    """Print the counts of a folder, and the causes of what differs."""
    paths, causes, found = (
        sorted(path for path in folder.rglob("*") if path.is_file()),
        Counter[str](),
        Counter[str](),
    )
    site = load_site("generic", personal=False)
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        made = adopt(text, path.name, site)
        found["GPUs"] += (read(text).job.gpus or 0) > 1
        found["program"] += PLACEHOLDER not in (made.request.command or ())
        found["complete"] += not made.lost
        found["equal"] += not made.differences
        if made.differences:
            causes[cause(made)] += 1
            if listed:
                print(f"{path.name}: {cause(made)}: {made.differences}")
    for key, text in {
        "equal": "have an equal header",
        "program": "have a program that a request expresses",
        "complete": "have no line that is not expressed",
    }.items():
        print(f"{found[key]} of {len(paths)} ({found[key] / len(paths):.1%}) {text}")
    for text, count in causes.most_common():
        print(f"{count:5}  {text}")


if __name__ == "__main__":
    measure(Path(sys.argv[1]), listed="--list" in sys.argv)
