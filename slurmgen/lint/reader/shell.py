"""What a shell script runs: its commands in order, with what is known of their words.

Constants the script sets are followed through assignments, arrays, arithmetic and functions.
After a branch or a loop, the variables it may have set are unknown; so are all of them after
a file is sourced that could set them.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

from slurmgen.lint.reader.arithmetic import ANY, KNOWN_RANGES, Range, evaluate
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.words import Expander, Value, Word

_DEEPEST = 12
"Functions calling functions, and strings within strings, are followed no deeper."


class Assignment(NamedTuple):
    """A variable set by the script."""

    name: str
    value: str
    "With UNKNOWN in it where the text does not tell."
    raw: str
    span: Span
    range: Range
    exported: bool
    names: frozenset[str]
    "The variables that its value is made of."
    within: tuple[str, ...]
    "The commands whose output goes into it."


class Command(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...]
    span: Span
    env: dict[str, str]
    "Assignments in front of it."
    exported: dict[str, str]
    "What the script has exported by then."
    settings: frozenset[str]
    "Of errexit, nounset and pipefail, those in force."
    place: tuple[str, ...]
    "What it stands in, from outside: if, else, or, and, loop, function, pipe, last in pipe, output, background."
    conditions: tuple[str, ...]
    "The texts of the conditions it depends on."
    redirects: bool = False

    @property
    def name(self) -> str:
        """The program's name without its folder; empty if it is not known."""
        text = self.words[0].text if self.words else ""
        return "" if UNKNOWN in text.rpartition("/")[2] else text.rpartition("/")[2]

    @property
    def texts(self) -> list[str]:
        """Its words as texts."""
        return [word.text for word in self.words]


class ArrayCopy(NamedTuple):
    """An array made of another array's bare name."""

    name: str
    span: Span


class Shell(NamedTuple):
    """A whole script, or the string of a `bash -c`."""

    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]
    comments: tuple[Span, ...]
    sourced: bool
    "It runs a file that may set variables."
    array_copies: tuple[ArrayCopy, ...] = ()


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language()))


def read_shell(
    text: str, known: dict[str, Value], base: Callable[[int], Span] | None = None, settings: Iterable[str] = ()
) -> Shell:
    """The commands of a text; `known` are variables that are set already."""
    walker = _Walker(text, base or (lambda offset: Span(offset, offset)))
    walker.expander.variables.update(known)
    walker.settings = set(settings)
    walker.visit(_parser().parse(text.encode()).root_node)
    walker.visit_uncalled()
    return Shell(
        tuple(walker.commands),
        tuple(walker.assignments),
        tuple(walker.comments),
        walker.sourced,
        tuple(walker.array_copies),
    )


_SETTINGS = {"e": "errexit", "u": "nounset"}
_HARMLESS = re.compile(r"(activate|conda\.sh|/etc/profile\S*|lmod\S*|modules?\S*|/init/\w+|\.bashrc|\.bash_profile)$")


