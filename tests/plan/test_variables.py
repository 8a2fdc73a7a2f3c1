"""The variables that a script exports: their order, and those that a container gets."""

import subprocess
from typing import Any

import pytest

from slurmgen import Plan, Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.request.model import Then, merge

GENERIC = load_site("generic")


def plan_of(**asked: Any) -> Plan:
    return resolve(Request(**{"script": "train.py", **asked}), GENERIC)


def lines_of(plan: Plan) -> list[str]:
    return [line for line in render(plan).splitlines() if line.startswith("export ")]


@pytest.mark.parametrize(
    ("env", "order"),
    [
        ({"OMP_NUM_THREADS": "$B", "B": "3"}, "B OMP_NUM_THREADS"),
        ({"A": "$B/a", "B": "$C/b", "C": "$STAGED_DATA/c"}, "STAGED_DATA C B A"),
        ({"A": "$STAGED_DATA/a", "B": "$A/b"}, "STAGED_DATA A B"),
    ],
)
def test_a_variable_comes_after_those_that_its_value_uses(env: dict[str, str], order: str) -> None:
    plan = plan_of(env=env, stage=("/data/a.bin",))
    assert [one.name for one in plan.variables if one.name in order.split()] == order.split()


def test_a_variable_that_a_later_layer_sets_again_comes_after_those_that_it_uses() -> None:
    layers = Request(env={"CACHE": "/x"}, script="train.py"), Request(env={"ROOT": "/y", "CACHE": "$ROOT/c"})
    assert lines_of(resolve(merge(*layers), GENERIC))[-2:] == ["export ROOT=/y", 'export CACHE="$ROOT/c"']


def test_variables_that_use_each_other_or_themselves_are_exported_once() -> None:
    plan = plan_of(env={"A": "$B", "B": "$A", "C": "/x:$C"})
    assert sorted(lines_of(plan)[-3:]) == ['export A="$B"', 'export B="$A"', 'export C="/x:$C"']


def test_a_long_chain_of_variables_is_exported_from_its_end() -> None:
    count = 3000
    chain = {f"V{number}": f"$V{number + 1}" for number in range(count)}
    names = [variable.name for variable in plan_of(env=chain).variables if variable.name in chain]
    assert names == [f"V{number}" for number in reversed(range(count))]


@pytest.mark.parametrize(
    "asked",
    [
        {"script_args": ("--out", "$OUT")},
        {"env": {"OUT": "/x", "LOG": "$OUT/log"}},
        {"before": ('mkdir -p "${OUT%/}"',)},
        {"after": ("ls $OUT",)},
        {"then": (Then(command=("ls", "$OUT")),)},
    ],
)
def test_a_variable_of_the_container_that_the_script_uses_is_exported_for_both(asked: dict[str, Any]) -> None:
    lines = lines_of(plan_of(**{"env": {"OUT": "/x"}, "container": "i.sif", **asked}))
    assert "export OUT=/x" in lines
    assert "export APPTAINERENV_OUT=/x" in lines


def test_a_variable_of_the_container_alone_is_not_exported_for_the_script() -> None:
    env = {"LD_LIBRARY_PATH": "/opt:$LD_LIBRARY_PATH", "MODE": "x"}
    lines = lines_of(plan_of(env=env, container="i.sif", before=("echo MODE",)))
    assert [line.partition("=")[0] for line in lines[-2:]] == [
        "export APPTAINERENV_LD_LIBRARY_PATH",
        "export APPTAINERENV_MODE",
    ]


@pytest.mark.parametrize("engine", ["apptainer", "singularity"])
@pytest.mark.parametrize("name", ["APPTAINER_CACHEDIR", "SINGULARITY_TMPDIR"])
def test_a_variable_of_the_engine_itself_is_exported_for_the_engine(name: str, engine: str) -> None:
    plan = plan_of(env={name: "/x"}, container="docker://pytorch/pytorch:2.9", container_engine=engine)
    text = render(plan)
    assert lines_of(plan)[-1] == f"export {name}=/x"
    assert text.index(f"\nexport {name}=/x\n") < text.index(f"{engine} pull ")


@pytest.mark.parametrize("asked", [{"requeue": True}, {"segments": 3}])
def test_the_script_looks_for_progress_where_the_ranks_in_a_container_write_it(asked: dict[str, Any]) -> None:
    env = {"PROGRESS_DIR": "/scratch/run"}
    assert "export PROGRESS_DIR=/scratch/run" in lines_of(plan_of(env=env, container="i.sif", **asked))
    assert "export PROGRESS_DIR=/scratch/run" not in lines_of(plan_of(env=env, container="i.sif"))


@pytest.mark.parametrize("name", ["UID", "PPID"])
def test_a_variable_that_no_bash_script_can_set_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match=f"--env {name} would have no effect: it is read-only in bash"):
        plan_of(env={name: "1"})
    assert f"export APPTAINERENV_{name}=1" in lines_of(plan_of(env={name: "1"}, container="i.sif"))


def test_the_refused_names_are_those_that_no_bash_script_can_set() -> None:
    listed = subprocess.run(["bash", "-c", "readonly -p"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        name = line.split()[2].partition("=")[0]
        with pytest.raises(RequestError, match="read-only"):
            plan_of(env={name: "1"})
