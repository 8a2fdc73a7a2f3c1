"""What an error says about a request: its field, and the offers that correct it."""

import re

import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.errors import MOST, Offer, RequestError, SlurmgenError, did_you_mean, flag, option, worded
from slurmgen.request.text import FIELDS
from slurmgen.web.generator import LABELS, answer_of, spec_without_project
from tests.support.form_requests import LISTS, form_requests


def _refusal(site: str, **fields: object) -> RequestError:
    with pytest.raises(RequestError) as error:
        resolve(Request(**{"account": "abc", **fields}), load_site(site))  # type: ignore[arg-type]
    return error.value


@pytest.mark.parametrize(
    ("site", "fields", "field", "offered"),
    [
        ("olivia", {"time": "9-0"}, "time", ["time=7-00:00:00"]),
        ("olivia", {"gpus": 40}, "gpus", ["gpus=32"]),
        ("olivia", {"gpus": 6}, "gpus", ["gpus=4", "gpus=8", "nodes=2"]),
        ("olivia", {"nodes": 2}, "gpus", ["gpus=2", "gpus=8", "nodes=1"]),
        ("olivia", {"sbatch": {"time": "1"}}, "sbatch", []),
        ("olivia", {"gpus": 5, "nodes": 2}, "gpus", ["gpus=4", "gpus=6", "gpus=8", "nodes=5"]),
        ("olivia", {"account": None}, "account", []),
        ("olivia", {"partition": "small"}, "partition", ["partition=accel"]),
        ("olivia", {"mem": "999G"}, "mem", ["mem=808G"]),
        ("olivia", {"cpus": 4, "cpus_per_gpu": 4}, "cpus", ["cpus=", "cpus_per_gpu="]),
        ("olivia", {"script": "a.py", "command": ("b",)}, "script", ["script=", "command="]),
        ("olivia", {"framework": "dpp"}, "framework", ["framework=ddp"]),
        ("olivia", {"on_bad_node": "retry"}, "on_bad_node", ["preflight=yes", "on_bad_node="]),
        ("olivia", {"env": {"A_TOKEN": "x"}}, "env", ["secrets=A_TOKEN", "not_secret=A_TOKEN"]),
        ("olivia", {"python_env": "vnv:/a"}, "python_env", ["container=none", "python_env="]),
        ("olivia", {"name": "a b"}, "name", []),
        ("olivia", {"sbatch": {"comment": "'--gpus'"}}, "sbatch", []),
        ("olivia", {"script_args": ("\0",)}, "script_args", []),
        ("olivia", {"requeue_signal": "KILL"}, "requeue_signal", []),
    ],
)
def test_a_refusal_has_a_field_and_offers(
    site: str, fields: dict[str, object], field: str, offered: list[str]
) -> None:
    error = _refusal(site, **fields)
    assert error.field == field, str(error)
    assert [f"{one.field}={one.value}" for one in error.offers][:4] == offered, str(error)


def test_text_of_the_user_does_not_choose_the_field() -> None:
    assert _refusal("olivia", name="--gpus").fields == ("name",)


def test_the_offers_are_few() -> None:
    assert len(did_you_mean("x", [f"p{n}" for n in range(50)], "partition").offers) == MOST


def test_a_message_names_options_or_labels() -> None:
    error = RequestError(
        f"{option('gpus', 4)} is too many, but --gpus is text", f"Use {option('cpus_per_gpu')}."
    )
    assert str(error) == "--gpus 4 is too many, but --gpus is text. Use --cpus-per-gpu."
    assert worded(error.marked[0], LABELS.__getitem__) == "GPUs in total 4 is too many, but --gpus is text"
    assert error.fields == ("gpus", "cpus_per_gpu")


def _error(texts: dict[str, str]) -> SlurmgenError | None:
    """The refusal of a form; None for a script."""
    try:
        answer_of(texts, spec_without_project)
    except SlurmgenError as error:
        return error
    return None


def _with(texts: dict[str, str], offer: Offer) -> dict[str, str]:
    """A form after a click on an offer, as `take` in generator.js fills it."""
    before = texts.get(offer.field, "") if offer.value and offer.field in LISTS else ""
    env = texts.get("env", "")
    if offer.field == "secrets":
        env = "\n".join(line for line in env.splitlines() if not line.startswith(f"{offer.value}="))
    joined = (
        "\n".join(filter(None, [before, offer.value]))
        if offer.value and offer.field in LISTS
        else offer.value
    )
    return {**texts, "env": env, offer.field: joined}


@pytest.mark.parametrize("seed", range(5))
def test_every_refusal_is_at_a_field_in_its_words_and_every_offer_changes_it(seed: int) -> None:
    """Random requests for all bundled sites, some with hostile text."""
    offers = 0
    for texts in form_requests(150, seed):
        error = _error(texts)
        if error is None:
            continue
        assert error.field in LABELS, (texts, str(error))
        assert not _options_on_the_page(error, texts), str(error)
        for offer in error.offers:
            assert offer.field in LABELS, (texts, str(error))
            assert str(_error(_with(texts, offer))) != str(error), (texts, offer)
        offers += len(error.offers)
    assert offers > 30


_OPTIONS = {flag(field) for field in FIELDS}
_OTHERS_TEXT = re.compile("slurmgen sets|refuse")
"Facts with the options of sbatch, or in the words of a profile."


def _options_on_the_page(error: SlurmgenError, texts: dict[str, str]) -> set[str]:
    """The options that a page would show instead of labels, besides text of the user."""
    if "--gpus" in texts.values() or _OTHERS_TEXT.search(error.fact):
        return set()
    shown = " ".join(worded(text, LABELS.__getitem__) for text in error.marked)
    return _OPTIONS & {word.strip(".,;:()`") for word in re.split("[ =]", shown)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mem": "8"}, "--mem 8 is 8M, too little for a job with GPUs. Write --mem 8G for gigabytes."),
        ({"mem": "99M"}, "--mem 99M is 99M, too little for a job with GPUs. Write a whole number with M,"),
        ({"framework": "pytorhc"}, "unknown framework 'pytorhc'."),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, object], message: str) -> None:
    assert str(_refusal("olivia", **fields)).startswith(message)


@pytest.mark.parametrize(("gpus", "mem"), [(1, "0"), (1, "100M"), (0, "8")])
def test_little_memory_is_accepted_where_it_can_be_meant(gpus: int, mem: str) -> None:
    assert resolve(Request(gpus=gpus, mem=mem), load_site("generic")).memory.value in ("0", "100M", "8M")


@pytest.mark.parametrize(
    ("name", "launcher"),
    [("torchrun", "ddp"), ("PyTorch", "ddp"), ("fsdp", "ddp"), ("hf", "hf-trainer"), ("pl", "lightning")],
)
def test_what_users_call_a_framework_is_understood(name: str, launcher: str) -> None:
    plan = resolve(Request(framework=name, gpus=2, script="a.py"), load_site("generic"))
    assert plan.framework == launcher
