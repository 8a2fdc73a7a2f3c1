"""The commands of a batch script as fields of a request: software, program, and the lines around it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from slurmgen.adopt.facts import shape_of
from slurmgen.adopt.program import Fields, Started, from_launch, plain_lines, value_of
from slurmgen.errors import RequestError
from slurmgen.lint.reader import Launch, Script, Source
from slurmgen.lint.reader.launch import Options
from slurmgen.lint.reader.launchers import UTILITIES, program_name
from slurmgen.lint.reader.parse import parse
from slurmgen.lint.reader.source import UNKNOWN, Budget, TooLarge
from slurmgen.plan.variables import RENDEZVOUS
from slurmgen.python_env import setup_lines
from slurmgen.secret_names import Line
from slurmgen.slurm.shell import PER_TASK, unprintable, variables_in

_SETTINGS = re.compile(r"set (-e|-e?o (errexit|pipefail))( -o (errexit|pipefail))*")
_MODULES = re.compile(r"(?:module|ml) (?:load|add) ((?:[\w./+:@-]+ ?)+)")
_EXPORT = re.compile(r"export ([A-Za-z_]\w*)=(\S+|\"[^\"]*\"|'[^']*')")
_CONDA = re.compile(r"(?:conda|mamba|source) activate ([\w./-]+)")
_VENV = re.compile(r"(?:source|\.) ([\w./$~{}-]+)/bin/activate")
_SEVERAL = re.compile(r"[\s*?(@]")
_OUTPUT_OF_ONE_WORD = re.compile(r"""\$\((hostname|nproc|pwd|mktemp|date ['"]?\+[^\s'"()]+['"]?)( -\w+)*\)""")
_OWN = frozenset(RENDEZVOUS)
PLACEHOLDER = "echo 'write the program of this job into slurmgen.toml' >&2; exit 2"
"What a job runs whose program is not expressed."
_NOTHING = Options({}, open=False)


class Statement(NamedTuple):
    """A top-level statement of the script, with its lines."""

    first: int
    last: int
    text: str
    start: int
    end: int


class Body(NamedTuple):
    """What the commands of a script become."""

    fields: Fields
    replaced: list[Line]
    lost: list[Line]


def statements(source: Source) -> list[Statement]:
    """The statements of a script; those that share a line are one. Comments are none.

    Raises:
        TooLarge: the script is too large to parse.
    """
    found: list[Statement] = []
    for node in parse(source.plain, Budget()).children:
        if not node.is_named or node.type == "comment":
            continue
        first, last = node.start_point[0] + 1, node.end_point[0] + (node.end_point[1] > 0)
        if found and first <= found[-1].last:
            first = found.pop().first
        text = "\n".join(source.line(number) for number in range(first, last + 1))
        start = source.line_starts[first - 1]
        found.append(Statement(first, last, text, start, start + len(text)))
    return found


def from_body(script: Script) -> Body:
    """The fields of a request that the commands determine, and what no field expresses."""
    try:
        parts = statements(script.source)
    except (TooLarge, RecursionError):
        return Body(_no_program(script), [], [Line(1, script.first_line, "the script is too large to read")])
    main, started = _main(script, parts)
    before = parts[: parts.index(main)] if main else parts
    after = list(parts[parts.index(main) + 1 :]) if main else []
    software, rest, replaced = _software(before)
    if after and "$?" in after[0].text:
        replaced.append(Line(after[0].first, _shown(after[0]), "the status of the program is in $status"))
        after[0] = after[0]._replace(text=after[0].text.replace("$?", "$status"))
    lost: list[Line] = []
    kept: Fields = {}
    for key, several in {"before": rest, "after": after}.items():
        own, others = _meetings(script, several)
        replaced += own
        lines, problems = _lines(others)
        lost += problems
        kept |= {key: lines} if lines else {}
    if main is None or started is None:
        return Body(software | _no_program(script), replaced, [*_unknown_program(script, rest)])
    lost += [Line(main.first, _shown(main), f"not expressed: {text}") for text in started.lost]
    if started.replaced:
        replaced.append(
            Line(
                main.first, _shown(main), f"slurmgen sets these options itself: {' '.join(started.replaced)}"
            )
        )
    env = software.get("env", {}) | started.fields.get("env", {})
    lines = (*kept.pop("before", ()), *started.fields.get("before", ()))
    both = {key: value for key, value in {"env": env, "before": lines}.items() if value}
    return Body(software | started.fields | kept | both, replaced, lost)


def _no_program(script: Script) -> Fields:
    shape = shape_of(script)
    several = "spawn" if shape.has_gpus else "ray"
    return {
        "framework": "python" if shape.nodes in (1, None) else several,
        "command": ("bash", "-c", PLACEHOLDER),
    }


def _unknown_program(script: Script, rest: Sequence[Statement]) -> Iterator[Line]:
    for one in rest:
        yield Line(one.first, _shown(one), "no single command of it starts the program of the job")
    if not rest:
        yield Line(len(script.source.line_starts), "", "the script starts no program")


def _main(script: Script, parts: Sequence[Statement]) -> tuple[Statement, Started] | tuple[None, None]:
    """The last statement that starts the program, with its fields."""
    single = _single(script)
    for launch in sorted(_candidates(script), key=_order, reverse=True):
        if set(launch.command.place) - {"redirected"}:
            continue
        part = next((p for p in parts if p.start <= launch.command.span.start < p.end), None)
        is_possible = part and _is_whole(launch, part) and not _reads_input(launch, part)
        found = from_launch(script, launch, single) if is_possible else None
        if part and found:
            fields = found.fields | _variables(script, launch)
            where = ("where the output goes; it is in the log of the job",)
            lost = found.lost + (where if "redirected" in launch.command.place else ())
            return part, found._replace(fields=fields, lost=lost)
    return None, None


def _variables(script: Script, launch: Launch) -> Fields:
    """The variables in front of a command; those that only the shell can compute are exported before it."""
    own = [one for one in script.shell.assignments if one.prefix_of == launch.command.span]
    computed = {one.name: one.raw for one in own if UNKNOWN in one.value and unprintable(one.raw) is None}
    env = {n: value.replace("$", "$$") for n, value in launch.command.env.items() if n not in computed}
    before = tuple([f"export {name}={raw}" for name, raw in computed.items()])
    return ({"env": env} if env else {}) | ({"before": before} if before else {})


def _order(launch: Launch) -> tuple[bool, int]:
    """Launchers and Python come before other programs, and later ones before earlier ones."""
    return launch.kind != "program", launch.command.span.start


def _candidates(script: Script) -> Iterator[Launch]:
    """The launches, and the other commands that may be the program."""
    yield from script.started
    launched = {launch.command.span for launch in script.started}
    for command in script.commands:
        if command.span not in launched and _may_be_program(command.texts):
            yield Launch(
                "program", command.words[0], command.words[0].span.end, _NOTHING, None, (), command, {}
            )


def _may_be_program(words: Sequence[str]) -> bool:
    name = program_name(words[0])
    return (name in ("bash", "sh") and len(words) > 1) or ("/" in words[0] and name not in UTILITIES)


def _is_whole(launch: Launch, part: Statement) -> bool:
    """Whether a statement is that one command, with assignments or redirections."""
    span = launch.command.span
    before, after = part.text[: span.start - part.start], part.text[span.end - part.start :]
    return not before.strip() and not re.search(r"^\s*(&&?|\|\|?|;)", after)


def _reads_input(launch: Launch, part: Statement) -> bool:
    """Whether a command reads a file or lines of the script, which a job's program does not get."""
    return "<" in part.text[launch.command.span.end - part.start :]


