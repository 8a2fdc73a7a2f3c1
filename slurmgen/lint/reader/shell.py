"""What a shell would do: variables, expansions and builtins."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from tree_sitter import Node

from slurmgen.lint.reader.commands import Assignment, Command, Cut, Document, Part, Shell
from slurmgen.lint.reader.parse import parse
from slurmgen.lint.reader.source import CHARACTERS, OUTER, UNKNOWN, Budget, Span, TooLarge
from slurmgen.lint.reader.words import ANY, KNOWN_RANGES, Expander, Range, Value, Word, evaluate

_LONGEST_VALUE = 4096
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
        self.array_copies: list[tuple[str, str, Span]] = []
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
        if len(text) > _LONGEST_VALUE:
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
        self.expander.variables[name] = items if len(items) <= _LONGEST_VALUE else (UNKNOWN,)

    def _note_copy(self, target: str, value: Node) -> None:
        copied = re.fullmatch(r"\(\s*\$\{?(\w+)\}?\s*\)", self.raw(value))
        if copied and isinstance(self.expander.variables.get(copied[1]), tuple):
            self.array_copies.append((target, copied[1], self.span(value)))

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
    root = parse(text, budget)
    walker.visit(root)
    walker.visit_uncalled()
    return Shell(
        tuple(walker.commands),
        tuple(walker.assignments),
        tuple(walker.comments),
        walker.sourced,
        tuple(walker.outside),
        tuple(walker.array_copies),
        tuple(walker.cuts),
        tuple(walker.documents),
        root.has_error,
    )


class _Walker(Variables):
    def __init__(self, text: str, base: Callable[[int], Span], budget: Budget) -> None:
        super().__init__(text, base, budget)
        self.settings: set[str] = set()
        self.functions: dict[str, Node] = {}
        self.aliases: dict[str, str] = {}
        self.called: set[str] = set()
        self.commands: list[Command] = []
        self.outside: list[Command] = []
        self.comments: list[Span] = []
        self.cuts: list[Cut] = []
        self.documents: list[Document] = []
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
            after[name] = _either(before.get(name), after.get(name))
        if self.exported is not exported:
            self.budget.spend(len(exported))
            changed = {name for name in exported if exported[name] != self.exported.get(name)}
            self.exported = self.exported | dict.fromkeys(changed, UNKNOWN)

    def _outside(self, *nodes: Node) -> None:
        """Visit nodes that a job never reaches: nothing that they run or set counts."""
        ranges, kept = dict(self.expander.ranges), (len(self.commands), len(self.assignments))
        self._in_subshell("outside", *nodes)
        self.outside += self.commands[kept[0] :]
        del self.commands[kept[0] :], self.assignments[kept[1] :]
        self.expander.ranges = ranges

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
        is_true = in_a_job(condition)
        for child in node.named_children:
            is_other = child.type in ("else_clause", "elif_clause")
            nodes = child.named_children if is_other else [child]
            if child.id in conditions:
                self._in("test", child)
            elif is_true is is_other:
                self._outside(*nodes)
            elif is_true is None or child.type == "elif_clause":
                self._maybe(
                    "else" if is_other else "if",
                    *nodes,
                    condition=f"not {condition}" if is_other else condition,
                )
            else:
                self._in("then", *nodes, condition=condition)

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
        if in_a_job(self.raw(left)) is (operator == "or"):
            self._outside(right)
        else:
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
        first = len(self.commands)
        if body is not None:
            self._in("redirected", body)
        self._find_cut(node)
        for child in node.named_children:
            if child.type == "heredoc_redirect":
                self._visit_document(child, next(iter(self.commands[first:]), None))
            elif child.type.endswith("redirect"):
                for target in child.named_children:
                    if target.type not in ("file_descriptor", "word"):
                        self.expander.words(target)

    def _visit_document(self, node: Node, command: Command | None) -> None:
        """Note the text of a here-document, which the shell expands unless its end is quoted."""
        body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
        mark = next((child for child in node.named_children if child.type == "heredoc_start"), None)
        if body is None or mark is None or self.raw(node).startswith("<<-"):
            return
        if self.raw(mark)[:1] in "'\"\\":
            parts = [Part(self.raw(body), self.span(body), is_exact=True)]
        else:
            parts = list(self._expanded(body))
        self.documents.append(Document(tuple(parts), command))

    def _expanded(self, body: Node) -> Iterator[Part]:
        at = body.start_byte
        for child in body.named_children:
            if child.type != "heredoc_content":
                yield from self._unescaped(at, child.start_byte)
                words = self.expander.words(child)
                text = words[0].text if len(words) == 1 else UNKNOWN
                yield Part(text.replace(UNKNOWN, OUTER), self.span(child))
                at = child.end_byte
        yield from self._unescaped(at, body.end_byte)

    def _unescaped(self, start: int, end: int) -> Iterator[Part]:
        """A text without the backslashes that keep it from expansion."""
        for found in re.finditer(r"\\([$`\\])|(?:[^\\]|\\(?![$`\\]))+", self.text[start:end]):
            places = self.base(start + found.start()).start, self.base(start + found.end()).end
            yield Part(found[1] or found[0], Span(*places), is_exact=found[1] is None)

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


_ALWAYS_SET = r"SLURM_(?:JOB_?ID|(?:JOB_)?NODELIST|NNODES|JOB_NUM_NODES|JOB_NAME|SUBMIT_DIR|CLUSTER_NAME)"
"Variables that Slurm sets in each job."
_SET = rf'"?\$(?:{_ALWAYS_SET}|\{{{_ALWAYS_SET}(?::?[-+]\w*)?\}})"?'
_IN_A_JOB = re.compile(
    rf"(?P<no>! )?(?:\[\[?|test) (?P<not>! )?"
    rf"(?:-n {_SET}|-v {_ALWAYS_SET}|{_SET}(?: (?P<unequal>!=|=|==) (?:\"\"|''))?|(?P<empty>-z) {_SET})"
    r"(?: \]\]?)?"
)


def in_a_job(condition: str) -> bool | None:
    """Whether a condition holds in each job, as `[ -n "$SLURM_JOB_ID" ]` does; None if that is not known."""
    found = _IN_A_JOB.fullmatch(" ".join(condition.rstrip("; \n").split())) if "SLURM" in condition else None
    if found is None:
        return None
    is_empty = bool(found["empty"]) or found["unequal"] in ("=", "==")
    return is_empty == bool(found["no"]) ^ bool(found["not"])


def _either(before: Value | None, after: Value | None) -> Value:
    """The value of a variable that a branch may have changed: its first words, if the branch adds to them."""
    if isinstance(before, tuple):
        if not isinstance(after, tuple) or after[: len(before)] != before:
            return (UNKNOWN,)
        return after if _keeps_size(" ".join(after[len(before) :])) else (*before, UNKNOWN)
    if isinstance(before, str) and isinstance(after, str) and before.strip() and after.startswith(before):
        rest = after.removeprefix(before)
        if rest[:1].isspace() or before[-1].isspace():
            return after if _keeps_size(rest) else f"{before.rstrip()} {UNKNOWN}"
    return UNKNOWN


_SIZES = re.compile(
    r"(?:^|\s)(?:-[a-zA-Z](?!\S*-)|\x01|--?\S*(?:nod|task|proc|gpu|gres|cpu|mem|host|addr|port|rdzv|standalone|exact"
    r"|excl|overlap|devices|machine|config|world|tres))"
)
"A word that may change how many ranks start, on what, or where they meet."


def _keeps_size(words: str) -> bool:
    """Whether a launch has the same size with these further words and without."""
    return not _SIZES.search(words)


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
_SETTINGS = {"e": "errexit", "u": "nounset"}
_HARMLESS = r"(activate|conda\.sh|/etc/profile\S*|lmod\S*|modules?\S*|/init/\w+|\.bashrc|\.bash_profile)$"
"Files that set up a tool and do not change the script's variables."


class State(Protocol):
    """What a builtin can change."""

    expander: Expander
    settings: set[str]
    sourced: bool


def _set(state: State, arguments: list[str]) -> None:
    for at, word in enumerate(arguments):
        if word[:1] not in "+-" or word in ("--", "-"):
            return
        change = state.settings.add if word[0] == "-" else state.settings.discard
        for letter in word[1:] if not word.startswith("--") else "":
            if letter in _SETTINGS:
                change(_SETTINGS[letter])
            elif letter == "o" and at + 1 < len(arguments):
                change(arguments[at + 1])


def _source(state: State, arguments: list[str]) -> None:
    if not arguments or not re.search(_HARMLESS, arguments[0]):
        _forget(state, arguments)


def _forget(state: State, _arguments: list[str]) -> None:
    state.sourced = True
    variables = state.expander.variables
    state.expander.budget.spend(len(variables) // 8)
    for name in variables:
        if not name.startswith("SLURM_"):
            variables[name] = UNKNOWN if not isinstance(variables[name], tuple) else (UNKNOWN,)


def _read(state: State, arguments: list[str]) -> None:
    for name in arguments:
        if name.isidentifier():
            state.expander.variables[name] = UNKNOWN


def _read_array(state: State, arguments: list[str]) -> None:
    for name in arguments:
        if name.isidentifier():
            state.expander.variables[name] = (UNKNOWN,)


EFFECTS: dict[str, Callable[[State, list[str]], None]] = {
    "set": _set,
    "source": _source,
    ".": _source,
    "eval": _forget,
    "read": _read,
    "mapfile": _read_array,
    "readarray": _read_array,
}
"The effects by the name of the builtin."
_MOST = 50
"Lines of comments, or blank lines, that are searched."
_CUT = re.compile(
    rf"[ \t]*\\(?:\n(?:(?P<comments>(?:[ \t]*#[^\n]*\n){{1,{_MOST}}})|(?:[ \t]*\n){{1,{_MOST}}})"
    r"|(?P<blanks>[ \t]+)(?P<comment>#[^\n]*)?\n)(?P<next>[^\n]*)"
)
_CONTINUED = re.compile(r"[ \t]*--?[A-Za-z]")
"The beginning of a line that its author meant as a part of the command before it: an option."


def find_cut(text: str, end: int) -> tuple[int, int, str] | None:
    """What ends a command before its options end: the start, the end and the kind; None if nothing does.

    Args:
        text: the script.
        end: the offset of the end of the command.
    """
    found = _CUT.match(text, end)
    if found is None or not _CONTINUED.match(found["next"]):
        return None
    backslash = text.index("\\", end)
    if found["comment"]:
        return found.start("comment"), found.end("comment"), "a comment after the backslash"
    if found["blanks"]:
        return backslash, found.end("blanks"), "blanks after the backslash"
    if not found["comments"]:
        return backslash, backslash + 1, "a blank line"
    start = text.index("#", backslash)
    return start, text.index("\n", start), "a comment"


_NAME = r"(?:[A-Za-z_]\w*+|\d)"
_GLUED = re.compile(rf"(?<!\\)\$(?:{_NAME}|\{{{_NAME}\}})[\w/:,.@%+=~-]++(?=\${_NAME})")
"An expansion and a literal text, followed by an expansion without braces."
_VARIABLE = re.compile(rf"\$({_NAME})")
_DOUBLE = re.compile(r"\$\(\(\(")
_COMMENT = re.compile(r"(?<!\\)`#[^`\n]*`")
_LONGEST_LINE = 500
"Characters that are searched for the end of `$(((`."


class Insertion(NamedTuple):
    """A text that is inserted at an offset of the original."""

    at: int
    text: str


def rewrite(text: str, base: Callable[[int], Span], budget: Budget) -> tuple[str, Callable[[int], Span]]:
    """The equivalent text, and the function that maps its offsets to spans of the script."""
    text = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    insertions = sorted({*_braces(text), *_blanks(text, budget)})
    budget.spend(len(insertions))
    if not insertions:
        return text, base
    parts, at, starts, shifts = [], 0, [0], [0]
    for insertion in insertions:
        parts += [text[at : insertion.at], insertion.text]
        at = insertion.at
        shifts.append(shifts[-1] + len(insertion.text))
        starts.append(at + shifts[-1])
    return "".join([*parts, text[at:]]), lambda offset: base(
        offset - shifts[bisect_right(starts, offset) - 1]
    )


def _braces(text: str) -> Iterator[Insertion]:
    """Turn the second variable of `$A/$B/x` into `${B}`."""
    at = 0
    while found := _GLUED.search(text, at):
        name = _VARIABLE.match(text, found.end())
        if name is None:
            return
        yield Insertion(name.start(1), "{")
        yield Insertion(name.end(1), "}")
        at = found.end()


def _blanks(text: str, budget: Budget) -> Iterator[Insertion]:
    """Separate the parentheses of `$(((X)) && y)`, which is a command and not arithmetic."""
    for found in _DOUBLE.finditer(text):
        budget.spend(_LONGEST_LINE // CHARACTERS)
        if not _is_arithmetic(text[found.start() + 2 : found.start() + _LONGEST_LINE]):
            yield Insertion(found.start() + 2, " ")


def _is_arithmetic(text: str) -> bool:
    """Whether the parenthesis that the text starts with is closed together with the one before it."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[at + 1 : at + 2] == ")"
    return True
