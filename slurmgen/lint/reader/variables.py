"""The variables of a script while it is read: their values, and which are exported."""

import re
from collections.abc import Callable

from tree_sitter import Node

from slurmgen.lint.reader.arithmetic import ANY, KNOWN_RANGES, Range, evaluate
from slurmgen.lint.reader.budget import CHARACTERS, Budget
from slurmgen.lint.reader.commands import ArrayCopy, Assignment
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.words import Expander, Value

_LONGEST = 4096
"Longer values are treated as unknown, such as a value that doubles itself repeatedly."

_ASSIGNMENT = 10
"Steps of the budget for an assignment, besides its value."


class Variables:
    """Tracks assignments; the walker over the commands derives from it."""

    def __init__(self, text: str, base: Callable[[int], Span], budget: Budget) -> None:
        self.text = text
        self.base = base
        self.budget = budget
        self.expander = Expander(text, base, self.visit_output, budget)
        self.expander.ranges.update(KNOWN_RANGES)
        self.exported: dict[str, str] = {}
        "Replaced, never modified: earlier commands keep a reference to it."
        self.assignments: list[Assignment] = []
        self.array_copies: list[ArrayCopy] = []
        self.place: list[str] = []
        "The constructs that enclose the current node."
        self.outputs: list[str] = []
        "The commands whose output is part of the current word."

    def visit_output(self, node: Node) -> None:
        """Visit the commands whose output becomes a word."""
        raise NotImplementedError

    def visit_assignment(
        self, node: Node, exported: bool = False, prefix_of: Span | None = None
    ) -> tuple[str, str] | None:
        """Track an assignment; returns what it sets, unless that is an array."""
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return None
        name = self.raw(name_node)
        self.outputs = []
        if name_node.type == "subscript" or (value is not None and value.type == "array"):
            self._assign_array(name_node, value)
            return None
        self.budget.spend(_ASSIGNMENT)
        text, names = self.expander.value(value)
        if self._appends(name_node):
            before = self.expander.variables.get(name, UNKNOWN)
            text = (before if isinstance(before, str) else UNKNOWN) + text
        if len(text) > _LONGEST:
            text = UNKNOWN
        bounds = self._range(value)
        self.expander.variables[name] = text
        self.expander.ranges[name] = bounds
        if exported or name in self.exported:
            self._export(name, text)
        raw = self.raw(value) if value else ""
        self.assignments.append(
            Assignment(
                name,
                text,
                raw,
                self.span(node),
                bounds,
                exported,
                names,
                tuple(self.outputs),
                prefix_of,
                tuple(self.place),
            )
        )
        return name, text

    def _export(self, name: str, value: str) -> None:
        self.budget.spend(len(self.exported))
        self.exported = {**self.exported, name: value}

    def saved_variables(self) -> dict[str, Value]:
        """The variables as they are now."""
        self.budget.spend(len(self.expander.variables) // 8)
        return dict(self.expander.variables)

    def _appends(self, name_node: Node) -> bool:
        return self.text.startswith("+=", name_node.end_byte)

    def _assign_array(self, name_node: Node, value: Node | None) -> None:
        if name_node.type == "subscript" or value is None:
            base = name_node.named_children[0] if name_node.named_children else name_node
            self.expander.variables[self.raw(base)] = (UNKNOWN,)
            return
        name = self.raw(name_node)
        self._note_copy(name, value)
        items = tuple(word.text for child in value.named_children for word in self.expander.words(child))
        before = self.expander.variables.get(name)
        if self._appends(name_node) and isinstance(before, tuple):
            items = (*before, *items)
        self.expander.variables[name] = items if len(items) <= _LONGEST else (UNKNOWN,)

    def _note_copy(self, target: str, value: Node) -> None:
        copied = re.fullmatch(r"\(\s*\$\{?(\w+)\}?\s*\)", self.raw(value))
        if copied and isinstance(self.expander.variables.get(copied[1]), tuple):
            self.array_copies.append(ArrayCopy(target, copied[1], self.span(value)))

    def _range(self, value: Node | None) -> Range:
        if value is not None and value.type == "string" and len(value.named_children) == 1:
            (inner,) = value.named_children
            value = inner if len(self.raw(inner)) == len(self.raw(value)) - 2 else value
        if value is None or value.type not in ("arithmetic_expansion", "number", "simple_expansion"):
            return ANY
        return evaluate(value, self.expander.range_of)

    def visit_declaration(self, node: Node) -> None:
        """Track `export`, `declare`, `local` and `readonly`."""
        exports = node.children[0].type == "export" or any(
            child.type == "word" and "x" in self.raw(child) for child in node.named_children
        )
        for child in node.named_children:
            if child.type == "variable_assignment":
                self.visit_assignment(child, exports)
            elif child.type == "variable_name" and exports:
                name = self.raw(child)
                value = self.expander.variables.get(name, UNKNOWN)
                self._export(name, value if isinstance(value, str) else UNKNOWN)

    def visit_unset(self, node: Node) -> None:
        """Track `unset`."""
        for child in node.named_children:
            name = self.raw(child)
            self.expander.variables[name] = ""
            if name in self.exported:
                self.budget.spend(len(self.exported))
                self.exported = {key: value for key, value in self.exported.items() if key != name}

    def raw(self, node: Node) -> str:
        """The source text of a node."""
        self.budget.spend((node.end_byte - node.start_byte) // CHARACTERS)
        return self.text[node.start_byte : node.end_byte]

    def span(self, node: Node) -> Span:
        """The span of a node in the script."""
        return Span(self.base(node.start_byte).start, self.base(node.end_byte).end)