def _single(script: Script) -> tuple[str, ...]:
    """The variables that the script sets to one word."""
    own = script.shell.assignments
    values = {one: _OUTPUT_OF_ONE_WORD.sub("", one.raw).strip("\"'") for one in own}
    several = {one.name for one, value in values.items() if _SEVERAL.search(value)}
    for one in own:
        several |= {one.name} if one.names & several else set()
    return tuple({one.name for one in own} - several)


def _software(parts: Sequence[Statement]) -> tuple[Fields, list[Statement], list[Line]]:
    """Modules, variables and the Python environment, as long as nothing else comes between."""
    fields: dict[str, Any] = {}
    replaced: list[Line] = []
    for index, part in enumerate(parts):
        text = " ".join(part.text.split())
        if _SETTINGS.fullmatch(text):
            replaced.append(Line(part.first, text, "slurmgen writes `set -e -o pipefail`"))
        elif not _take(part.text.strip() if text.startswith("export") else text, fields):
            return _complete(fields), list(parts[index:]), replaced
    return _complete(fields), [], replaced


def _complete(fields: dict[str, Any]) -> Fields:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def _take(text: str, fields: dict[str, Any]) -> bool:
    """Put a statement into the fields; whether one expresses it."""
    if (match := _MODULES.fullmatch(text)) and "env" not in fields and "python_env" not in fields:
        fields["modules"] = [*fields.get("modules", []), *match[1].split()]
    elif (match := _EXPORT.fullmatch(text)) and (value := value_of(match[2])) and _is_free(match[1], value):
        fields["env"] = {**fields.get("env", {}), match[1]: value}
    elif (match := _CONDA.fullmatch(text)) and "python_env" not in fields and "env" not in fields:
        fields["python_env"] = f"conda:{match[1]}"
    elif (match := _VENV.fullmatch(text)) and "python_env" not in fields and "env" not in fields:
        fields["python_env"] = f"venv:{match[1]}"
        return _is_env(fields)
    else:
        return False
    return True


