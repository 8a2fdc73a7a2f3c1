"""What a shell script runs: its commands in order, with what is known of their words.

Constants are propagated through assignments, arrays, arithmetic and functions. After a branch or a loop, the
variables that it may have set are unknown; after sourcing a file, all variables that it could set are.
"""

from collections.abc import Callable, Iterable

from tree_sitter import Node

from slurmgen.lint.reader.budget import CHARACTERS, Budget, TooLarge
from slurmgen.lint.reader.builtins import EFFECTS
from slurmgen.lint.reader.commands import Command, Cut, Shell
from slurmgen.lint.reader.continuation import find_cut
from slurmgen.lint.reader.parse import parse
from slurmgen.lint.reader.rewrite import rewrite
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.variables import Variables
from slurmgen.lint.reader.words import Value, Word

_DEEPEST = 50
"Nesting limit of commands; a deeper script is too large to read."
_DEEPEST_CALL = 12
"Nesting limit of function calls: recursion would never end."
_COMMAND = 20
"Steps of the budget for a command, besides its words."


def read_shell(
    text: str,
    known: dict[str, Value],
    budget: Budget,
    base: Callable[[int], Span] | None = None,
    settings: Iterable[str] = (),
) -> Shell:
    """The commands of a text; `known` are variables that are set already.

    Raises:
        TooLarge: the budget is exhausted.
    """
    text, base = rewrite(text, base or (lambda offset: Span(offset, offset)), budget)
    walker = _Walker(text, base, budget)
    walker.expander.variables.update(known)
    walker.settings = set(settings)
    walker.visit(parse(text, budget))
    walker.visit_uncalled()
    return Shell(
        tuple(walker.commands),
        tuple(walker.assignments),
        tuple(walker.comments),
        walker.sourced,
        tuple(walker.array_copies),
        tuple(walker.cuts),
    )


