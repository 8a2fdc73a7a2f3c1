"""Answers as facts of a profile, and what is wrong with them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slurmgen.sites.checks import faults
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import unprintable
from slurmgen.toml_errors import explained, shortened

Keys = tuple[str, ...]
Facts = Mapping[Keys, Any]
"Values of a profile by the keys that lead to them."
_LONGEST = 1000


def new_faults(name: str, known: Facts, answer: Facts) -> list[str]:
    """What is wrong with the facts of an answer, or contradicts the facts that are known."""
    texts = [text for value in answer.values() for text in (*answer_keys(answer), value)]
    if (text := unprintable(texts)) is not None:
        return [f"{shortened(repr(text))} has a control character"]
    if any(isinstance(text, str) and len(text) > _LONGEST for text in texts):
        return [f"it is longer than {_LONGEST} characters"]
    old = _faults(name, known)
    return [fault for fault in _faults(name, {**known, **answer}) if fault not in old]


def answer_keys(facts: Facts) -> list[str]:
    """All keys of some facts."""
    return [key for keys in facts for key in keys]


def nested(facts: Facts) -> dict[str, Any]:
    """The tables of a profile with these facts."""
    data: dict[str, Any] = {}
    for keys, value in facts.items():
        table = data
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        if value == {}:
            table.setdefault(keys[-1], {})
        else:
            table[keys[-1]] = value
    return data


def _faults(name: str, facts: Facts) -> list[str]:
    data = {**nested(facts), "name": name}
    try:
        site = msgspec.convert(data, Site)
    except msgspec.ValidationError as error:
        return [explained(str(error), data, Site).fact]
    return [f"{fault.fact}. {fault.hint}".rstrip(". ") for fault in faults(site, name)]
