"""Questions about a script that several rules have in common."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from slurmgen.launchers import LAUNCHERS, Launcher
from slurmgen.lint.finding import Edit
from slurmgen.lint.reader import Assignment, Launch, Script, Span
from slurmgen.lint.reader.launch import Given, Layer
from slurmgen.lint.reader.launchers import RAY_ON_ALL_NODES, program_name
from slurmgen.lint.reader.words import Word

FRAMEWORKS: dict[str, Launcher] = {
    "torchrun": LAUNCHERS["ddp"],
    "accelerate": LAUNCHERS["accelerate"],
    "deepspeed": LAUNCHERS["ddp"],
    "fabric": LAUNCHERS["ddp"],
}
"The programs that start one rank per GPU themselves, each with its entry in the table of launchers."
PER_NODE = {**FRAMEWORKS, "ray": LAUNCHERS["ray"], RAY_ON_ALL_NODES: LAUNCHERS["ray"]}
"These, and the programs that start Ray on a node."

ADDRESS_OPTIONS = ("master-addr", "main-process-ip", "rdzv-endpoint", "main-address")
PORT_OPTIONS = ("master-port", "main-process-port", "rdzv-endpoint", "main-port", "port")
_ARGUMENT = re.compile(
    r"(?:--?|\+{0,2}(?:\w+\.)*)"
    r"(?P<name>(?:master|ddp|dist|rdzv|main)[-_](?:port|addr(?:ess)?|url)"
    r"|(?:dist[-_])?init[-_]method|rdzv[-_]endpoint|coordinator(?:[-_](?:addr(?:ess)?|port))?)"
    r"(?:=(?P<value>.*))?",
    re.DOTALL,
)
"A rendezvous argument of a training script: `--dist-url URL`, `--master_port=N`, Hydra's `a.dist_url=URL`."
JOB_PORT = "$((20000 + SLURM_JOB_ID % 12768))"
"A port derived from the job ID, below the ephemeral ports; the same as in rendered scripts."


def rank_launchers(script: Script, *kinds: str) -> Iterator[Launch]:
    """The launches of programs that start ranks themselves, or of some of these programs."""
    return (launch for launch in script.launches if launch.kind in (kinds or FRAMEWORKS))


def steps(script: Script, programs: bool = False) -> Iterator[tuple[Launch, Layer]]:
    """The launches under srun: the first of each srun. `programs` adds those of other programs."""
    seen = set()
    for launch in script.started if programs else script.launches:
        if launch.step and launch.step.word.span not in seen:
            seen.add(launch.step.word.span)
            yield launch, launch.step


NODE_OPTIONS = {"torchrun": "nnodes", "accelerate": "num-machines", "fabric": "num-nodes"}
"The option for the number of nodes."


def nodes_of(launch: Launch) -> int | None:
    """The number of nodes that a launcher is configured for (default: 1); None if unknown."""
    name = NODE_OPTIONS.get(launch.kind, "nnodes")
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
    if launch.kind == "fabric":
        return 1 if options.lacks("devices") else options.number("devices")
    total, machines = options.number("num-processes"), nodes_of(launch)
    return -(-total // machines) if total and machines else None


def ranks_of_mpirun(layer: Layer) -> int | None:
    """The number of ranks that an mpirun starts; None if unknown."""
    return layer.options.number("np") or layer.options.number("n")


def several_nodes(script: Script, launch: Launch) -> bool:
    """Whether a launch is known to run on more than one node."""
    return launch.step is not None and (script.step(launch).nodes or 1) > 1


def variables_in(launch: Launch, kind: Literal["port", "addr"]) -> set[str]:
    """The variables in the ports or the addresses of a launch."""
    return {name for found in rendezvous(launch, kind) for name in found.word.names}


def port_variables(script: Script, launch: Launch) -> set[str]:
    """The variables that determine the port of a launch, also through others and in a `bash -c` string."""
    direct = variables_in(launch, "port")
    texts = {name for word in launch.command.words for name in word.names} if launch.under("shell") else set()
    names = direct | texts
    for _ in range(_HOPS):
        used = {name for found in script.assigned(*names) for name in found.names}
        names |= {name for name in used if _PORT_NAME.search(name)}
    return direct | {name for name in names if _PORT_NAME.search(name)}


def in_force(script: Script, launch: Launch, names: set[str], branches: bool = False) -> Iterator[Assignment]:
    """The values that variables have at a launch: the last assignment to each that precedes it.

    `branches` adds those that they may have, if the last assignments are in branches.
    """
    command = launch.command.span
    last: dict[str, list[Assignment]] = {}
    for found in script.assigned(*names):
        if found.span.start <= command.start and found.prefix_of in (None, command):
            before = last.get(found.name, []) if branches and found.conditional else []
            last[found.name] = [*before, found]
    return (found for assignments in last.values() for found in assignments)


def port_in(value: str) -> str | None:
    """The port in `29500`, `host:29500` or `tcp://host:29500`."""
    port = value.rpartition(":")[2]
    return port if port.isdigit() and port.strip("0") else None


def default_port_in(raw: str) -> str | None:
    """The port in `${MASTER_PORT:-29500}`."""
    match = re.search(r"\$\{\w+:?[-=](\d{2,5})\}", raw)
    return match[1] if match else None


_HOPS = 3
_PORT_NAME = re.compile(r"port", re.IGNORECASE)


class Rendezvous(NamedTuple):
    """A value that tells the ranks where to meet: an address, a port, or both."""

    value: str
    word: Word


def rendezvous(launch: Launch, kind: Literal["port", "addr"]) -> Iterator[Rendezvous]:
    """The ports or the addresses among the options of a launch and the arguments of its training script."""
    for name in PORT_OPTIONS if kind == "port" else ADDRESS_OPTIONS:
        if given := launch.options.given.get(name):
            yield Rendezvous(given.value, given.word)
    for at, word in enumerate(launch.arguments):
        match = _ARGUMENT.fullmatch(word.text)
        if match is None or ({"port": "addr", "addr": "port"}[kind] in match["name"]):
            continue
        if match["value"] is not None:
            yield Rendezvous(match["value"].strip("'\""), word)
        elif word.text.startswith("-") and at + 1 < len(launch.arguments):
            yield Rendezvous(launch.arguments[at + 1].text, launch.arguments[at + 1])


class Count(NamedTuple):
    """A number on the command line of a training script."""

    number: int
    span: Span


def trainer_argument(launch: Launch, name: str, bare: bool = False) -> Count | None:
    """A number for Lightning's Trainer: `--trainer.NAME=N`, `trainer.NAME=N`, or `--NAME=N` if `bare`."""
    pattern = name.replace("_", "[-_]")
    prefix = "--" if bare else r"(?:--|\+{0,2})(?:\w+\.)*trainer\."
    for at, word in enumerate(launch.arguments):
        match = re.fullmatch(rf"{prefix}{pattern}(?:=(\d{{1,4}}))?", word.text)
        if match and match[1]:
            return Count(int(match[1]), word.span)
        following = launch.arguments[at + 1 : at + 2]
        if match and following and re.fullmatch(r"\d{1,4}", following[0].text):
            return Count(int(following[0].text), following[0].span)
    return None


