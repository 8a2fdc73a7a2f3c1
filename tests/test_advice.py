"""Which field a refusal is about, and what it offers."""

import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.advice import MOST, field_of, offers
from slurmgen.errors import RequestError, did_you_mean


def _refusal(site: str, **fields: object) -> RequestError:
    with pytest.raises(RequestError) as error:
        resolve(Request(**{"account": "abc", **fields}), load_site(site))  # type: ignore[arg-type]
    return error.value


def _offers(error: RequestError) -> list[str]:
    return [f"{offer.field}={offer.value}" for offer in offers(error)]


@pytest.mark.parametrize(
    ("site", "fields", "field", "offered"),
    [
        ("olivia", {"time": "9-0"}, "time", ["time=7-00:00:00"]),
        ("olivia", {"gpus": 40}, "gpus", ["gpus=32"]),
        ("olivia", {"gpus": 6}, "gpus", ["nodes=2", "gpus=4", "gpus=8"]),
        ("olivia", {"nodes": 2}, "gpus", ["nodes=1", "gpus=2", "gpus=8"]),
        ("olivia", {"sbatch": {"time": "1"}}, "sbatch", []),
        ("olivia", {"gpus": 5, "nodes": 2}, "gpus", ["nodes=5", "gpus=4", "gpus=6"]),
        ("olivia", {"account": None}, "account", []),
        ("olivia", {"partition": "acel"}, "partition", ["partition=accel"]),
        ("olivia", {"partition": "small"}, "partition", ["partition=accel"]),
        ("olivia", {"gpus": 0, "framework": "ddp"}, "gpus", ["gpus="]),
        ("olivia", {"mem": "999G"}, "mem", ["mem=808G"]),
        ("olivia", {"cpus": 4, "cpus_per_gpu": 4}, "cpus", ["cpus=", "cpus_per_gpu="]),
        ("olivia", {"framework": "dpp"}, "framework", ["framework=ddp"]),
        ("olivia", {"on_bad_node": "retry"}, "on_bad_node", ["preflight=yes"]),
        ("olivia", {"env": {"A_TOKEN": "x"}}, "env", ["secrets=A_TOKEN", "not_secret=A_TOKEN"]),
        ("olivia", {"python_env": "vnv:/a"}, "python_env", ["container=none"]),
        ("olivia", {"name": "a b"}, "name", []),
        ("olivia", {"sbatch": {"comment": "'--gpus'"}}, "sbatch", []),
        ("olivia", {"script_args": ("\0",)}, "script_args", []),
        ("olivia", {"requeue_signal": "KILL"}, "requeue_signal", []),
        ("olivia", {"nodes": 100_000}, "nodes", []),
    ],
)
def test_a_refusal_has_a_field_and_offers(
    site: str, fields: dict[str, object], field: str, offered: list[str]
) -> None:
    error = _refusal(site, **fields)
    assert field_of(error) == field, str(error)
    assert set(offered) <= set(_offers(error)), str(error)
    assert bool(offered) == bool(_offers(error)), str(error)


def test_quoted_text_of_the_user_does_not_choose_the_field() -> None:
    assert field_of(RequestError("the job name '--gpus' is not valid")) == "name"


def test_an_example_is_not_offered() -> None:
    assert offers(RequestError("the sweep has no parameters", "Write it as --sweep lr=1e-3,3e-4.")) == ()


def test_the_offers_are_few() -> None:
    error = RequestError(
        "s has no partition 'x'", did_you_mean("x", [f"p{n}" for n in range(50)]), "partition"
    )
    assert len(offers(error)) == MOST


@pytest.mark.parametrize(("site", "field", "value"), [("olivia", "time", "9-0"), ("lumi-g", "time", "9-0")])
def test_an_offer_corrects_the_request(site: str, field: str, value: str) -> None:
    error = _refusal(site, **{field: value})
    (offer,) = offers(error)
    resolve(Request(**{"account": "abc", offer.field: offer.value}), load_site(site))  # type: ignore[arg-type]
