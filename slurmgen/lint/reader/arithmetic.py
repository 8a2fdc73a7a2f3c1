"""Shell arithmetic over ranges: what `$((20000 + SLURM_JOB_ID % 12768))` can be."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from tree_sitter import Node


class Range(NamedTuple):
    """All whole numbers from `low` to `high`."""

    low: float
    high: float

    @property
    def only(self) -> int | None:
        """The number, if the range has only one."""
        return int(self.low) if self.low == self.high and abs(self.low) < inf else None


ANY = Range(-inf, inf)
_DEEPEST = 50
_LONGEST = 1000
"Expressions that are longer, or nested more deeply, are not computed."
_OVERFLOW = 2**63 - 1
KNOWN_RANGES = {"RANDOM": Range(0, 32767), "SLURM_JOB_ID": Range(1, inf), "SLURM_JOBID": Range(1, inf)}


def _corners(function: Callable[[float, float], float]) -> Callable[[Range, Range], Range]:
    def combine(a: Range, b: Range) -> Range:
        values = [function(x, y) for x in a for y in b]
        return ANY if any(value != value for value in values) else Range(min(values), max(values))

    return combine


def _times(x: float, y: float) -> float:
    return 0 if 0 in (x, y) else x * y


def _divide(a: Range, b: Range) -> Range:
    by = b.only
    if not by or by < 0 or a.low < 0:
        return ANY
    return Range(a.low // by, a.high // by)


def _modulo(a: Range, b: Range) -> Range:
    by = b.only
    if not by or by < 0 or a.low < 0:
        return ANY
    same = a.low // by == a.high // by and a.high < inf
    return Range(a.low % by, a.high % by) if same else Range(0, by - 1)


def _shift(a: Range, b: Range) -> Range:
    by = b.only
    return Range(a.low * 2**by, a.high * 2**by) if by is not None and 0 <= by < 32 and a.low >= 0 else ANY


def _or(a: Range, b: Range) -> Range:
    """The bits of both: at most their sum."""
    return Range(max(a.low, b.low), a.high + b.high) if a.low >= 0 and b.low >= 0 else ANY


_OPERATORS: dict[str, Callable[[Range, Range], Range]] = {
    "+": _corners(lambda x, y: x + y),
    "-": lambda a, b: Range(a.low - b.high, a.high - b.low) if inf not in (a.high, b.high) else ANY,
    "*": _corners(_times),
    "/": _divide,
    "%": _modulo,
    "<<": _shift,
    "|": _or,
}


def evaluate(node: Node, lookup: Callable[[str], Range], depth: int = 0) -> Range:
    """The range of an arithmetic expression; `lookup` knows the variables."""
    if depth > _DEEPEST or node.end_byte - node.start_byte > _LONGEST:
        return ANY
    text = (node.text or b"").decode()
    match node.type:
        case "number" | "word":
            return _number(text)
        case "variable_name":
            return lookup(text)
        case "simple_expansion" | "expansion":
            return _variable(node, lookup)
        case "arithmetic_expansion" | "parenthesized_expression":
            inner = node.named_children
            return evaluate(inner[0], lookup, depth + 1) if len(inner) == 1 else ANY
        case "binary_expression" if len(node.children) == 3:
            left, operator, right = node.children
            combine = _OPERATORS.get(operator.type)
            sides = (evaluate(side, lookup, depth + 1) for side in (left, right))
            return _in_64_bits(combine(*sides)) if combine else ANY
    return ANY


def _in_64_bits(found: Range) -> Range:
    """The range; None if it exceeds the integers of the shell."""
    return found if all(abs(end) <= _OVERFLOW or abs(end) == inf for end in found) else ANY


def _number(text: str) -> Range:
    # Slurm never pads numbers; a leading 0 would mean octal.
    return (
        Range(int(text), int(text))
        if text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 16
        else ANY
    )


def _variable(node: Node, lookup: Callable[[str], Range]) -> Range:
    named = node.named_children
    plain = len(named) == 1 and named[0].type == "variable_name" and len(node.children) - 1 <= 2
    return lookup((named[0].text or b"").decode()) if plain else ANY
