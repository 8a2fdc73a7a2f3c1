"""The program of a script: its launcher, ranks and options, as a job of slurmgen.toml."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from slurmgen.adopt.facts import Difference, shape_of
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.launch import read_options
from slurmgen.lint.reader.launchers import WRAPPERS, program_name
from slurmgen.lint.reader.source import UNKNOWN, Budget
from slurmgen.lint.reader.words import Word
from slurmgen.plan.step import MODULE_NAME
from slurmgen.request.model import Request
from slurmgen.secret_names import Line
from slurmgen.slurm.shell import PER_TASK, unprintable, variables_in

Fields = dict[str, Any]


class Started(NamedTuple):
    """A launch as fields of a request."""

    fields: Fields
    lost: tuple[str, ...]
    "What they do not express."
    replaced: tuple[str, ...]
    "What slurmgen sets by itself."


_STEPS = ("srun", "mpirun")
_KEYWORDS = ("exec", "command", "builtin", "time")
"Words of the shell in front of a command, which no other program can start."
_MEETING = frozenset(
    "node-rank master-addr master-port rdzv-backend rdzv-endpoint rdzv-id local-addr".split()
)
_SIZE_OF_STEP = frozenset(
    """
    nodes ntasks ntasks-per-node tasks-per-node cpus-per-task gpus gpus-per-node gres kill-on-bad-exit
    """.split()
)
"Options of srun that repeat the header, or that slurmgen sets."


class Adapter(NamedTuple):
    """How the options of a launcher become fields."""

    framework: str
    dropped: frozenset[str]
    "Options that slurmgen sets itself."
    fields: dict[str, str]
    "Options that are fields of a request."
    mark: str = "-"
    "What the launcher writes between the words of an option."

    def flag(self, name: str) -> str:
        """How the launcher writes an option."""
        return f"--{name.replace('-', self.mark)}"


ADAPTERS = {
    "torchrun": Adapter(
        "ddp", _MEETING | {"nnodes", "nproc-per-node", "standalone", "use-env", "module"}, {}
    ),
    "accelerate": Adapter(
        "accelerate",
        frozenset(
            """
            multi-gpu num-processes num-machines machine-rank main-process-ip main-process-port same-network
            rdzv-backend rdzv-conf dynamo-backend gpu-ids module
            """.split()
        ),
        {"config-file": "launcher_config", "mixed-precision": "mixed_precision"},
        "_",
    ),
    "deepspeed": Adapter(
        "deepspeed",
        frozenset(
            """
            hostfile include exclude num-nodes num-gpus master-port master-addr node-rank launcher
            launcher-args no-ssh no-ssh-check force-multi module
            """.split()
        ),
        {},
    ),
}


def from_launch(script: Script, launch: Launch, single: Sequence[str]) -> Started | None:
    """The fields of a launch; None if they cannot express it."""
    keywords, launch = _without_keywords(launch)
    timed = ("`time`; `slurmgen status` shows how long a job ran",) if "time" in keywords else ()
    lost, replaced = (*timed, *_step_changes(launch)), tuple(_sizes_of_step(launch))
    is_direct = [word.span for word in _after_step(launch)[:1]] == [launch.word.span]
    if is_direct and launch.kind in ADAPTERS and not launch.options.open:
        adapter = ADAPTERS[launch.kind]
        fields = _of_launcher(launch, adapter, single)
        if fields is not None:
            given = {name: one for name, one in launch.options.given.items() if name in adapter.dropped}
            dropped = tuple([_written(adapter.flag(name), one.word.raw) for name, one in given.items()])
            return Started(fields, (*lost, *_ranks_changes(script, launch)), (*replaced, *dropped))
    found = _plain_python(launch, single) if is_direct and launch.kind == "python" else None
    found = found or _command(launch, single)
    return Started(found | _framework(script, launch), lost, replaced) if found else None


def _written(flag: str, raw: str) -> str:
    """An option as the script has it, whose value may be the next word."""
    return raw if raw.startswith("-") else f"{flag} {raw}"


def _without_keywords(launch: Launch) -> tuple[list[str], Launch]:
    """The words such as `exec` in front of a launch, and the launch without them."""
    words, layers, found = launch.command.words, launch.layers, list[str]()
    while layers and words[0].text in _KEYWORDS and not words[1].text.startswith("-"):
        found.append(words[0].text)
        words, layers = words[1:], layers[1:]
    return found, launch._replace(layers=layers, command=launch.command._replace(words=words))


def _of_launcher(launch: Launch, adapter: Adapter, single: Sequence[str]) -> Fields | None:
    program = _program(launch, single)
    if program is None:
        return None
    fields: Fields = {"framework": adapter.framework} | program
    further: list[str] = []
    for name, given in launch.options.given.items():
        if name in adapter.dropped:
            continue
        value = value_of(given.word.raw, single) if given.value else ""
        value = value.partition("=")[2] if value and value.startswith("-") else value
        if value is None:
            return None
        if name in adapter.fields:
            fields[adapter.fields[name]] = value
        else:
            further.append(f"{adapter.flag(name)}={value}" if value else adapter.flag(name))
    return fields | ({"launcher_args": tuple(further)} if further else {})


def _program(launch: Launch, single: Sequence[str]) -> Fields | None:
    """The script or module of a launcher, with its arguments."""
    if launch.script is None:
        return None
    words = word_values([launch.script, *launch.arguments], single)
    if words is None or words[0].startswith("-"):
        return None
    first, *arguments = words
    if "module" in launch.options.given:
        found: Fields = {"module": first} if MODULE_NAME.fullmatch(first) else {}
    elif "no-python" in launch.options.given:
        found = {"command": (first,)}
    else:
        found = {"script": first} if "$" not in first else {}
    return found | ({"script_args": tuple(arguments)} if arguments else {}) if found else None


def _plain_python(launch: Launch, single: Sequence[str]) -> Fields | None:
    """`python SCRIPT` or `python -m MODULE`."""
    if launch.word.text not in ("python", "python3") or launch.options.open:
        return None
    given = launch.options.given
    if set(given) - {"unbuffered", "module"}:
        return None
    if "module" in given:
        words = word_values(launch.arguments, single)
        name = given["module"].value
        if words is None or not MODULE_NAME.fullmatch(name):
            return None
        return {"module": name} | ({"script_args": words} if words else {})
    return _program(launch, single)


def _command(launch: Launch, single: Sequence[str]) -> Fields | None:
    """The words of a command after srun or mpirun."""
    words = _after_step(launch)
    values = word_values(words, single) if words else None
    return {"command": values} if values else None


def _after_step(launch: Launch) -> Sequence[Word]:
    words = launch.command.words
    if not any(layer.kind in _STEPS for layer in launch.layers[:1]):
        return words
    syntax = WRAPPERS[program_name(words[0].text)].syntax
    return words[read_options(words, syntax, 1, Budget())[1] :]


def _framework(script: Script, launch: Launch) -> Fields:
    """The framework that starts a program as often as the script does."""
    shape, step = shape_of(script), script.step(launch)
    nodes, gpus, tasks = shape.nodes or 1, shape.gpus_per_node or 0, step.ntasks_per_node
    if not shape.has_gpus:
        return {"framework": "python" if nodes == 1 else "tensorflow"}
    if launch.under("mpirun"):
        return {"framework": "mpi"}
    if launch.step is None or (tasks == 1 and nodes == 1):
        return {"framework": "python" if nodes == 1 else "spawn"}
    if tasks is not None and tasks == gpus:
        is_lightning = "lightning" in script.source.plain.lower()
        return {"framework": "lightning" if is_lightning else "srun"}
    return {"framework": "spawn" if tasks == 1 else "mpi"}


def _step_changes(launch: Launch) -> Iterator[str]:
    """The options of srun that a request does not express."""
    for layer in launch.layers[:1]:
        own = _SIZE_OF_STEP | ({"export"} if layer.options.text("export") == "ALL" else set())
        names = [name for name in layer.options.given if name not in own]
        if names and layer.kind == "srun":
            yield f"options of srun: {', '.join(f'--{name}' for name in names)}"
        if names and layer.kind == "mpirun":
            yield f"options of {layer.word.text}: {', '.join(names)}; srun starts the ranks"
        if layer.kind in _STEPS and layer.options.open:
            yield f"options of {layer.word.text} that only the shell can compute"


def _sizes_of_step(launch: Launch) -> Iterator[str]:
    for layer in launch.layers[:1]:
        if layer.kind in _STEPS:
            yield layer.word.raw
        if layer.kind == "srun":
            yield from (f"--{name}" for name in layer.options.given if name in _SIZE_OF_STEP)


def _ranks_changes(script: Script, launch: Launch) -> Iterator[str]:
    """Where the launcher starts another number of ranks than the job has GPUs."""
    gpus = shape_of(script).gpus_per_node
    each = launch.options.number("nproc-per-node")
    if each is not None and gpus and each != gpus:
        yield f"--nproc-per-node={each}; slurmgen starts one rank per GPU, {gpus} on each node"


class Adopted(Struct, frozen=True, kw_only=True):
    """A batch script as a request."""

    name: str
    "The name of the job in slurmgen.toml."
    request: Request
    replaced: tuple[Line, ...] = ()
    "Lines that slurmgen replaces by its own."
    lost: tuple[Line, ...] = ()
    "Lines that a request does not express."
    secrets: tuple[Line, ...] = ()
    "Values that are left out, because they look like secrets."
    source: str = ""
    "The script without these values."
    notes: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    "What the header of the rendered script requests differently."
    error: str = ""
    "Why the site cannot run the request; empty if it can."
    rendered: str = ""
    "The script that slurmgen makes; empty after an error."


_NAME = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
_PARTS = re.compile(
    rf"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<name>{_NAME})"""
    r"""|(?P<plain>[^'"\\$`*?\[\]{}();&|<>\s])""",
    re.DOTALL,
)
_INSIDE = re.compile(rf"(?P<name>{_NAME})|\\(?P<escaped>[$`\"\\])|(?P<plain>[^$`])", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\(\([^)]*\)\)|\$\{[^}]*\}|\$[*@?#]""", re.DOTALL)
"Parts of a word in which no name of a file is matched."
_NAMES_OF_FILES = re.compile(r"[^=]*?(?:[*?]|\[[^\]]+\])")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ONE_WORD = re.compile(r"\$\{?(SLURM_\w+|HOME|USER|PWD|TMPDIR|SCRATCH|WORK|MASTER_ADDR|MASTER_PORT)\}?")
"Variables that are one word without quotes."


def value_of(raw: str, single: Iterable[str] = ()) -> str | None:
    """The value for which slurmgen writes a word of the same meaning; None if there is none.

    Args:
        single: variables of the script that are one word without quotes.
    """
    text, at = "", 0
    while at < len(raw):
        match = _PARTS.match(raw, at)
        if not match:
            return None
        part = _part(match, frozenset(single))
        if part is None or (raw[at] == "~" and (at or raw[1:2] not in ("", "/"))):
            return None
        text, at = text + part, match.end()
    if raw.startswith(("'~", '"~')) or unprintable(text) is not None:
        return None
    return text


def _part(match: re.Match[str], single: frozenset[str]) -> str | None:
    if match["single"] is not None:
        return match["single"].replace("$", "$$")
    if match["double"] is not None:
        return _inside(match["double"])
    if match["escaped"] is not None:
        return match["escaped"].replace("$", "$$")
    if match["name"] is not None:
        is_one = _ONE_WORD.fullmatch(match["name"]) or match["name"].strip("${}") in single
        return match["name"] if is_one else None
    return match["plain"]


def _inside(text: str) -> str | None:
    """The value of a text in double quotes."""
    found, at = "", 0
    while at < len(text):
        match = _INSIDE.match(text, at)
        if not match:
            return None
        found += match["name"] or (match["escaped"] or match["plain"]).replace("$", "$$")
        at = match.end()
    return found


def word_values(words: Iterable[Word], single: Iterable[str] = ()) -> tuple[str, ...] | None:
    """The values of the words of a command; None if one has no value that means the same."""
    found: list[str] = []
    for word in words:
        raw = word.raw
        if found[-1:] == ["-c"]:  # a line that continues on the next one
            raw = raw.replace("\\\n", " ")
        text = value_of(raw, single)
        of_user = raw.startswith("~")  # the home folder of another one, which only the shell knows
        if text is None and UNKNOWN not in word.text and not (word.loose or of_user or _expands(word)):
            text = word.text.replace("$", "$$")  # the script determines it
        if text is None or unprintable(text) or PER_TASK & set(variables_in(text)):
            return None
        found.append(text)
    return tuple(found)


def _expands(word: Word) -> bool:
    """Whether the shell makes names of files or several words of a word; hardly after `NAME=`.

    It also replaces the escapes of `$'TEXT'`.
    """
    bare = _QUOTED.sub("", word.raw)
    text = word.text if "$" in bare else bare
    return bool("$'" in word.raw or _NAMES_OF_FILES.match(text) or _BRACES.search(bare))


def plain_lines(text: str) -> Iterator[str]:
    """The lines of a piece of the script, without tabs at their beginning, which TOML and terminals hide."""
    for line in text.splitlines():
        rest = line.lstrip("\t ")
        yield line[: len(line) - len(rest)].expandtabs(4) + rest.rstrip()
