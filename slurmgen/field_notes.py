"""The strings below the fields of a struct, which describe them to readers, in schemas and in documents."""

import ast
import inspect


def field_notes(kind: type) -> dict[str, str]:
    """The description of each field of a class, inherited ones too."""
    return {name: note for base in reversed(kind.__mro__) for name, note in _own_notes(base).items()}


def _own_notes(kind: type) -> dict[str, str]:
    if not kind.__module__.startswith("slurmgen."):
        return {}
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)  # noqa: S101
    notes = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                notes[name] = text
    return notes