def usable_gpus(script: Script, launch: Launch) -> int | None:
    """The GPUs of a node that a launch can use, also by CUDA_VISIBLE_DEVICES; None if unknown."""
    return min(filter(None, (script.step(launch).gpus_per_node, visible_gpus(launch))), default=None)


def visible_gpus(launch: Launch) -> int | None:
    """The number of GPUs in CUDA_VISIBLE_DEVICES, if the script sets it to a list."""
    value = launch.env.get("CUDA_VISIBLE_DEVICES", "")
    return value.count(",") + 1 if re.fullmatch(r"\d+(,\d+)*", value) else None


def words_of(script: Script) -> set[str]:
    """All words of the commands, without their folders."""
    return {program_name(word.text) for command in script.commands for word in command.words}


def runs_a_shell_script(words: set[str]) -> bool:
    """Whether a command may run another shell script, whose commands are not known."""
    return any(word.endswith((".sh", ".bash", ".sbatch", ".slurm")) for word in words)


def has_ranks(script: Script, launch: Launch) -> bool:
    """Whether a Python script may start ranks, or be one of several."""
    shape = script.step(launch)
    return shape.ntasks != 1 or shape.gpus_per_node != 1


_ALL_GPUS = 8
"A job with so many GPUs on a node has all of them, on nearly every cluster."
_WHOLE_NODE_PARTITIONS = {"booster", "develbooster", "largebooster", "dc-gpu", "standard-g"}
"Partitions of JSC and of LUMI, whose jobs get whole nodes."


def takes_whole_nodes(script: Script) -> bool:
    """Whether the header shows that the job shares its nodes with no other job."""
    header = script.header
    is_requested = header.last("exclusive") is not None or header.value("mem") == "0"
    has_all_gpus = (script.job.gpus_per_node or 0) >= _ALL_GPUS
    return is_requested or has_all_gpus or header.value("partition") in _WHOLE_NODE_PARTITIONS


def has_unbound_cpus(launch: Launch) -> bool:
    """Whether the tasks of a step may use every CPU, because `--cpu-bind=none` is given."""
    value = launch.step.options.text("cpu-bind") if launch.step else None
    return "none" in (value or launch.env.get("SLURM_CPU_BIND", "")).split(",")


def loads_module(script: Script, part: str) -> bool:
    """Whether the script loads a module whose name contains a text."""
    loads = (command.texts for command in script.commands if command.name in ("module", "ml"))
    return any(part in word.lower() for words in loads for word in words[1:])


_AMD_PARTITIONS = ("small-g", "standard-g", "dev-g")


def is_amd(script: Script) -> bool:
    """Whether the job uses AMD GPUs: it loads ROCm, or runs in a GPU partition of LUMI."""
    return loads_module(script, "rocm") or script.header.value("partition") in _AMD_PARTITIONS


def is_literal(script: Script, word: Word) -> bool:
    """Whether a word appears in the script as written, so that an edit can change it."""
    return not word.spliced and script.source.plain[slice(*word.span)] == word.raw


def replace_assigned(script: Script, found: Assignment, text: str) -> tuple[Edit, ...]:
    """Replace the value of an assignment, if the value appears in the script as written.

    Not in a loop, which may need another value each time.
    """
    if "loop" in found.place:
        return ()
    span = Span(found.span.end - len(found.raw), found.span.end)
    is_written = bool(found.raw) and script.source.plain[slice(*span)] == found.raw
    return (Edit(span, text),) if is_written else ()


def insert(script: Script, word: Word, at: int, text: str) -> tuple[Edit, ...]:
    """Insert a text next to a word, if the word appears in the script as written."""
    return (Edit(Span(at, at), text),) if is_literal(script, word) else ()


def replace_value(script: Script, given: Given | None, text: str) -> tuple[Edit, ...]:
    """Replace the value of an option, if the value appears in the script as written."""
    if not given or not given.value:
        return ()
    word = given.word
    if not is_literal(script, word) or not word.raw.endswith(given.value):
        return ()
    return (Edit(Span(word.span.end - len(given.value), word.span.end), text),)
