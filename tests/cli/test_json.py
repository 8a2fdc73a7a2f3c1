"""Every command prints with --json what its schema in schemas/output describes."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from slurmgen.cli import cli
from slurmgen.cli.schema import OUTPUTS, WITHOUT, file_name, schema_of, schema_text
from slurmgen.ledger.ledger import Ledger, Record
from tests.cli.test_output import EVERY, project
from tests.conftest import REPOSITORY, Run
from tests.support.twins import Testbed

__all__ = ["project"]  # the fixture with hostile names


def commands(command: click.Command = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below the group, by its words."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}".strip())


def strict(schema: Any) -> Any:
    """The schema that also refuses keys that it does not describe."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        return schema | ({"additionalProperties": False} if "properties" in schema else {})
    return [strict(one) for one in schema] if isinstance(schema, list) else schema


def check(command: str, text: str) -> Any:
    """The object that a command printed, which its schema describes completely."""
    printed = json.loads(text)
    jsonschema.validate(printed, strict(deepcopy(schema_of(command))))
    return printed


def test_every_command_has_json_or_a_reason_why_not() -> None:
    """If not: add its type to OUTPUTS, and a case below."""
    with_json = {
        path for path, command in commands() if any(param.name == "as_json" for param in command.params)
    }
    assert with_json == OUTPUTS.keys()
    assert {path for path, _ in commands()} - with_json == WITHOUT.keys()


@pytest.mark.parametrize("command", OUTPUTS)
def test_the_checked_in_schema_is_current(command: str) -> None:
    """If not: python -m slurmgen.cli.schema."""
    path = REPOSITORY / "schemas" / "output" / file_name(command)
    assert path.read_text(encoding="utf-8") == schema_text(command)


@pytest.mark.parametrize("command", sorted(EVERY.keys() - WITHOUT.keys() | {"twin"}))
def test_after_an_error_stdout_is_empty_or_json(command: str, project: Path, slurmgen: Run) -> None:
    for args in EVERY[command]:
        if {"--json", "--format"} & {*args}:
            continue
        words = f"{command} {args[0]}" if args else command
        result = slurmgen(command, *args, "--json", cwd=project, input="")
        assert result.returncode in (0, 1, 2, 3), (args, result.stderr)
        assert result.stdout or result.stderr, args
        if result.stdout:
            check(words if words in OUTPUTS else command, result.stdout)


FILES = {
    "slurmgen.toml": (
        'site = "generic"\n[job.hello]\nframework = "python"\nscript = "hello.py"\ntime = "00:05:00"\n'
    ),
    "hello.py": "open('result', 'w').write('1')\nprint('hello')\n",
    "bad.sbatch": "#!/bin/bash\n#SBATCH --time=5\nsrun python train.py &\n",
    "wrong.toml": "gpu = 1\n",
    "failed.out": "FATAL:   could not open image /img/x.sif: failed\n",
}
LOCAL = {
    "render": "render hello; render hello -o out.sbatch; render --all --write",
    "check": "check",
    "explain": "explain hello; explain hello --gpus 4 --framework ddp --requeue",
    "lint": "lint bad.sbatch; lint bad.sbatch --diff; lint --explain SG1",
    "adopt": "adopt bad.sbatch --dry-run",
    "diagnose": "diagnose hello.py failed.out",
    "init": "init --site generic",
    "sites": "sites",
    "sites list": "sites list",
    "sites show": "sites show daic",
    "sites validate": f"sites validate --strict {REPOSITORY}/site_profiles/daic.toml wrong.toml",
    "sites new": "sites new mine --gpus-per-node 4",
    "sites test": "sites test generic --no-twin",
}
"Command lines that need no twin, in their order."
TWIN = "--site generic --via twin"
ON_TWIN = {
    "doctor": f"doctor hello {TWIN}",
    "submit": f"submit hello {TWIN} --dry-run; submit hello {TWIN} --test-only; "
    f"submit hello {TWIN} --sweep a=1,2 --name swept; submit hello {TWIN}",
    "results": "results swept",
    "top": "top",
    "wait": "wait last; wait last last",
    "status": "status last; status last last; status",
    "logs": "logs last; logs last last",
    "fetch": "fetch last; fetch last last",
    "where": f"where hello {TWIN}",
    "resubmit": "resubmit last --dry-run; resubmit last",
    "cancel": "cancel last; cancel last last",
    "forget": "forget never",
    "nodes": f"nodes {TWIN} --add n9 --because slow; nodes {TWIN} --clear n9",
    "snapshots": f"snapshots {TWIN}",
    "preflight": f"preflight {TWIN} --dry-run; preflight --copy; preflight {TWIN} --gpus 0",
    "sites discover": (
        "sites discover --diff generic --via twin; sites discover --name generic --via twin; "
        "sites discover --name generic --via twin --probe --dry-run"
    ),
    "twin status": "twin status",
}
"Command lines on a running twin, in their order."
STARTING = {"twin up": "twin up daic --nodes 1", "twin down": "twin down daic"}
"Command lines that start and stop a twin of their own."


