"""Each refusal of the planner is a lint rule, too, or has a reason why it is not."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from slurmgen.lint import all_rules
from tests.conftest import REPOSITORY

TABLE = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())
PLANNER = [
    *sorted(Path(REPOSITORY, "slurmgen", "plan").glob("*.py")),
    Path(REPOSITORY, "slurmgen", "slurm", "sbatch_options.py"),
]
PARTS = [part for table in TABLE.values() for parts in table.values() for part in parts]


def messages() -> Iterator[str]:
    """The first argument of each RequestError; for a variable, all values that its function gives it."""
    for path in PLANNER:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "RequestError":
                        yield from map(ast.unparse, _values(call.args[0], function))


def _values(argument: ast.expr, function: ast.FunctionDef) -> list[ast.expr]:
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    values = [node.value for node in assigned if ast.unparse(node.targets[0]) == ast.unparse(argument)]
    return values if isinstance(argument, ast.Name) and values else [argument]


def test_every_refusal_is_in_the_table() -> None:
    assert [text for text in messages() if not any(part in text for part in PARTS)] == []


def test_every_entry_is_a_refusal() -> None:
    texts = list(messages())
    assert len(texts) > 100
    assert [part for part in PARTS if not any(part in text for text in texts)] == []


def test_the_table_names_rules_and_reasons() -> None:
    assert TABLE["rules"].keys() <= all_rules().keys()
    assert all(reason.endswith(".") for reason in TABLE["reasons"])
