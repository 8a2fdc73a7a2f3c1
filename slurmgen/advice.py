"""Which field of a request an error is about, and the values that its hint offers: for a form.

A hint names options as users type them, such as `Ask for at most --time 1-00:00:00.`
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.request import FILE_ONLY, Request, flag


class Offer(Struct, frozen=True):
    """A value for a field that may correct a request; an empty one clears the field."""

    field: str
    value: str


MOST = 8
"Offers of one error."
_FIELDS = {flag(field): field for field in Request.__struct_fields__ if field not in FILE_ONLY}
_FIELDS |= {"--sweep-limit": "sweep_limit", "--site": "site"}
_SWITCHES = {"--requeue", "--preflight", "--label-ranks"}
_LISTS = {"env", "sbatch", "secrets", "not_secret", "binds", "modules", "exclude", "launcher_args", "sweep"}
_NOUNS = {
    "no site": "site",
    "framework": "framework",
    "job name": "name",
    "job named": "name",
    "python_env": "python_env",
    "sbatch option": "sbatch",
    "account": "account",
    "partition": "partition",
    "QoS": "qos",
    "GPU type": "gpu_type",
    "container": "container",
    "script and": "script",
    "module and": "module",
    "CPU": "cpus",
    "GPU": "gpus",
    "nodes": "nodes",
}
"The field that a fact is about, by a noun in it, where neither the fact nor the hint names an option."
_NAME = re.compile(r"(?:the request is wrong: )?([a-z_]+)(?=[ .:])")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_FLAG = r"--[a-z][a-z-]*"
_VALUE = r"(?!--)[^\s,;]*[^\s,;.]"
_NAMED = re.compile(
    rf"(?P<option>{_FLAG})(?P<values> {_VALUE}(?: or {_VALUE})*|, one of {_VALUE}(?:, {_VALUE})*)"
)
_LISTED = re.compile(
    r"(?P<what>Did you mean|Known:|Choose one with GPUs:|GPU types of its partitions:) "
    rf"(?P<values>{_VALUE}(?:, {_VALUE})*)"
)
_COUNTED = re.compile(
    r"(?:Ask for|, or for)(?: at most)? (?P<values>\d+(?: or \d+)*) (?P<unit>GPU|node)"
    r"(?:s, (?P<whole>\d+) for whole)?"
)
_LISTS_OF = {"Choose one with GPUs:": "partition", "GPU types of its partitions:": "gpu_type"}
_LEFT_OUT = re.compile(rf"[Ll]eave (?:out )?(?P<options>{_FLAG}(?: or {_FLAG})?)(?: \S+)?")
_IT = re.compile(r"Leave (?:it|one(?: of them)?) out")
_ADDED = re.compile(rf"Add (?P<option>{_FLAG})")


def field_of(error: SlurmgenError) -> str:
    """The field of a request that an error is about; empty if it is about none, or not known."""
    fact = _QUOTED.sub("", error.fact)
    named, counted = _NAME.match(fact), re.match(r"[\d,]+ (GPU|node)", fact)
    first = [*([named[1]] if named else []), *([f"{counted[1].lower()}s"] if counted else [])]
    options = [*(name for name in first if name in _FIELDS.values()), *_options(fact), *_options(error.hint)]
    nouns = sorted((fact.index(noun), field) for noun, field in _NOUNS.items() if noun in fact)
    return next(filter(None, [getattr(error, "field", ""), *options, *(field for _, field in nouns)]), "")


def _options(text: str) -> list[str]:
    """The fields whose options a text names."""
    return [_FIELDS[word] for word in re.findall(_FLAG, text) if word in _FIELDS]


def offers(error: SlurmgenError) -> tuple[Offer, ...]:
    """The values that the hint of an error offers, at most `MOST`."""
    found = dict.fromkeys([*_values(error), *_added(error), *_left_out(error)])
    return tuple(found)[:MOST]


def _values(error: SlurmgenError) -> Iterator[Offer]:
    """Values that follow an option, and those of a list."""
    for match in _NAMED.finditer(error.hint):
        before = error.hint[: match.start()]
        if match["option"] in _FIELDS and not before.endswith(("eave ", "eave out ", " as ")):
            yield from _each(_FIELDS[match["option"]], match["values"].removeprefix(", one of"))
    for match in _COUNTED.finditer(error.hint):
        yield from _each(f"{match['unit'].lower()}s", match["values"])
        yield from _each(f"{match['unit'].lower()}s", match["whole"] or "")
    for match in _LISTED.finditer(error.hint):
        field = _LISTS_OF.get(match["what"], field_of(error))
        if field:
            yield from _each(field, match["values"].removesuffix("?"))


def _each(field: str, text: str) -> Iterator[Offer]:
    for value in re.split(r", | or ", text.strip()):
        if value and value not in _NO_VALUES:
            yield Offer(field, value)


_NO_VALUES = set("out or of instead alone is without to with IMAGE NAME FOLDER TYPE PATH VALUE".split())
"Words that may follow an option in a sentence, and placeholders."


def _added(error: SlurmgenError) -> Iterator[Offer]:
    for match in _ADDED.finditer(error.hint):
        if match["option"] in _SWITCHES:
            yield Offer(_FIELDS[match["option"]], "yes")


def _left_out(error: SlurmgenError) -> Iterator[Offer]:
    """The fields that the hint says to leave out. `Leave it out` means those of the fact."""
    for match in _LEFT_OUT.finditer(error.hint):
        yield from (Offer(field, "") for field in _options(match["options"]))
    if _IT.search(error.hint):
        named = _options(_QUOTED.sub("", error.fact))
        yield from (Offer(field, "") for field in named if field not in _LISTS)
