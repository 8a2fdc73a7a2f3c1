"""Questions about a script that several rules have in common."""

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
"The programs that start one rank per GPU themselves, each with its entry in the table of launchers."

ADDRESS_OPTIONS = ("master-addr", "main-process-ip", "rdzv-endpoint")
PORT_OPTIONS = ("master-port", "main-process-port", "rdzv-endpoint")
JOB_PORT = "$((20000 + SLURM_JOB_ID % 12768))"
"A port derived from the job ID, below the ephemeral ports; the same as in rendered scripts."


def rank_launchers(script: Script) -> Iterator[Launch]:
    """The launches of programs that start ranks themselves."""
    return (launch for launch in script.launches if launch.kind in FRAMEWORKS)


def steps(script: Script) -> Iterator[Launch]:
    """The launches under srun: the first of each srun."""
    seen = set()
    for launch in script.launches:
        if launch.step and launch.step.word.span not in seen:
            seen.add(launch.step.word.span)
            yield launch


def nodes_of(launch: Launch) -> int | None:
    """The number of nodes that a launcher is configured for (default: 1); None if unknown."""
    name = "num-machines" if launch.kind == "accelerate" else "nnodes"
    if launch.options.lacks(name, "config-file", "standalone"):
        return 1
    return 1 if "standalone" in launch.options.given else launch.options.number(name)


def procs_of(script: Script, launch: Launch) -> int | None:
    """The number of ranks that one launcher starts; None if unknown."""
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
    """Whether a launch is known to run on more than one node."""
    return launch.step is not None and (script.step(launch).nodes or 1) > 1


def variables_in(launch: Launch, options: tuple[str, ...]) -> set[str]:
    """The variables in the values of the given options."""
    return {
        name for option in options if (given := launch.options.given.get(option)) for name in given.word.names
    }


def in_force(script: Script, launch: Launch, names: set[str]) -> Iterator[Assignment]:
    """The values that variables have at a launch: the last assignment to each that precedes it."""
    command = launch.command.span
    last = {
        found.name: found
        for found in script.assigned(*names)
        if found.span.start <= command.start and found.prefix_of in (None, command)
    }
    return iter(last.values())


def loads_module(script: Script, part: str) -> bool:
    """Whether the script loads a module whose name contains a text."""
    loads = (command.texts for command in script.commands if command.name in ("module", "ml"))
    return any(part in word.lower() for words in loads for word in words[1:])


def is_literal(script: Script, word: Word) -> bool:
    """Whether a word appears in the script as written, so that an edit can change it."""
    return not word.spliced and script.source.plain[slice(*word.span)] == word.raw


def replace_assigned(script: Script, found: Assignment, text: str) -> tuple[Edit, ...]:
    """Replace the value of an assignment, if the value appears in the script as written."""
    span = Span(found.span.end - len(found.raw), found.span.end)
    is_written = bool(found.raw) and script.source.plain[slice(*span)] == found.raw
    return (Edit(span, text),) if is_written else ()


def insert(script: Script, word: Word, at: int, text: str) -> tuple[Edit, ...]:
    """Insert a text next to a word, if the word appears in the script as written."""
    return (Edit(Span(at, at), text),) if is_literal(script, word) else ()


def replace_value(script: Script, given: Given, text: str) -> tuple[Edit, ...]:
    """Replace the value of an option, if the value appears in the script as written."""
    word = given.word
    if not is_literal(script, word) or not word.raw.endswith(given.value) or not given.value:
        return ()
    return (Edit(Span(word.span.end - len(given.value), word.span.end), text),)
