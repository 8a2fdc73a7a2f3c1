"""Steps that run at the same time."""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.launch import Layer
from slurmgen.lint.rules.common import steps
from slurmgen.lint.rules.requests import MEMORY_OPTIONS, megabytes
from slurmgen.text import counted

_OWN_CPUS = ("exact", "exclusive", "cpus-per-task", "overlap")
"Options with which a step takes only the CPUs that it requests, or shares them."
_OTHER_NODES = ("nodelist", "relative", "exclude", "het-group")


@rule("SG215", "warning")
def background_steps(script: Script) -> Iterator[Finding]:
    """Steps in the background wait for each other.

    ## What it checks
    In a job with one node, checks several steps that `&` starts before a `wait`, also in a loop: for
    `--exact`, `--exclusive` or `--cpus-per-task` on each srun; if the header has `--mem`, for memory on each
    srun; and for more GPUs or memory together than the job has. Steps with `--overlap`, or with options in a
    variable that is not known, are not checked.

    ## Why it matters
    A step takes all CPUs of the job unless it has one of these options, and all of its memory unless it
    requests less. The next step starts when the first one ends: "step creation temporarily disabled".

    ## Example
        #SBATCH --nodes=1 --ntasks=2 --gres=gpu:2 --mem=64G
        srun --ntasks=1 --gres=gpu:1 python a.py &
        srun --ntasks=1 --gres=gpu:1 python b.py &
        wait

    ## Use instead
        #SBATCH --nodes=1 --ntasks=2 --gres=gpu:2 --mem=64G
        srun --ntasks=1 --gres=gpu:1 --exact --mem=32G python a.py &
        srun --ntasks=1 --gres=gpu:1 --exact --mem=32G python b.py &
        wait

    ## When to ignore
    If the steps are meant to run one after the other.

    ## Reference
    https://slurm.schedmd.com/srun.html#OPT_exact ; fractal-analytics-platform/fractal-server issue 3094
    """
    if script.job.nodes != 1:
        return
    for group in _groups(script):
        yield from _missing_options(script, group)
        yield from _too_much(script, group)


def _groups(script: Script) -> Iterator[list[tuple[Launch, Layer]]]:
    """The steps that run at the same time: those between two `wait`, and each one in a loop."""
    found = [
        (launch, step)
        for launch, step in steps(script, programs=True)
        if {*launch.command.place} - {"redirected"} in ({"background"}, {"background", "loop"})
    ]
    waits = [command.span.start for command in script.commands if command.name == "wait"]
    groups: dict[int, list[tuple[Launch, Layer]]] = {}
    for launch, step in found:
        at = launch.command.span.start
        groups.setdefault(sum(wait < at for wait in waits), []).append((launch, step))
    for group in groups.values():
        is_several = len(group) > 1 or _is_repeated(script, group[0][0])
        is_known = not any(step.options.open or step.options.first(*_OTHER_NODES) for _, step in group)
        if is_several and is_known:
            yield group


def _is_repeated(script: Script, launch: Launch) -> bool:
    """Whether a loop starts a step several times before a `wait`."""
    after = script.source.plain[launch.command.span.end :]
    body = re.split(r"\bdone\b", after, maxsplit=1)[0]
    return "loop" in launch.command.place and not re.search(r"\bwait\b", body)


def _missing_options(script: Script, group: list[tuple[Launch, Layer]]) -> Iterator[Finding]:
    has_memory = (script.header.value("mem") or "0") != "0"
    for launch, step in group:
        missing = []
        if not step.options.first(*_OWN_CPUS) and "SRUN_CPUS_PER_TASK" not in launch.env:
            missing.append(("all CPUs", "--exact"))
        if has_memory and not step.options.first(*MEMORY_OPTIONS, "overlap"):
            missing.append(("all memory", "--mem=SIZE"))
        if missing:
            what, options = zip(*missing, strict=True)
            yield Finding(
                step.word.span,
                f"this step takes {' and '.join(what)} of the job, so that the other steps wait for its end",
                f"add `{' '.join(options)}` to srun",
            )


def _too_much(script: Script, group: list[tuple[Launch, Layer]]) -> Iterator[Finding]:
    """Whether steps request more GPUs or memory together than the job has; a loop may start any number."""
    if any("loop" in launch.command.place or step.options.first("overlap") for launch, step in group):
        return
    place = group[-1][1].word.span
    own = [script.step(launch).gpus_per_node for launch, step in group if step.options.first("gres", "gpus")]
    gpus, has = sum(count or 0 for count in own), script.job.gpus_per_node
    if has and len(own) == len(group) and gpus > has:
        yield Finding(
            place,
            f"the steps in the background request {gpus} GPUs together, but the job has {has}",
            f"request {counted(gpus, 'GPU')}, or fewer for each step",
        )
    sizes = [megabytes(step.options.text("mem") or "") for _, step in group]
    most = megabytes(script.header.value("mem") or "")
    if most and all(sizes) and sum(sizes) > most:
        yield Finding(
            place,
            f"the steps in the background request {sum(sizes)} MiB together, but the job has {most}",
            "request more memory, or less for each step",
        )