class _Walker(Variables):
    def __init__(self, text: str, base: Callable[[int], Span], budget: Budget) -> None:
        super().__init__(text, base, budget)
        self.settings: set[str] = set()
        self.functions: dict[str, Node] = {}
        self.aliases: dict[str, str] = {}
        self.called: set[str] = set()
        self.commands: list[Command] = []
        self.comments: list[Span] = []
        self.cuts: list[Cut] = []
        self.sourced = False
        self._depth = 0
        self._conditions: list[str] = []

    def visit(self, node: Node) -> None:
        """Visit a node."""
        if self._depth >= _DEEPEST:
            raise TooLarge
        self.budget.spend(1)
        self._depth += 1
        _VISITS.get(node.type, _Walker._visit_children)(self, node)
        self._depth -= 1

    def visit_uncalled(self) -> None:
        """Visit the functions that the script never calls: a trap, or the step, may call them."""
        for name, body in list(self.functions.items()):
            if name not in self.called:
                self.expander.variables.pop("@", None)
                self.place.append("uncalled")
                self._in("function", body)
                self.place.pop()

    def _visit_children(self, node: Node) -> None:
        children = node.children
        for index, child in enumerate(children):
            if child.is_named:
                behind = index + 1 < len(children) and children[index + 1].type == "&"
                if behind:
                    self._in_subshell("background", child)
                else:
                    self.visit(child)

    def _in(self, place: str, *nodes: Node, condition: str = "") -> None:
        self.place.append(place)
        self._conditions.append(condition)
        for node in nodes:
            self.visit(node)
        self.place.pop()
        self._conditions.pop()

    def _maybe(self, place: str, *nodes: Node, condition: str = "") -> None:
        """Visit nodes that run conditionally: what they set is unknown afterwards."""
        before, exported = self.saved_variables(), self.exported
        self._in(place, *nodes, condition=condition)
        after = self.expander.variables
        self.budget.spend(len(after) // 4)
        for name in {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}:
            after[name] = UNKNOWN
        if self.exported is not exported:
            self.budget.spend(len(exported))
            changed = {name for name in exported if exported[name] != self.exported.get(name)}
            self.exported = self.exported | dict.fromkeys(changed, UNKNOWN)

    def visit_output(self, node: Node) -> None:
        """Visit a command substitution, which runs in a subshell."""
        first = len(self.commands)
        self._in_subshell("output", *node.named_children)
        self.outputs += [command.name for command in self.commands[first:]]

    def _in_subshell(self, place: str, *nodes: Node) -> None:
        saved = self.saved_variables(), self.exported, set(self.settings)
        self._in(place, *nodes)
        self.expander.variables, self.exported, self.settings = saved

    def _visit_if(self, node: Node) -> None:
        condition = " ".join(self.raw(child) for child in node.children_by_field_name("condition"))
        conditions = {child.id for child in node.children_by_field_name("condition")}
        for child in node.named_children:
            if child.id in conditions:
                self._in("test", child)
            elif child.type in ("else_clause", "elif_clause"):
                self._maybe("else", *child.named_children, condition=f"not {condition}")
            else:
                self._maybe("if", child, condition=condition)

    def _visit_loop(self, node: Node) -> None:
        for name in _assigned(node, self.budget):
            self.expander.variables[name] = UNKNOWN
        if node.type == "for_statement":
            self._set_loop_variable(node)
            self._maybe("loop", *node.named_children)
        else:
            self.place.append("while")
            self._maybe("loop", *node.named_children)
            self.place.pop()

    def _set_loop_variable(self, node: Node) -> None:
        """Set the variable of a `for` to what all its values have in common, word by word."""
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is not None:
            nodes = [child for child in node.named_children if child not in (variable, body)]
            values = [word.text for child in nodes for word in self.expander.words(child)]
            self.expander.variables[self.raw(variable)] = _common(values)

    def _visit_case(self, node: Node) -> None:
        for child in node.named_children:
            self._maybe("case", child)

    def _visit_list(self, node: Node) -> None:
        left, right = node.named_children[0], node.named_children[-1]
        operator = "or" if any(child.type == "||" for child in node.children) else "and"
        self._in(f"before {operator}", left)
        self._maybe(operator, right, condition=self.raw(left))

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
            self.functions[self.raw(name)] = body

    def _visit_comment(self, node: Node) -> None:
        self.comments.append(self.span(node))

    def _visit_redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is not None:
            self._in("redirected", body)
        self._find_cut(node)
        for child in node.named_children:
            if child.type != "heredoc_redirect" and child.type.endswith("redirect"):
                for target in child.named_children:
                    if target.type not in ("file_descriptor", "word"):
                        self.expander.words(target)

    def _visit_command(self, node: Node) -> None:
        env: dict[str, str] = {}
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                env |= self._prefix(child, self.span(node))
            elif not child.type.endswith("redirect"):
                words += self.expander.words(child)
        if words:
            self.budget.spend(_COMMAND + len(self.place))
            cut = self._find_cut(node)
            self._run(
                Command(
                    tuple(words),
                    self.span(node),
                    env,
                    self.exported,
                    frozenset(self.settings),
                    tuple(self.place),
                    tuple(filter(None, self._conditions)),
                    cut or node.has_error,
                )
            )

    def _find_cut(self, node: Node) -> bool:
        cut = find_cut(self.text, node.end_byte)
        if cut:
            start, end, why = cut
            self.budget.spend((end - node.end_byte) // CHARACTERS)
            self.cuts.append(Cut(Span(self.base(start).start, self.base(end).end), why))
        return cut is not None

    def _prefix(self, node: Node, command: Span) -> dict[str, str]:
        """An assignment before a command, which applies only to that command."""
        saved = self.saved_variables(), dict(self.expander.ranges)
        pair = self.visit_assignment(node, prefix_of=command)
        self.expander.variables, self.expander.ranges = saved
        return dict([pair]) if pair else {}

    def _run(self, command: Command) -> None:
        command = self._without_alias(command)
        self.commands.append(command)
        name = command.name
        if name in self.functions and len(self.place) < _DEEPEST_CALL and self._depth < _DEEPEST // 2:
            self._call(name, command)
        effect = EFFECTS.get(name)
        if effect:
            effect(self, command.texts[1:])

    def _without_alias(self, command: Command) -> Command:
        """The command with the words of an alias in place of its first word."""
        if command.name == "alias":
            pairs = (word.text.partition("=") for word in command.words[1:])
            self.aliases |= {name: text for name, equals, text in pairs if equals}
        text = self.aliases.get(command.name, "")
        if not text or command.words[0].raw != command.name:
            return command
        known = self.saved_variables()
        inner = read_shell(text, known, self.budget, lambda _offset: command.words[0].span).commands
        spliced = tuple(part._replace(spliced=True) for part in inner[0].words) if len(inner) == 1 else ()
        return command._replace(words=(*spliced, *command.words[1:])) if spliced else command

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


def _common(values: list[str]) -> str:
    """The words that all values have at the same place; unknown for the others."""
    rows = [value.split() for value in values]
    if not rows or len({len(row) for row in rows}) > 1:
        return UNKNOWN
    return " ".join(column[0] if len(set(column)) == 1 else UNKNOWN for column in zip(*rows, strict=True))


def _assigned(node: Node, budget: Budget) -> set[str]:
    """The variables that a node sets, at any depth."""
    found: set[str] = set()
    stack = [node]
    while stack:
        at = stack.pop()
        budget.spend(1)
        if at.type in ("variable_assignment", "for_statement") and at.named_children:
            found.add((at.named_children[0].text or b"").decode())
        stack += at.named_children
    return found


_VISITS: dict[str, Callable[[_Walker, Node], object]] = {
    "command": _Walker._visit_command,
    "test_command": lambda walker, node: walker.expander.words(node),
    "variable_assignment": _Walker.visit_assignment,
    "declaration_command": _Walker.visit_declaration,
    "unset_command": _Walker.visit_unset,
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
    "command_substitution": _Walker.visit_output,
}
