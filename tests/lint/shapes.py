"""Random headers and steps: what the reader says of their size, beside what a real Slurm gives.

`python -m tests.lint.shapes 300` prints each difference and the share that the reader knows.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slurmgen.lint.reader import read
from tests.support.twins import Testbed, twin

PROGRAM = """#!/bin/sh
echo "seen $SLURM_STEP_NUM_NODES $SLURM_STEP_NUM_TASKS ${CUDA_VISIBLE_DEVICES:-none}"
"""
"Named like a Python script, which the reader takes for a launch."
FIELDS = ("nodes", "tasks", "GPUs of a task")
SIZES: dict[str, Sequence[str]] = {
    "--nodes": ("", "=1", "=2"),
    "--ntasks": ("", "", "=1", "=2", "=4"),
    "--ntasks-per-node": ("", "", "=1", "=2"),
    "--tasks-per-node": ("", "", "", "=2"),
    "--ntasks-per-gpu": ("", "", "", "", "=1"),
    "--cpus-per-task": ("", "=2"),
    "--gres": ("", "=gpu:1", "=gpu:2"),
    "--gpus": ("", "", "=2", "=4"),
    "--gpus-per-node": ("", "", "=1", "=2"),
    "--gpus-per-task": ("", "", "", "=1"),
    "--gpu-bind": ("", "", "", "", "=single:1"),
}
"""The options with the ends of their words; an empty one leaves the option out.

Not `--gpu-bind=none`: Slurm then sets no CUDA_VISIBLE_DEVICES that could be counted.
"""
SHORT = {"--nodes=": "-N", "--ntasks=": "-n", "--cpus-per-task=": "-c", "--gpus=": "-G"}


class Size(NamedTuple):
    """The nodes, the tasks, and the GPUs that each task sees; None for what the reader does not know."""

    nodes: int | None
    tasks: int | None
    gpus: int | None


def scripts(number: int, seed: int) -> Iterator[str]:
    """Random scripts with a header and one step."""
    chance = random.Random(seed)  # noqa: S311
    for _ in range(number):
        header = " ".join(options(chance, 0.5))
        yield f"#!/bin/bash\n#SBATCH --time=5 {header}\nsrun {' '.join(options(chance, 0.12))} ./show.py\n"


def options(chance: random.Random, share: float) -> Iterator[str]:
    """A random choice of options, some in their short form or abbreviated."""
    for name, values in SIZES.items():
        value = chance.choice(values)
        if not value or chance.random() > share:
            continue
        short = SHORT.get(f"{name}=")
        if short and chance.random() < 0.3:
            yield f"{short} {value[1:]}"
        else:
            yield name.replace("cpus-per-task", "cpus-per-ta") + value


def said(text: str) -> Size:
    """What the reader says."""
    script = read(text)
    step = script.step(script.launches[0])
    return Size(step.nodes, step.ntasks, step.visible_gpus)


def given(testbed: Testbed, texts: Sequence[str]) -> list[Size | None]:
    """What Slurm gives to each script; None for one that it refuses, or whose step fails."""
    program = testbed.folder / "show.py"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    jobs = []
    for number, text in enumerate(texts):
        (testbed.folder / f"{number}.sh").write_text(text)
        jobs.append(testbed.tried("sbatch", "--parsable", "--output=%j.log", f"{number}.sh").strip())
    return [size(testbed, job) if job else None for job in jobs]


def size(testbed: Testbed, job: str) -> Size | None:
    """What the tasks of a job saw."""
    state = testbed.wait(job, 120)
    log = (testbed.folder / f"{job}.log").read_text() if state != "PENDING" else ""
    lines = [line.split() for line in log.splitlines() if line.startswith("seen ")]
    if not lines or state != "COMPLETED":
        return None
    gpus = {0 if line[3] == "none" else len(line[3].split(",")) for line in lines}
    return Size(int(lines[0][1]), int(lines[0][2]), gpus.pop() if len(gpus) == 1 else None)


def differences(texts: Sequence[str], sizes: Sequence[Size | None]) -> Iterator[str]:
    """Each value of the reader that is not what Slurm gave."""
    for text, right in zip(texts, sizes, strict=True):
        for field, ours, theirs in zip(FIELDS, said(text), right or (), strict=False):
            if ours is not None and theirs is not None and ours != theirs:
                yield f"{field}: {ours} instead of {theirs}\n{text}"


def main(number: int) -> int:
    """Print the differences and the shares; 1 if there is a difference."""
    texts = list(scripts(number, seed=1))
    with twin("olivia", nodes=2) as testbed:
        sizes = given(testbed, texts)
    found = list(differences(texts, sizes))
    run = [text for text, right in zip(texts, sizes, strict=True) if right]
    known = [sum(said(text)[at] is not None for text in run) for at in range(len(FIELDS))]
    shares = ", ".join(f"{field} {count}" for field, count in zip(FIELDS, known, strict=True))
    summary = f"{len(run)} of {number} ran; known to the reader: {shares}; differences: {len(found)}"
    sys.stdout.write("\n".join([*found, summary, ""]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
