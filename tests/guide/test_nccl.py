"""The page on NCCL: which transport a log shows, and the variables that PyTorch and NCCL know."""

from pathlib import Path

import pytest

from tests.guide.running import REPOSITORY, python, run

LOGS = Path(__file__).parent / "nccl_logs"
PAIRS = {
    "infiniband": [
        "0 -> 2: NET/IB/GDRDMA",
        "1 -> 0: P2P/CUMEM",
        "1 -> 3: NET/IB/GDRDMA",
        "3 -> 2: P2P/CUMEM",
    ],
    "sockets": ["0 -> 8: NET/Socket", "8 -> 0: NET/Socket", "9 -> 10: P2P/IPC/read"],
    "shared_memory": ["3 -> 7: SHM/direct/direct", "7 -> 2: SHM/direct/direct"],
    "libfabric": ["0 -> 1: NET/AWS Libfabric/GDRDMA", "1 -> 0: NET/AWS Libfabric/GDRDMA"],
    "old_version": ["13 -> 4: NET/IB/GDRDMA", "14 -> 13: P2P/direct pointer/read"],
}


def report(name: str) -> list[str]:
    done = python("nccl_transports.py", str(LOGS / f"{name}.log"))
    assert done.returncode == 0, done.err
    return done.out.splitlines()


@pytest.mark.parametrize(("name", "pairs"), PAIRS.items())
def test_each_pair_of_ranks_of_a_published_log_has_its_transport(name: str, pairs: list[str]) -> None:
    assert set(pairs) <= set(report(name))


def test_a_fall_back_to_sockets_is_explained() -> None:
    assert any(line.startswith("NET/Socket: TCP sockets") for line in report("sockets"))


def test_every_published_log_names_its_source() -> None:
    listed = (LOGS / "README.md").read_text()
    assert all(f"| {path.name} | <https://" in listed for path in LOGS.glob("*.log"))


def test_a_log_without_channels_is_reported_as_such() -> None:
    assert report("settings") == [
        "no channel in this log: was NCCL_DEBUG=INFO set, and did the job reach its first collective?"
    ]


def test_the_settings_of_the_environment_come_first(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text((LOGS / "settings.log").read_text() + (LOGS / "sockets.log").read_text())
    lines = python("nccl_transports.py", str(log)).out.splitlines()
    assert lines[:3] == [
        "NCCL_IB_DISABLE = 1 (from the environment)",
        "NCCL_SOCKET_IFNAME = lo (from the environment)",
        "network: Socket",
    ]


def test_the_page_shows_what_the_script_prints() -> None:
    page = (REPOSITORY / "docs" / "guide" / "nccl.md").read_text()
    assert "\n".join(report("infiniband")) in page


TORCH = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_DESYNC_DEBUG",
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE",
)


@pytest.mark.parametrize("variable", TORCH)
def test_the_installed_pytorch_reads_each_variable_of_the_page(variable: str) -> None:
    torch = pytest.importorskip("torch")
    libraries = [*Path(torch.__file__).parent.glob("lib/libtorch_c*.so")]
    if not any("cuda" in library.name for library in libraries):
        pytest.skip("this PyTorch was built without NCCL")
    assert run("grep", "-qa", variable, *libraries).returncode == 0
    assert f"`{variable}" in (REPOSITORY / "docs" / "guide" / "nccl.md").read_text()
