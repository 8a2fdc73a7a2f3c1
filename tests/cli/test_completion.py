"""Completion with a real bash: jobs and submissions of the ledger, sites, twins and lint rules."""

import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.lint.rules import all_rules
from tests.conftest import Run
from tests.support.programs import write_programs
from tests.support.twins import Testbed

Complete = Callable[..., list[str]]

JOB = Record(
    id="4711", site="daic", via="ssh", name="cifar", folder="/f", output="%j", submitted="2026-01-01", key="a"
)
OTHER = structs.replace(JOB, id="42", site="olivia", name="mnist", submitted="2026-01-02", key="b")
PENDING = structs.replace(JOB, id="", name="lost", submitted="2026-01-03", state="pending", key="20260103-k")


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """Press the tab key at the end of a command line, and return what bash offers."""
    program = f'exec {shlex.quote(sys.executable)} -m slurmgen "$@"'
    programs = write_programs(tmp_path / "bin", {"slurmgen": program})

    def press_tab(line: str, folder: Path = tmp_path) -> list[str]:
        words = line.split(" ")
        script = (
            'eval "$(_SLURMGEN_COMPLETE=bash_source slurmgen)"\n'
            f'COMP_WORDS=("$@") COMP_CWORD={len(words) - 1}\n'
            "_slurmgen_completion slurmgen\n"
            'for reply in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do printf \'%s\\n\' "$reply"; done\n'
        )
        argv = ["bash", "--norc", "-c", script, "bash", *words]
        environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        reply = subprocess.run(
            argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=True
        )
        assert reply.stderr == ""
        return reply.stdout.split("\n")[:-1]

    return press_tab


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    for record in (JOB, OTHER, PENDING):
        ledger.add(record)
    return ledger


@pytest.mark.parametrize("command", ["status", "logs", "wait", "cancel", "fetch"])
def test_jobs_are_completed_by_id_by_name_and_as_last(
    command: str, complete: Complete, ledger: Ledger
) -> None:
    assert sorted(complete(f"slurmgen {command} ")) == ["42", "4711", "cifar", "last", "mnist"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("slurmgen status 47", ["4711"]),
        ("slurmgen wait 42 ci", ["cifar"]),
        ("slurmgen cancel --site daic ", ["4711", "cifar", "last"]),
        ("slurmgen fetch --to results m", ["mnist"]),
        ("slurmgen logs -f la", ["last"]),
        ("slurmgen status x", []),
    ],
)
def test_only_jobs_that_match_what_was_typed_are_offered(
    line: str, offered: list[str], complete: Complete, ledger: Ledger
) -> None:
    assert sorted(complete(line)) == sorted(offered)


def test_forget_completes_only_unsettled_submissions(complete: Complete, ledger: Ledger) -> None:
    assert sorted(complete("slurmgen forget ")) == ["20260103-k", "lost"]


def test_a_name_that_bash_would_split_or_expand_is_not_offered(
    complete: Complete, ledger: Ledger, tmp_path: Path
) -> None:
    for number, name in enumerate(["two words", "*", "$(touch made)", "a\nplain,b", "\x1b[31m"]):
        ledger.add(structs.replace(JOB, id=f"{number}", name=name, key=name))
    offered = {"0", "1", "2", "3", "4", "42", "4711", "cifar", "last", "mnist"}
    assert set(complete("slurmgen status ")) == offered
    assert not (tmp_path / "made").exists()


def test_without_jobs_nothing_is_offered_and_no_ledger_is_made(complete: Complete) -> None:
    assert complete("slurmgen status ") == []
    assert not Ledger().path.exists()


def test_a_ledger_that_cannot_be_read_offers_nothing(complete: Complete, ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("PRAGMA user_version = 99")
    assert complete("slurmgen status ") == []


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "plain\n4711\ncifar at daic, 2026-01-01\n"), ("fish", "plain,4711")]
)
def test_other_shells_complete_too(shell: str, line: str, ledger: Ledger, slurmgen: Run) -> None:
    words = {"zsh": "slurmgen status 47", "fish": "slurmgen status "}[shell]
    variables = {"_SLURMGEN_COMPLETE": f"{shell}_complete", "COMP_WORDS": words}
    variables["COMP_CWORD"] = {"zsh": "2", "fish": "47"}[shell]
    assert slurmgen(env=os.environ | variables).stdout.startswith(line)


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
def test_lint_completes_the_codes_of_rules(option: str, complete: Complete) -> None:
    assert complete(f"slurmgen lint {option} SG1") == [code for code in all_rules() if code.startswith("SG1")]


def test_lint_completes_a_code_after_a_comma(complete: Complete) -> None:
    assert complete("slurmgen lint --select SG101,SG30")[0] == "SG101,SG301"


@pytest.mark.parametrize("line", ["twin up --site ol", "sites show ol", "status --site ol", "lint --site ol"])
def test_sites_are_completed(line: str, complete: Complete) -> None:
    assert complete(f"slurmgen {line}") == ["olivia"]


def test_a_site_of_the_project_is_completed_also_in_a_subfolder(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").touch()
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles" / "lab.toml").touch()
    (tmp_path / "experiment").mkdir()
    assert complete("slurmgen sites show la") == ["lab"]
    assert complete("slurmgen sites show la", tmp_path / "experiment") == ["lab"]


def test_twin_down_and_status_complete_the_twins_that_run(
    complete: Complete, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("slurmgen twin down --site ") == []
    monkeypatch.setenv("XDG_STATE_HOME", testbed.environ["XDG_STATE_HOME"])
    assert complete("slurmgen twin down --site ") == ["generic"]
    assert complete("slurmgen twin status --site ") == ["generic"]


def test_the_routes_are_completed(complete: Complete) -> None:
    assert complete("slurmgen status --via ") == ["ssh", "local", "twin"]
