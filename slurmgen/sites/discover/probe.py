"""The probe: a shell script for a compute node, and the facts in its report."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from slurmgen.sites.discover.profile import Discovery, Fact
from slurmgen.sites.discover.query import PROBE, number
from slurmgen.slurm import units

SCRIPT_NAME = "probe.sh"
MAX_LOG = 1_000_000
"Bytes of a log that are read."
_LINE = re.compile(r"probe: ([a-z]+): ?([^\n]{0,500})")
_MOST = 200
"Lines of a report that count."
_FACTS = {
    "internet": (("internet",), ("yes", "no", "proxy")),
    "architecture": (("architecture",), ("x86_64", "aarch64")),
    "vendor": (("gpu", "vendor"), ("nvidia", "amd")),
}
"The keys in the profile of what is reported, and the values that it may have."
_ANSWERED = "whether compute nodes reach the internet"
_FIRST_EPHEMERAL = 32768
"The rendezvous port of a script is below it."


def script() -> str:
    """The text of the script."""
    return Path(__file__).with_name(SCRIPT_NAME).read_text(encoding="ascii")


def report(log: bytes) -> tuple[tuple[str, str], ...]:
    """The lines of a report: a name and a text."""
    lines = log[:MAX_LOG].decode(errors="replace").splitlines()
    matches = (match for line in lines if (match := _LINE.match(line)))
    return tuple((match[1], match[2].expandtabs().rstrip()) for match in islice(matches, _MOST))


def is_complete(lines: Sequence[tuple[str, str]]) -> bool:
    """Whether the script reached its end on the node, and at least one task reported."""
    names = {name for name, _ in lines}
    return ("node", "done") in lines and "task" in names


def with_probe(found: Discovery, lines: Sequence[tuple[str, str]]) -> Discovery:
    """A discovery with the facts of a probe, which replace those of the login node."""
    facts = {fact.keys: fact for fact in [*found.facts, *_facts(lines)]}
    unknown = [text for text in found.unknown if text != _ANSWERED or ("internet",) not in facts]
    notes = (*found.notes, *_notes(lines))
    return found._replace(facts=tuple(facts.values()), unknown=tuple(unknown), notes=notes)


def _facts(lines: Sequence[tuple[str, str]]) -> Iterator[Fact]:
    for name, text in dict(lines).items():
        keys, values = _FACTS.get(name, ((), ()))
        if text in values:
            yield Fact(keys, text, PROBE)


def _notes(lines: Sequence[tuple[str, str]]) -> Iterator[Fact]:
    for name, text in sorted(lines, key=lambda line: line if line[0] == "task" else ()):
        title = _TITLES.get(name)
        if title and text:
            yield Fact((title,), _sized(text) if name == "shm" else text, PROBE)
        if (
            name == "ports"
            and (number(text.split()[0] if text else "") or _FIRST_EPHEMERAL) < _FIRST_EPHEMERAL
        ):
            warning = f"ephemeral ports begin below {_FIRST_EPHEMERAL}: they may collide with MASTER_PORT"
            yield Fact(("warning",), warning, PROBE)


def _sized(text: str) -> str:
    mebibytes = number(text)
    return text if mebibytes is None else units.readable_size(mebibytes << 20)


_TITLES = {
    "interface": "network interface",
    "infiniband": "InfiniBand",
    "slingshot": "Slingshot",
    "gpu": "GPU",
    "link": "link",
    "shm": "shared memory",
    "ports": "ephemeral ports",
    "cgroup": "cgroup",
    "task": "task",
}