def _is_env(fields: dict[str, Any]) -> bool:
    try:
        setup_lines(fields["python_env"])
    except RequestError:
        del fields["python_env"]
        return False
    return True


_RANKS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES", "GROUP_RANK"}


def _is_free(name: str, value: str) -> bool:
    """Whether a request may set a variable: neither a rank nor the launcher does."""
    return name not in _OWN | _RANKS and not PER_TASK & set(variables_in(value)) and "$" not in value


def _meetings(script: Script, parts: Sequence[Statement]) -> tuple[list[Line], list[Statement]]:
    """The statements that only set the rendezvous, and the others."""
    own = [part for part in parts if _is_meeting(script, part)]
    why = "slurmgen sets it by the first node and the job id"
    return [Line(p.first, _shown(p), why) for p in own], [part for part in parts if part not in own]


def _is_meeting(script: Script, part: Statement) -> bool:
    """Whether a statement sets the rendezvous, and no other variable, for no command."""
    is_one = part.first == part.last and not re.search(r";|&&|\|\|", part.text)
    if not is_one or not re.match(rf"(export )?({'|'.join(_OWN)})=", part.text.strip()):
        return False
    places = range(part.start, part.end)
    runs = any(one.span.start in places and "output" not in one.place for one in script.commands)
    return not runs and all(one.name in _OWN for one in script.shell.assignments if one.span.start in places)


def _lines(parts: Sequence[Statement]) -> tuple[tuple[str, ...], list[Line]]:
    """The lines of statements, and those that a request cannot hold."""
    kept: list[str] = []
    lost: list[Line] = []
    for part in parts:
        lines = tuple(plain_lines(part.text))
        is_exact = "<<" not in part.text or ("\t" not in part.text and all(lines))
        if unprintable(lines) is None and is_exact:
            kept += [line for line in lines if line]
        else:
            lost.append(
                Line(part.first, _shown(part), "it has a tab, a control character, or a blank line in a text")
            )
    return tuple(kept), lost


def _shown(part: Statement) -> str:
    first, *others = part.text.splitlines() or [""]
    return f"{first.strip()} ..." if others else first.strip()
