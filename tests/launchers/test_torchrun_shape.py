"""The launchers deepspeed and hf-trainer: torchrun, and a DeepSpeed configuration file for the program."""

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError

ARGUMENTS = {"deepspeed": "--deepspeed --deepspeed_config=ds.json", "hf-trainer": "--deepspeed=ds.json"}


def text(framework: str, **asked: object) -> str:
    options = {"framework": framework, "gpus": 4, "nodes": 2, "script": "train.py"} | asked
    return render(resolve(Request(**options), load_site("generic")))  # type: ignore[arg-type]


def step(script: str) -> str:
    return script[script.index("srun") :]


@pytest.mark.parametrize("framework", ARGUMENTS)
def test_the_step_is_that_of_ddp(framework: str) -> None:
    assert step(text(framework)) == step(text("ddp"))


@pytest.mark.parametrize("framework", ARGUMENTS)
def test_the_configuration_file_follows_the_arguments_of_the_script(framework: str) -> None:
    script = text(framework, launcher_config="ds.json", script_args=("--lr", "1"))
    assert script.endswith(f"  train.py --lr 1 {ARGUMENTS[framework]}\n")


@pytest.mark.parametrize("framework", ARGUMENTS)
def test_a_file_name_is_quoted(framework: str) -> None:
    assert "'a b;c'" in text(framework, launcher_config="a b;c")


@pytest.mark.parametrize("framework", ARGUMENTS)
def test_mixed_precision_belongs_to_the_configuration(framework: str) -> None:
    with pytest.raises(RequestError, match="has no effect"):
        text(framework, mixed_precision="bf16")