class _Walker:
    def __init__(self, text: str, base: Callable[[int], Span]) -> None:
        self.text = text
        self.base = base
        self.expander = Expander(text, base, self._visit_output)
        self.expander.ranges.update(KNOWN_RANGES)
        self.exported: dict[str, str] = {}
        self.settings: set[str] = set()
        self.functions: dict[str, Node] = {}
        self.called: set[str] = set()
        self.commands: list[Command] = []
        self.assignments: list[Assignment] = []
        self.comments: list[Span] = []
        self.array_copies: list[ArrayCopy] = []
        self.sourced = False
        self._place: list[str] = []
        self._conditions: list[str] = []
        self._outputs: list[str] = []

    # Nodes

    def visit(self, node: Node) -> None:
        """Go through one node."""
        _VISITS.get(node.type, _Walker._visit_children)(self, node)

    def visit_uncalled(self) -> None:
        """Functions that the script itself never calls may be called by a trap, or in the step."""
        for name, body in self.functions.items():
            if name not in self.called:
                self.expander.variables.pop("@", None)
                self._in("function", body)

    def _visit_children(self, node: Node) -> None:
        children = node.children
        for index, child in enumerate(children):
            if child.is_named:
                behind = index + 1 < len(children) and children[index + 1].type == "&"
                if behind:
                    self._in("background", child)
                else:
                    self.visit(child)

    def _in(self, place: str, *nodes: Node, condition: str = "") -> None:
        self._place.append(place)
        self._conditions.append(condition)
        for node in nodes:
            self.visit(node)
        self._place.pop()
        self._conditions.pop()

    def _maybe(self, place: str, *nodes: Node, condition: str = "") -> None:
        """Nodes that may run: what they set is unknown afterwards."""
        before = dict(self.expander.variables)
        exported = dict(self.exported)
        self._in(place, *nodes, condition=condition)
        after = self.expander.variables
        for name in {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}:
            after[name] = UNKNOWN
        for name in {name for name in exported if exported[name] != self.exported.get(name)}:
            self.exported[name] = UNKNOWN

    def _visit_output(self, node: Node) -> None:
        """A command substitution: a shell of its own."""
        first = len(self.commands)
        self._in_subshell("output", *node.named_children)
        self._outputs += [command.name for command in self.commands[first:]]

    def _in_subshell(self, place: str, *nodes: Node) -> None:
        saved = dict(self.expander.variables), dict(self.exported), set(self.settings)
        self._in(place, *nodes)
        self.expander.variables, self.exported, self.settings = saved

    def _visit_if(self, node: Node) -> None:
        condition = " ".join(self._raw(child) for child in node.children_by_field_name("condition"))
        conditions = {child.id for child in node.children_by_field_name("condition")}
        for child in node.named_children:
            if child.id in conditions:
                self._in("test", child)
            elif child.type in ("else_clause", "elif_clause"):
                self._maybe("else", *child.named_children, condition=f"not {condition}")
            else:
                self._maybe("if", child, condition=condition)

    def _visit_loop(self, node: Node) -> None:
        for name in _assigned(node):
            self.expander.variables[name] = UNKNOWN
        self._maybe("loop", *node.named_children)

    def _visit_case(self, node: Node) -> None:
        for child in node.named_children:
            self._maybe("case", child)

    def _visit_list(self, node: Node) -> None:
        left, right = node.named_children[0], node.named_children[-1]
        operator = "or" if any(child.type == "||" for child in node.children) else "and"
        self._in(f"before {operator}", left)
        self._maybe(operator, right, condition=self._raw(left))

    def _visit_pipeline(self, node: Node) -> None:
        parts = [child for child in node.named_children if child.type != "comment"]
        for child in parts[:-1]:
            self._in_subshell("pipe", child)
        self._in_subshell("last in pipe", *parts[-1:])

    def _visit_subshell(self, node: Node) -> None:
        self._in_subshell("subshell", *node.named_children)

    def _visit_function(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[self._raw(name)] = body

    def _visit_comment(self, node: Node) -> None:
        self.comments.append(self._span(node))

    def _visit_redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is not None:
            self._in("redirected", body)
        for child in node.named_children:
            if child.type != "heredoc_redirect" and child.type.endswith("redirect"):
                for target in child.named_children:
                    if target.type not in ("file_descriptor", "word"):
                        self.expander.words(target)

    # Variables

    def _visit_assignment(self, node: Node, exported: bool = False) -> tuple[str, str] | None:
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return None
        name = self._raw(name_node)
        self._outputs = []
        if name_node.type == "subscript" or (value is not None and value.type == "array"):
            return self._assign_array(name_node, value)
        text, names = self.expander.value(value)
        appended = any(child.type == "+=" for child in node.children)
        if appended:
            before = self.expander.variables.get(name, UNKNOWN)
            text = (before if isinstance(before, str) else UNKNOWN) + text
        known_range = self._range(value)
        self.expander.variables[name] = text
        self.expander.ranges[name] = known_range
        if exported or name in self.exported:
            self.exported[name] = text
        raw = self._raw(value) if value else ""
        self.assignments.append(
            Assignment(name, text, raw, self._span(node), known_range, exported, names, tuple(self._outputs))
        )
        return name, text

    def _assign_array(self, name_node: Node, value: Node | None) -> None:
        if name_node.type == "subscript" or value is None:
            base = name_node.named_children[0] if name_node.named_children else name_node
            self.expander.variables[self._raw(base)] = (UNKNOWN,)
            return
        name = self._raw(name_node)
        copied = re.fullmatch(r"\(\s*\$\{?(\w+)\}?\s*\)", self._raw(value))
        if copied and isinstance(self.expander.variables.get(copied[1]), tuple):
            self.array_copies.append(ArrayCopy(copied[1], self._span(value)))
        items = tuple(word.text for child in value.named_children for word in self.expander.words(child))
        before = self.expander.variables.get(name)
        appended = self.text[name_node.end_byte : name_node.end_byte + 2] == "+="
        self.expander.variables[name] = (*(before if isinstance(before, tuple) else ()), *items) if appended else items

    def _range(self, value: Node | None) -> Range:
        if value is not None and value.type == "string" and len(value.named_children) == 1:
            value = value.named_children[0] if len(self._raw(value.named_children[0])) == len(self._raw(value)) - 2 else value
        if value is None or value.type not in ("arithmetic_expansion", "number", "simple_expansion"):
            return ANY
        return evaluate(value, self.expander.range_of)

    def _visit_declaration(self, node: Node) -> None:
        exports = node.children[0].type == "export" or any(
            child.type == "word" and "x" in self._raw(child) for child in node.named_children
        )
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._visit_assignment(child, exports)
            elif child.type == "variable_name" and exports:
                name = self._raw(child)
                value = self.expander.variables.get(name, UNKNOWN)
                self.exported[name] = value if isinstance(value, str) else UNKNOWN

    def _visit_unset(self, node: Node) -> None:
        for child in node.named_children:
            self.expander.variables[self._raw(child)] = ""
            self.exported.pop(self._raw(child), None)

    # Commands

    def _visit_command(self, node: Node) -> None:
        env: dict[str, str] = {}
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                env |= self._prefix(child)
            elif not child.type.endswith("redirect"):
                words += self.expander.words(child)
        if words:
            self._run(Command(
                tuple(words), self._span(node), env, dict(self.exported), frozenset(self.settings),
                tuple(self._place), tuple(filter(None, self._conditions)),
            ))

    def _prefix(self, node: Node) -> dict[str, str]:
        """An assignment in front of a command, which holds for that command alone."""
        saved = dict(self.expander.variables), dict(self.expander.ranges)
        pair = self._visit_assignment(node)
        self.expander.variables, self.expander.ranges = saved
        return dict([pair]) if pair else {}

    def _run(self, command: Command) -> None:
        self.commands.append(command)
        name = command.name
        if name in self.functions and len(self._place) < _DEEPEST:
            self._call(name, command)
        effect = _EFFECTS.get(name)
        if effect:
            effect(self, command.texts[1:])

    def _call(self, name: str, command: Command) -> None:
        self.called.add(name)
        variables = self.expander.variables
        kept = {key: variables.get(key, UNKNOWN) for key in "@*123456789"}
        arguments = tuple(command.texts[1:])
        variables["@"] = variables["*"] = arguments
        loose = any(word.loose for word in command.words)
        for index in range(1, 10):
            known = not loose and index <= len(arguments)
            variables[str(index)] = arguments[index - 1] if known else UNKNOWN
        self._in("function", self.functions[name])
        self.expander.variables.update(kept)

    def _set(self, arguments: list[str]) -> None:
        for at, word in enumerate(arguments):
            if word[:1] not in "+-" or word in ("--", "-"):
                return
            change = self.settings.add if word[0] == "-" else self.settings.discard
            for letter in word[1:] if not word.startswith("--") else "":
                if letter in _SETTINGS:
                    change(_SETTINGS[letter])
                elif letter == "o" and at + 1 < len(arguments):
                    change(arguments[at + 1])

    def _source(self, arguments: list[str]) -> None:
        if not arguments or not _HARMLESS.search(arguments[0]):
            self._forget()

    def _forget(self, _arguments: list[str] | None = None) -> None:
        self.sourced = True
        variables = self.expander.variables
        for name in variables:
            if not name.startswith("SLURM_"):
                variables[name] = UNKNOWN if not isinstance(variables[name], tuple) else (UNKNOWN,)

    def _read(self, arguments: list[str]) -> None:
        for name in arguments:
            if name.isidentifier():
                self.expander.variables[name] = UNKNOWN

    def _read_array(self, arguments: list[str]) -> None:
        for name in arguments:
            if name.isidentifier():
                self.expander.variables[name] = (UNKNOWN,)

    def _raw(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    def _span(self, node: Node) -> Span:
        return Span(self.base(node.start_byte).start, self.base(node.end_byte).end)


def _assigned(node: Node) -> set[str]:
    """The variables that are set anywhere within."""
    found: set[str] = set()
    stack = [node]
    while stack:
        at = stack.pop()
        if at.type in ("variable_assignment", "for_statement") and at.named_children:
            found.add((at.named_children[0].text or b"").decode())
        stack += at.named_children
    return found


_EFFECTS: dict[str, Callable[[_Walker, list[str]], None]] = {
    "set": _Walker._set,
    "source": _Walker._source,
    ".": _Walker._source,
    "eval": _Walker._forget,
    "read": _Walker._read,
    "mapfile": _Walker._read_array,
    "readarray": _Walker._read_array,
}

_VISITS: dict[str, Callable[[_Walker, Node], object]] = {
    "command": _Walker._visit_command,
    "test_command": lambda walker, node: walker.expander.words(node),
    "variable_assignment": _Walker._visit_assignment,
    "declaration_command": _Walker._visit_declaration,
    "unset_command": _Walker._visit_unset,
    "if_statement": _Walker._visit_if,
    "while_statement": _Walker._visit_loop,
    "for_statement": _Walker._visit_loop,
    "c_style_for_statement": _Walker._visit_loop,
    "case_statement": _Walker._visit_case,
    "list": _Walker._visit_list,
    "pipeline": _Walker._visit_pipeline,
    "subshell": _Walker._visit_subshell,
    "function_definition": _Walker._visit_function,
    "comment": _Walker._visit_comment,
    "redirected_statement": _Walker._visit_redirected,
    "word": lambda _walker, _node: None,
    "string": lambda walker, node: walker.expander.words(node),
    "command_substitution": _Walker._visit_output,
}
