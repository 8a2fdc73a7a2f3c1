"""The words of a command, with what can be known of their values."""

import re
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from tree_sitter import Node

from slurmgen.lint.reader.source import CHARACTERS, UNKNOWN, Budget, Span


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


Value = str | tuple[str, ...]
"A variable's value, or an array's."


class Word(NamedTuple):
    """One word of a command."""

    text: str
    "With UNKNOWN in place of parts that the script does not determine."
    span: Span
    names: frozenset[str] = frozenset()
    "The variables that the shell expands in it."
    raw: str = ""
    "Its source text."
    loose: bool = False
    "Nothing is known about it, not even that it is one word."
    spliced: bool = False
    "It comes from a variable that contains several words."
    literal_at: int | None = None
    "The offset of its text, if the script contains it character by character."

    @property
    def known(self) -> bool:
        """Whether its whole text is known."""
        return UNKNOWN not in self.text


class _Piece(NamedTuple):
    text: str
    splits: bool = False
    items: tuple[str, ...] | None = None


class Expander:
    """Expands syntax nodes to words with the known variables."""

    def __init__(
        self, source: str, base: Callable[[int], Span], run: Callable[[Node], None], budget: Budget
    ) -> None:
        self.source = source
        self.budget = budget
        self.variables: dict[str, Value] = {}
        self.ranges: dict[str, Range] = {}
        self._base = base
        self._run = run
        self._names: set[str] = set()

    def words(self, node: Node) -> list[Word]:
        """The words that one argument expands to, usually one."""
        self._names = set()
        start, end = node.start_byte, node.end_byte
        span = Span(self._base(start).start, self._base(end).end)
        raw = self.source[start:end]
        self.budget.spend(2 + len(raw) // CHARACTERS)
        if node.type in ("word", "number") and "\\" not in raw:
            return [Word(raw, span, raw=raw)]
        if node.type == "raw_string":
            at = self._base(start)
            exact = at.start == at.end and self._base(end).end - at.start == end - start
            return [Word(raw[1:-1], span, raw=raw, literal_at=at.start + 1 if exact else None)]
        texts = _joined(self.pieces(node, quoted=False))
        self.budget.spend(2 * len(texts))
        names = frozenset(self._names)
        several = len(texts) > 1
        return [
            Word(
                text,
                span,
                names,
                raw,
                loose=loose,
                spliced=several or (bool(names) and bool(re.search(r"\s", text))),
            )
            for text, loose in texts
        ]

    def value(self, node: Node | None) -> tuple[str, frozenset[str]]:
        """The value of an assignment, without word splitting, and the variables that it uses."""
        self._names = set()
        pieces = self.pieces(node, quoted=True) if node is not None else []
        return "".join(UNKNOWN if p.items is not None else p.text for p in pieces), frozenset(self._names)

    def pieces(self, node: Node, quoted: bool) -> list[_Piece]:
        """The parts of a word."""
        self.budget.spend(1)
        handler = _HANDLERS.get(node.type)
        if handler is None:
            return (
                [_Piece(UNKNOWN, not quoted)] if node.named_children else [_Piece(self._plain(node, quoted))]
            )
        return handler(self, node, quoted)

    def _plain(self, node: Node, quoted: bool) -> str:
        text = self.source[node.start_byte : node.end_byte]
        if "\\" not in text:
            return text
        text = text.replace("\\\n", "")
        in_string = node.type == "string_content"
        return re.sub(r'\\([\\"$`])' if in_string else r"\\(.)", r"\1", text)

    def _literal(self, node: Node, quoted: bool) -> list[_Piece]:
        return [_Piece(self._plain(node, quoted))]

    def _raw(self, node: Node, quoted: bool) -> list[_Piece]:
        return [_Piece(self.source[node.start_byte + 1 : node.end_byte - 1])]

    def _within(self, node: Node, quoted: bool) -> list[_Piece]:
        """The parts of a string or of a concatenation, with the blanks between them."""
        is_string = node.type == "string"
        quoted = quoted or is_string
        found: list[_Piece] = []
        at = node.start_byte + is_string
        end = node.end_byte - is_string
        for child in node.named_children:
            if child.start_byte > at:
                found.append(_Piece(self.source[at : child.start_byte].replace("\\\n", "")))
            if child.type != "string_content" and (blanks := self._leading_blanks(child)):
                found.append(_Piece(blanks))
            found += self.pieces(child, quoted)
            at = child.end_byte
        if at < end:
            found.append(_Piece(self.source[at:end].replace("\\\n", "")))
        return found

    def _leading_blanks(self, node: Node) -> str:
        """The blanks of a string that the grammar counts as part of the expansion after them."""
        text = self.source[node.start_byte : node.end_byte]
        return text[: len(text) - len(text.lstrip())] if text[:1].isspace() else ""

    def _variable(self, node: Node, quoted: bool) -> list[_Piece]:
        """Expand `$NAME`, `${NAME}` and `${NAME[@]}`; an expansion with an operator is unknown."""
        named = node.named_children
        subscript = next((child for child in named if child.type == "subscript"), None)
        first = subscript.named_children[0] if subscript else (named[0] if named else None)
        if first is None or first.type not in ("variable_name", "special_variable_name"):
            return [_Piece(UNKNOWN, not quoted)]
        name = self.source[first.start_byte : first.end_byte]
        self._names |= _variables(node, self.budget)
        text = self.source[node.start_byte : node.end_byte].lstrip().replace("\\\n", "")
        whole = text.rstrip("}").removeprefix("${").removeprefix("$")
        return [self._stored(name, whole, quoted)]

    def _stored(self, name: str, whole: str, quoted: bool) -> _Piece:
        value = self.variables.get(name, UNKNOWN)
        self.budget.spend(_size(value))
        operator = whole.removeprefix(name).removeprefix(":")[:1]
        default = whole.startswith(name) and operator in ("-", "=", "?")
        if default and isinstance(value, str) and value and UNKNOWN not in value:
            return _Piece(value, not quoted)
        if isinstance(value, tuple):
            every = whole in (f"{name}[@]", f"{name}[*]") or (name in "@*" and whole == name)
            return _Piece("", items=value) if every else _Piece(UNKNOWN, not quoted)
        if name in "@*" or whole.endswith(("[@]", "[*]")):
            return _Piece("", items=(UNKNOWN,))
        return _Piece(value if whole == name else UNKNOWN, not quoted)

    def _substitution(self, node: Node, quoted: bool) -> list[_Piece]:
        names = self._names
        self._run(node)
        self._names = names
        return [_Piece(UNKNOWN, not quoted)]

    def _arithmetic(self, node: Node, quoted: bool) -> list[_Piece]:
        self._names |= _variables(node, self.budget)
        only = evaluate(node, self.range_of).only
        return [_Piece(UNKNOWN if only is None else str(only))]

    def range_of(self, name: str) -> Range:
        """The range of numbers that a variable can have."""
        value = self.variables.get(name, UNKNOWN)
        if isinstance(value, str) and value.isdigit() and len(value) < 16:
            return Range(int(value), int(value))
        return self.ranges.get(name, ANY)


def _variables(node: Node, budget: Budget) -> set[str]:
    """The variables in an expansion, at any depth, but not those of the commands in it."""
    found: set[str] = set()
    stack = [node]
    while stack:
        at = stack.pop()
        budget.spend(1)
        if at.type in ("variable_name", "special_variable_name"):
            found.add((at.text or b"").decode().removesuffix("\\\n"))
        if at.type != "command_substitution":
            stack += at.named_children
    return found


def _joined(pieces: list[_Piece]) -> list[tuple[str, bool]]:
    """The fields that the parts form together, each with whether nothing is known about it."""
    fields: list[list[str]] = []
    loose: set[int] = set()
    glue = False
    for piece in pieces:
        for text, separate in _fields(piece):
            if glue and not separate:
                fields[-1].append(text)
                loose.discard(len(fields) - 1)
            else:
                fields.append([text])
                if text == UNKNOWN and (piece.splits or piece.items is not None):
                    loose.add(len(fields) - 1)
            glue = True
        if piece.splits and piece.text[-1:].isspace():
            glue = False
    return [("".join(parts), index in loose) for index, parts in enumerate(fields)]


def _size(value: Value) -> int:
    """Steps of the budget for inserting a value into a word."""
    texts = (value,) if isinstance(value, str) else value
    return sum(1 + len(text) // CHARACTERS for text in texts)


def _fields(piece: _Piece) -> list[tuple[str, bool]]:
    """The fields of one part, each with whether it starts a new word."""
    if piece.items is not None:
        return [(text, index > 0) for index, text in enumerate(piece.items)]
    if not piece.splits:
        return [(piece.text, False)]
    begins = piece.text[:1].isspace()
    return [(text, index > 0 or begins) for index, text in enumerate(piece.text.split())]


_HANDLERS: dict[str, Callable[[Expander, Node, bool], list[_Piece]]] = {
    "word": Expander._literal,
    "number": Expander._literal,
    "variable_name": Expander._literal,
    "string_content": Expander._literal,
    "command_name": Expander._within,
    "raw_string": Expander._raw,
    "string": Expander._within,
    "concatenation": Expander._within,
    "simple_expansion": Expander._variable,
    "expansion": Expander._variable,
    "command_substitution": Expander._substitution,
    "process_substitution": Expander._substitution,
    "arithmetic_expansion": Expander._arithmetic,
}
