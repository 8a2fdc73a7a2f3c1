"""The page on memory: what is predicted is what a step holds, and what makes it less."""

import re
import sys

import pytest

from tests.guide.running import REPOSITORY, python

SMALL = ("--width", "64", "--layers", "4")


def memory(*args: str) -> tuple[dict[str, float], dict[str, float]]:
    """The two tables: predicted, and held."""
    done = python("out_of_memory.py", *SMALL, *args)
    assert done.returncode == 0, done.err
    first, second = done.out.split("held by a step")
    tables = [dict(re.findall(r"^(\w+) +([\d.]+) MiB$", text, re.M)) for text in (first, second)]
    predicted, held = ({name: float(value) for name, value in table.items()} for table in tables)
    return predicted, held


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_prediction_is_what_the_step_holds(optimizer: str) -> None:
    predicted, held = memory("--optimizer", optimizer)
    del predicted["sum"]
    assert predicted == {name: held[name] for name in predicted}


def test_twice_the_batch_holds_twice_the_activations_and_nothing_else() -> None:
    (_, small), (_, large) = memory("--batch-size", "256"), memory("--batch-size", "512")
    assert large["activations"] == pytest.approx(2 * small["activations"], rel=0.02)
    assert {**large, "activations": 0, "sum": 0} == {**small, "activations": 0, "sum": 0}


def test_checkpointing_keeps_an_eighth_of_the_activations_or_less() -> None:
    (_, plain), (_, checkpointed) = (
        memory("--batch-size", "256"),
        memory("--batch-size", "256", "--checkpoint"),
    )
    assert checkpointed["activations"] <= plain["activations"] / 8


def test_fsdp_divides_the_prediction_by_the_ranks() -> None:
    (whole, _), (sharded, _) = memory(), memory("--shards", "4")
    assert all(sharded[name] == pytest.approx(whole[name] / 4, abs=0.02) for name in whole)


def test_the_page_shows_what_the_script_prints() -> None:
    done = python("out_of_memory.py")
    if "CUDA" in done.out:
        pytest.skip("with a GPU, the script prints a line more")
    assert done.out.strip() in (REPOSITORY / "docs" / "guide" / "out-of-memory.md").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_reading_a_list_copies_it_into_each_worker_and_reading_an_array_does_not() -> None:
    grown = {
        name: int(python("out_of_memory_workers.py", "--container", name).out.split()[1])
        for name in ("list", "array")
    }
    assert grown["list"] > 50 > 25 > grown["array"]
