"""The lines of a script with their reasons."""

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.plan.explain import explain
from slurmgen.request.model import Sweep
from slurmgen.script_lines import Line, script_lines

OLIVIA = load_site("olivia")


def _lines(**fields: object) -> tuple[Line, ...]:
    plan = resolve(Request(account="nn1234k", **fields), OLIVIA)  # type: ignore[arg-type]
    return script_lines(plan, render(plan))


def _key(lines: tuple[Line, ...], start: str) -> str | None:
    """The key of the only line that begins so."""
    (found,) = [line.key for line in lines if line.text.lstrip().startswith(start)]
    return found


def test_the_lines_are_the_script() -> None:
    plan = resolve(Request(gpus=8, account="nn1234k", requeue=True), OLIVIA)
    assert "".join(f"{line.text}\n" for line in script_lines(plan, render(plan))) == render(plan)


@pytest.mark.parametrize(
    ("start", "key"),
    [
        ("#SBATCH --nodes=2", "directives.nodes"),
        ("#SBATCH --signal=", "directives.signal"),
        ("module load", "modules"),
        ("export NCCL_PROTO=", "env.NCCL_PROTO"),
        ("export APPTAINERENV_A=", "env.A"),
        ("MASTER_PORT=", "rendezvous"),
        ("srun --cpus-per-task", "launch"),
        ("apptainer exec", "container"),
        ("exec torchrun", "launch"),
        ("train.py --seed 1", "program"),
        ("scontrol requeue ", "requeue"),
        ("progress=", "requeue_signal"),
        ("#!/bin/bash", None),
        ("set -e", None),
        ("# LL128", None),
    ],
)
def test_a_line_has_the_key_of_its_reason(start: str, key: str | None) -> None:
    lines = _lines(gpus=8, requeue=True, script="train.py", script_args=("--seed", "1"), env={"A": "b"})
    assert _key(lines, start) == key


def test_the_reason_is_that_of_the_plan() -> None:
    plan = resolve(Request(gpus=8, account="nn1234k"), OLIVIA)
    for line in script_lines(plan, render(plan)):
        if line.key is not None:
            assert line.reason == explain(plan)[line.key]


def test_the_table_of_a_sweep_has_a_reason() -> None:
    lines = _lines(sweep=Sweep(grid={"lr": ("1", "2")}))
    assert _key(lines, "0) arguments=(--lr=1)") == "sweep"


def test_a_citation_has_its_source() -> None:
    (memory,) = [line for line in _lines(gpus=4) if line.key == "directives.mem"]
    cited = [(text, source.url) for text, source in memory.parts if source]
    assert cited == [("[guide]", "https://documentation.sigma2.no")]
    assert "".join(text for text, _ in memory.parts) == memory.reason.text  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["# Rendezvous on", "scontrol requeue", "#SBATCH --mem=1G", "[docs]"])
def test_an_argument_that_looks_like_a_line_changes_no_key(text: str) -> None:
    plain = [line.key for line in _lines(gpus=8, script="train.py", script_args=("x",))]
    assert [line.key for line in _lines(gpus=8, script="train.py", script_args=(text,))] == plain
