"""A request from the texts of a form."""

import pytest

from slurmgen.errors import RequestError
from slurmgen.request.model import Request, Sweep
from slurmgen.request.text import request_of


def test_texts_become_a_request() -> None:
    texts = {
        "gpus": "8",
        "requeue": "yes",
        "preflight": "no",
        "env": "A=1\r\nB=x=y",
        "modules": "none",
        "sbatch": "exclusive\ncomment=a b",
        "command": "./run 'a b'",
        "script_args": "--name 'x y'",
        "sweep": "lr=1,2",
        "sweep_limit": "3",
        "qos": "",
    }
    assert request_of(texts) == Request(
        gpus=8,
        requeue=True,
        preflight=False,
        env={"A": "1", "B": "x=y"},
        modules=(),
        sbatch={"exclusive": True, "comment": "a b"},
        command=("./run", "a b"),
        script_args=("--name", "x y"),
        sweep=Sweep(grid={"lr": ("1", "2")}, limit=3),
    )


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("gpus", "two", "'two' is not a valid integer"),
        ("gpus", "9" * 5000, "is not a valid integer"),
        ("requeue", "on", "'on' is not one of 'yes', 'no'"),
        ("rendezvous", "etcd", "'etcd' is not one of 'static', 'c10d'"),
        ("env", "A", "'A' is not KEY=VALUE"),
        ("env", "A=...", "has no value"),
        ("command", "'a", "is not a command"),
        ("script_args", "'a", "is not a list of arguments"),
        ("before", "rm", "a form has no field 'before'"),
        ("colour", "", "a form has no field 'colour'"),
    ],
)
def test_an_invalid_text_is_refused_with_its_field(name: str, text: str, fact: str) -> None:
    with pytest.raises(RequestError, match=fact.replace("(", r"\(")) as error:
        request_of({name: text})
    assert error.value.field == name