def printed(cases: dict[str, str], slurmgen: Run, **options: Any) -> dict[str, list[Any]]:
    """What the command lines of each command print with --json; each must do without an error."""
    found: dict[str, list[Any]] = {}
    for command, lines in cases.items():
        for line in lines.split("; "):
            result = slurmgen(*line.split(), "--json", **options)
            assert result.returncode in (0, 1), (line, result.stderr)
            found.setdefault(command, []).append(check(command, result.stdout))
    return found


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A project with a job that makes a file."""
    folder = tmp_path / "hello"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_every_command_is_run() -> None:
    assert [*LOCAL, *ON_TWIN, *STARTING] == [*dict.fromkeys([*LOCAL, *ON_TWIN, *STARTING])]
    assert {*LOCAL, *ON_TWIN, *STARTING} == OUTPUTS.keys()


def test_commands_without_a_twin_print_what_their_schemas_describe(hello: Path, slurmgen: Run) -> None:
    (hello / "new").mkdir()
    cases = {name: lines for name, lines in LOCAL.items() if name != "init"}
    found = printed(cases, slurmgen, cwd=hello)
    found |= printed({"init": LOCAL["init"]}, slurmgen, cwd=hello / "new")
    text, _, written = found["render"]
    assert text["scripts"][0]["path"] is None
    assert written["scripts"][0]["script"] == (hello / "slurm" / "hello.generic.sbatch").read_text()
    assert [finding["code"] for finding in found["lint"][0]]
    assert found["sites"] == found["sites list"]
    right, wrong = found["sites validate"][0]["profiles"]
    assert (right["errors"], right["warnings"]) == ([], [])
    assert wrong["errors"]


def test_commands_on_a_twin_print_what_their_schemas_describe(
    hello: Path, slurmgen: Run, testbed: Testbed
) -> None:
    state = testbed.environ["XDG_STATE_HOME"]
    environ = os.environ | {"HOME": str(hello.parent), "XDG_STATE_HOME": state}
    Ledger(Path(state, "slurmgen", "ledger.sqlite")).claim(NEVER)
    found = printed(ON_TWIN, slurmgen, cwd=hello, env=environ)
    plan, accepted, _swept, submitted = found["submit"]
    assert plan["files"]
    assert accepted["site"] == "generic"
    assert [job["id"] for job in found["wait"][1]["jobs"]] == [submitted["id"]]
    assert found["status"][0]["state"] == "COMPLETED"
    assert "result" in found["fetch"][0]["new"]
    assert found["resubmit"][0]["diff"] == ""
    assert found["resubmit"][1]["resubmits"] == submitted["id"]
    assert found["forget"][0]["outcome"] == "removed"
    assert found["preflight"][2]["healthy"] is True
    assert [twin["site"] for twin in found["twin status"][0]["twins"]] == ["generic"]


NEVER = Record(
    id="",
    site="generic",
    via="twin",
    name="never",
    folder="slurmgen",
    output="%x-%j.out",
    submitted="2026-01-01T00:00:00+00:00",
    key="never-submitted-1",
    fingerprint="never",
    state="pending",
)
"A submission that never arrived."


def test_twins_that_start_and_stop_print_what_their_schemas_describe(slurmgen: Run, tmp_path: Path) -> None:
    found = printed(STARTING, slurmgen)
    assert found["twin up"][0]["site"] == "daic"
    assert found["twin down"][0] == {"stopped": ["daic"]}


def test_each_example_of_the_documentation_fits_its_schema() -> None:
    for command, example in json.loads((REPOSITORY / "docs" / "json_examples.json").read_text()).items():
        check(command, json.dumps(example))
