"""The lines of a rendered script, each with its reason, for readers of the script."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from slurmgen.plan import Plan
from slurmgen.plan.explain import explain
from slurmgen.plan.model import Reason, derived
from slurmgen.render import wrapped
from slurmgen.sites.model import Source


class Line(Struct, frozen=True):
    """One line of a script."""

    text: str
    key: str | None = None
    "The key of its reason in `explain`, if any."
    reason: Reason | None = None
    sources: dict[str, Source] = {}
    "The sources that the reason cites as `[NAME]`."

    @property
    def parts(self) -> tuple[tuple[str, Source | None], ...]:
        """The text of the reason, each citation by itself with its source."""
        words = re.split(r"(\[[^\]]*\])", self.reason.text) if self.reason else []
        return tuple([(word, self.sources.get(word[1:-1])) for word in words if word])


_PARAGRAPHS = {
    "# Rendezvous on": "rendezvous",
    "# The address of each node's worker": "rendezvous",
    "# The parameters of each task.": "sweep",
    "# Check the nodes first.": "preflight",
    "# Each node copies the data once.": "stage",
    "# Before the time limit,": "requeue_signal",
    "# Requeue an unfinished run only": "requeue",
    "# The tasks of this array are the segments": "segments",
}
"The key of a paragraph, by the beginning of its comment. Other keys take precedence for a single line."
_SWEEP = derived("the arguments of each run, by the number of its task")


def script_lines(plan: Plan, text: str) -> tuple[Line, ...]:
    """Each line of a script with its reason; comments have none."""
    why = explain(plan) | {"sweep": _SWEEP}
    lines = text.removesuffix("\n").split("\n")
    keys = _keys(plan, lines)
    return tuple([_line(plan, line, key, why.get(key or "")) for line, key in zip(lines, keys, strict=True)])


def _line(plan: Plan, text: str, key: str | None, reason: Reason | None) -> Line:
    if reason is None or not reason.text:
        return Line(text)
    sources = {name: one for name, one in plan.profile.sources.items() if f"[{name}]" in reason.text}
    return Line(text, key, reason, sources)


def _keys(plan: Plan, lines: Sequence[str]) -> list[str | None]:
    single = dict(_single(plan))
    found = [
        single.get(line) or paragraph for line, paragraph in zip(lines, _of_paragraphs(lines), strict=True)
    ]
    stripped = [line.strip() for line in lines]
    for part, key in _of_step(plan):
        for start in _places(stripped, part):
            found[start : start + len(part)] = [key] * len(part)
    return [None if line.lstrip().startswith("# ") else key for line, key in zip(lines, found, strict=True)]


def _single(plan: Plan) -> Iterator[tuple[str, str]]:
    for option, value in plan.directives:
        yield f"#SBATCH --{option}={value}" if value else f"#SBATCH --{option}", f"directives.{option}"
    for variable in plan.variables:
        yield f"export {variable.prefix}{variable.name}={variable.word}", f"env.{variable.name}"
    for command in plan.setup.modules:
        yield command, "modules"
    for name in plan.setup.needs:
        yield f': "${{{name}:?is not set; a module should set it}}"', "modules"
    for line in plan.setup.python_setup:
        yield line, "python_env"
    for line in plan.setup.fetch:
        yield line, "container"


def _of_paragraphs(lines: Sequence[str]) -> Iterator[str | None]:
    key: str | None = None
    for line in lines:
        if not line:
            key = None
        key = next((one for start, one in _PARAGRAPHS.items() if line.startswith(start)), key)
        yield key


def _of_step(plan: Plan) -> Iterator[tuple[list[str], str]]:
    for part in plan.preflight:
        yield _lines_of(part), "preflight"
    for lines in (plan.step.lines, *(one.lines for one in plan.then)):
        for number, part in enumerate(lines):
            yield _lines_of(part), _key_of_part(plan, part, is_last=number == len(lines) - 1)


def _lines_of(part: tuple[str, ...]) -> list[str]:
    return [line.strip() for line in wrapped(part).split("\n")]


def _key_of_part(plan: Plan, part: Sequence[str], *, is_last: bool) -> str:
    if is_last:
        return "program"
    is_container = plan.setup.image and any(plan.setup.image in word for word in part[1:])
    return "container" if is_container else "launch"


def _places(lines: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    """Where some lines of a step begin; a backslash or the status may follow each."""
    for start, line in enumerate(lines):
        following = lines[start : start + len(part)]
        if line.startswith(part[0]) and len(following) == len(part) and _begin(following, part):
            yield start


def _begin(lines: Sequence[str], part: Sequence[str]) -> bool:
    return all(line.startswith(own) for line, own in zip(lines, part, strict=True))
