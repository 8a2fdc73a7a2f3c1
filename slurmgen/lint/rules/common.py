"""What several rules ask of a script."""

from collections.abc import Iterator

from slurmgen.launchers import LAUNCHERS, Launcher
from slurmgen.lint.finding import Edit
from slurmgen.lint.reader import Assignment, Launch, Script, Span
from slurmgen.lint.reader.launches import Given
from slurmgen.lint.reader.words import Word

FRAMEWORKS: dict[str, Launcher] = {
    "torchrun": LAUNCHERS["ddp"],
    "accelerate": LAUNCHERS["accelerate"],
    "deepspeed": LAUNCHERS["ddp"],
}
"The programs that start a rank a GPU themselves, by the row of the launch table that they follow."

ADDRESS_OPTIONS = ("master-addr", "main-process-ip", "rdzv-endpoint")
PORT_OPTIONS = ("master-port", "main-process-port", "rdzv-endpoint")
JOB_PORT = "$((20000 + SLURM_JOB_ID % 12768))"
"A port of the job's own, below the ephemeral ones (see the launch templates)."


def starters(script: Script) -> Iterator[Launch]:
    """The launches that start ranks themselves."""
    return (launch for launch in script.launches if launch.kind in FRAMEWORKS)


def steps(script: Script) -> Iterator[Launch]:
    """The launches under srun, one for each srun."""
    seen = set()
    for launch in script.launches:
        if launch.step and launch.step.word.span not in seen:
            seen.add(launch.step.word.span)
            yield launch


def nodes_of(launch: Launch) -> int | None:
    """The nodes a launcher is told of; 1 where it is told nothing."""
    name = "num-machines" if launch.kind == "accelerate" else "nnodes"
    if launch.options.lacks(name, "config-file", "standalone"):
        return 1
    return 1 if "standalone" in launch.options.given else launch.options.number(name)


def procs_of(script: Script, launch: Launch) -> int | None:
    """The ranks that one launcher starts, if the text tells."""
    options = launch.options
    if launch.kind == "torchrun":
        if options.text("nproc-per-node") in ("gpu", "auto"):
            return script.step(launch).gpus_per_node
        return 1 if options.lacks("nproc-per-node") else options.number("nproc-per-node")
    if launch.kind == "deepspeed":
        return options.number("num-gpus")
    total, machines = options.number("num-processes"), nodes_of(launch)
    return -(-total // machines) if total and machines else None


def several_nodes(script: Script, launch: Launch) -> bool:
    """Whether a launch certainly runs on more than one node."""
    return launch.step is not None and (script.step(launch).nodes or 1) > 1


def names_in(launch: Launch, options: tuple[str, ...]) -> set[str]:
    """The variables in the values of some options."""
    return {
        name for option in options if (given := launch.options.given.get(option)) for name in given.word.names
    }


def in_force(script: Script, launch: Launch, names: set[str]) -> Iterator[Assignment]:
    """What a launch finds in some variables: the last assignment to each that stands before it."""
    start = launch.command.span.start
    last = {found.name: found for found in script.assigned(*names) if found.span.start <= start}
    return iter(last.values())


def has_module(script: Script, part: str) -> bool:
    """Whether the script loads a module with this in its name."""
    loads = (command.texts for command in script.commands if command.name in ("module", "ml"))
    return any(part in word.lower() for words in loads for word in words[1:])


def stands(script: Script, word: Word) -> bool:
    """Whether a word stands in the text as it is, so that it can be edited."""
    return not word.spliced and script.source.plain[slice(*word.span)] == word.raw


def insert(script: Script, word: Word, at: int, text: str) -> tuple[Edit, ...]:
    """An insertion beside a word that stands in the text."""
    return (Edit(Span(at, at), text),) if stands(script, word) else ()


def replace_value(script: Script, given: Given, text: str) -> tuple[Edit, ...]:
    """A new value for an option whose value stands in the text."""
    word = given.word
    if not stands(script, word) or not word.raw.endswith(given.value) or not given.value:
        return ()
    return (Edit(Span(word.span.end - len(given.value), word.span.end), text),)
