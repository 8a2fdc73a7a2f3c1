"""Free GPUs and CPUs of partitions, from what sinfo prints."""

from hypothesis import given
from hypothesis import strategies as st

from slurmgen.slurm.pending import FREE_NODES_FORMAT, Free, free_nodes

WIDTHS = [int(column.partition(":")[2]) for column in FREE_NODES_FORMAT.split(",")]


def row(*cells: str) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))


def test_free_gpus_of_each_type_are_summed_over_the_nodes_that_take_jobs() -> None:
    text = "\n".join(
        [
            row("gpu*", "mix", "gpu:a100:4(S:0-1),nvme:1", "gpu:a100:3(IDX:0-2)", "16/48/0/64"),
            row("gpu*", "idle", "gpu:a100:4(S:0-1)", "gpu:a100:0(IDX:N/A)", "0/64/0/64"),
            row("gpu*", "drain", "gpu:a100:4", "gpu:a100:0", "0/0/64/64"),
            row("gpu*", "idle*", "gpu:a100:4", "gpu:a100:0", "0/64/0/64"),
            row("gpu*", "idle", "gpu:h100:8", "gpu:h100:1", "0/8/0/8"),
            row("small", "alloc", "(null)", "gpu:0", "64/0/0/64"),
            row("down", "down", "gpu:4", "gpu:0", "0/0/64/64"),
        ]
    )
    found = free_nodes(text)
    assert found["gpu"] == Free(gpus=12, gpus_of_type={"a100": 5, "h100": 7}, cpus=120)
    assert (found["gpu"].of_type("h100"), found["gpu"].of_type("other"), found["gpu"].of_type(None)) == (
        7,
        12,
        12,
    )
    assert found["small"] == found["down"] == Free()


def test_types_without_names_are_counted() -> None:
    assert free_nodes(row("accel", "idle", "gpu:4", "gpu:1", "0/288/0/288"))["accel"] == Free(3, {}, 288)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    free_nodes(text)
