"""What nvidia-smi and rocm-smi print, as GPUs, and what stands out."""

import json

from hypothesis import given
from hypothesis import strategies as st

from slurmgen.live.gpus import STAND_IN, Gpu, idle_since, parse, verdict
from slurmgen.twin.configuration import STAND_INS

NVIDIA = """Welcome to n1
gpus|n1|0,1
nvidia|n1|0, NVIDIA H100 80GB HBM3, 97, 61234, 81559, 645.31, 700.00
nvidia|n1|1, NVIDIA H100 80GB HBM3, 0, 4, 81559, 68.02, 700.00
gpus|n2|
nvidia|n2|0, Tesla T4, [N/A], 1, 15360, [Unknown Error], 70.00
none|n3|
"""
ROCM = {
    "card0": {
        "GPU use (%)": "88",
        "VRAM Total Memory (B)": str(64 << 30),
        "VRAM Total Used Memory (B)": str(3 << 30),
        "Average Graphics Package Power (W)": "301.0",
        "Card series": "AMD INSTINCT MI250X",
    },
    "card1": {"GPU use (%)": "0", "Current Socket Graphics Package Power (W)": "90"},
    "system": {"Driver version": "6.3"},
}


def test_the_rows_of_nvidia_smi_are_gpus() -> None:
    found, stand_in, without = parse(NVIDIA)
    shown = [(gpu.node, gpu.index, gpu.utilization) for gpu in found]
    assert shown == [("n1", 0, 97), ("n1", 1, 0), ("n2", 0, None)]
    first, _, last = found
    assert (first.memory_used, first.memory, first.power, first.power_limit) == (61234, 81559, 645, 700)
    assert (last.power, last.power_limit) == (None, 70)
    assert (stand_in, without) == (False, ["n3"])


def test_the_cards_of_rocm_smi_are_gpus() -> None:
    first, second = parse(f"gpus|n1|0,1\nrocm|n1|{json.dumps(ROCM)}\n")[0]
    assert (first.utilization, first.memory_used, first.memory, first.power) == (88, 3072, 65536, 301)
    assert (first.name, second.index, second.power, second.memory) == ("AMD INSTINCT MI250X", 1, 90, None)


def test_gpus_of_other_jobs_on_the_node_are_left_out() -> None:
    rows = [f"nvidia|n1|{index}, A100, {index}, 1, 2, 3, 4" for index in range(4)]
    assert [gpu.index for gpu in parse("\n".join(["gpus|n1|2,3", *rows]))[0]] == [2, 3]
    # In its own cgroup, a job sees only its GPUs, which are numbered from 0.
    assert [gpu.index for gpu in parse("\n".join(["gpus|n1|2,3", *rows[:2]]))[0]] == [0, 1]


def test_no_control_character_of_a_node_reaches_the_terminal() -> None:
    found, _, without = parse("nvidia|n\x1b[2J|0, \x1b]0;x\x07GPU, 1, 1, 1, 1, 1\nnone|\x9b\n")
    assert all(text.isprintable() for gpu in found for text in (gpu.node, gpu.name))
    assert all(text.isprintable() for text in without)
    assert found[0].name == "\\x1b]0;x\\x07GPU"


@given(
    st.text(
        alphabet=st.sampled_from('gpus|nvidia|rocm|none|0123456789,{}":. \n[]cardUVRAMé\x1b'), max_size=200
    )
)
def test_any_text_is_parsed(text: str) -> None:
    parse(text)


def gpus(*shares: int | None) -> list[Gpu]:
    return [Gpu(node="n1", index=index, utilization=share) for index, share in enumerate(shares)]


def test_a_gpu_is_idle_since_the_first_sample_without_use() -> None:
    since = idle_since({}, gpus(97, 0, 0), 100.0)
    assert verdict(gpus(97, 0, 0), since, 100.0) == ["GPU 1 on n1 idle now", "GPU 2 on n1 idle now"]
    since = idle_since(since, gpus(97, 0, 50), 700.0)
    assert verdict(gpus(97, 0, 50), since, 700.0) == ["GPU 1 on n1 idle for 10 min"]
    since = idle_since(since, gpus(90, 80, 70), 710.0)
    assert (since, verdict(gpus(90, 80, 70), since, 710.0)) == (
        {},
        ["no idle GPU: on average 80 % of 3 GPUs"],
    )


def test_all_gpus_idle_is_one_line() -> None:
    since = idle_since({}, gpus(0, 0, 0, 0), 0.0)
    assert verdict(gpus(0, 0, 0, 0), since, 10.0) == ["all 4 GPUs idle now"]
    assert verdict(gpus(0, 0, 0, 0), since, 120.0) == [
        "all 4 GPUs idle for 2 min: the job may hang, or wait for data"
    ]
    assert verdict(gpus(None, None), {}, 0.0) == []
    many = gpus(*[0] * 9, 50)
    (line,) = verdict(many, idle_since({}, many, 0.0), 0.0)
    assert line.startswith("9 of 10 GPUs idle: GPU 0 on n1 idle now, ")


def test_a_twin_has_the_stand_in_that_the_probe_calls() -> None:
    assert STAND_INS[STAND_IN] == "nvidia_smi.sh"
    assert parse("stand-in|n1|0, x, 50, 1, 2, 3, 4")[1]
