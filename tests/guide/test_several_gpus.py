"""The prediction of docs/guide/several-gpus.md follows from what the script measures."""

import re
import runpy

import pytest

from .running import GUIDE, torchrun

NUMBER = r"([\d.]+)"


def test_the_speed_up_is_at_most_the_number_of_ranks_without_communication() -> None:
    predict = runpy.run_path(str(GUIDE / "several_gpus.py"))["predict"]
    assert predict(8.0, 2.0, 0.0) == (4.0, 4.0)


def test_communication_as_long_as_compute_halves_the_speed_up_unless_they_overlap() -> None:
    predict = runpy.run_path(str(GUIDE / "several_gpus.py"))["predict"]
    assert predict(8.0, 2.0, 2.0) == (2.0, 4.0)


@pytest.fixture(scope="module")
def output() -> str:
    completed = torchrun("several_gpus.py", "--model", "mlp", "--repeats", "5")
    assert completed.returncode == 0, completed.err
    return completed.out


def test_the_script_measures_the_all_reduce_of_all_gradients(output: str) -> None:
    assert (
        float(re.findall(rf"all-reduce of +{NUMBER} MB", output)[0]) == 0.81
    )  # 203,530 parameters of 4 bytes


def test_the_printed_efficiency_is_the_speed_up_per_rank(output: str) -> None:
    ((low, high),) = re.findall(rf"predicted speed-up +{NUMBER} to {NUMBER}", output)
    ((low_share, high_share),) = re.findall(rf"predicted efficiency +{NUMBER}% to {NUMBER}%", output)
    assert float(low_share) == pytest.approx(float(low) * 50, abs=1)
    assert float(high_share) == pytest.approx(float(high) * 50, abs=1)
