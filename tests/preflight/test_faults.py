"""Eight nodes, each a process on this machine, one of them with a fault: is it named, and no other?"""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.preflight.checks import HERE, PROGRAM, PYTHON, addresses, check, fault
from tests.support.programs import write_programs

NAMES = addresses(9)
NODE = 3
NAME = NAMES[NODE]
SHORT = (*PYTHON, str(HERE / "faulty.py"), "short_limits", PROGRAM)
IN_FULL_SHM = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm; exec "$@"', "sh")
NVIDIA_SMI = """case "$1" in
topo) echo "the links of this node" ;;
*) for gpu in $(seq {gpus}); do echo "GPU of a test, 81559, {used}, 1980, 700.00, {ecc}, {slow}"; done ;;
esac
"""


def may_mount() -> bool:
    return subprocess.run([*IN_FULL_SHM, "true"], capture_output=True, check=False).returncode == 0


def with_gpus(folder: Path, gpus: int, used: int = 4, ecc: str = "0", slow: str = "Not Active") -> list[str]:
    """The words before a command that give it a stand-in for nvidia-smi."""
    write_programs(folder, {"nvidia-smi": NVIDIA_SMI.format(gpus=gpus, used=used, ecc=ecc, slow=slow)})
    return ["env", f"PATH={folder}:{os.environ['PATH']}"]


def test_healthy_nodes_pass(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert (result.status, result.findings) == (0, {}), result.output
    assert result.output.count(": healthy: ") == 8
    assert result.output.endswith("verdict: 8 nodes, all healthy\n")


def test_one_node_is_checked_alone(tmp_path: Path) -> None:
    result = check(tmp_path, 1)
    assert (result.status, result.findings) == (0, {}), result.output


def test_a_rendezvous_of_another_job_is_not_used(tmp_path: Path) -> None:
    foreign = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}
    result = check(tmp_path, 1, options=["--rendezvous="], **foreign)
    assert (result.status, result.findings) == (0, {}), result.output


def test_only_the_report_stays_in_the_folder_of_the_job(tmp_path: Path) -> None:
    check(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"commands.json", ".preflight-7.json"}


def test_faults_are_named_each_on_its_node(tmp_path: Path) -> None:
    faults = {1: "nan", 3: "clock", 5: "slow"}
    result = check(tmp_path, special={node: fault(name) for node, name in faults.items()})
    found = {name: dict(texts) for name, texts in result.findings.items()}
    assert found[NAMES[5]].pop("slow").startswith("a matrix product takes "), result.output
    assert re.fullmatch(r"its clock is (4\.9|5\.[01]) s behind the others", found[NAMES[3]].pop("clock"))
    assert (result.status, found) == (
        79,
        {
            NAMES[1]: {"product": "the product has NaN (plain Python)"},
            NAMES[3]: {},
            NAMES[5]: {},
        },
    )
    assert f"verdict: 3 of 8 nodes are bad. {NAMES[1]}: the product has NaN (plain Python); " in result.output


def test_a_wrong_product_is_named(tmp_path: Path) -> None:
    result = check(tmp_path, 3, special={2: fault("wrong")})
    assert (result.status, result.findings) == (
        79,
        {NAMES[2]: {"product": "the product is wrong (plain Python)"}},
    )


def test_a_wrong_product_of_a_repeated_measurement_is_named(tmp_path: Path) -> None:
    result = check(tmp_path, 3, special={2: fault("nan_when_repeated")})
    assert (result.status, result.findings) == (
        79,
        {NAMES[2]: {"product": "the product has NaN (plain Python)"}},
    )


def test_a_single_node_that_hangs_is_named(tmp_path: Path) -> None:
    result = check(tmp_path, 1, special={0: fault("stopped")}, job=SHORT)
    assert (result.status, result.findings) == (
        79,
        {NAMES[0]: {"peer": "no answer for 20 s: reading its clock"}},
    )


def test_lost_nodes_are_named(tmp_path: Path) -> None:
    faults = {1: "killed", 3: "stopped", 5: "absent"}
    result = check(tmp_path, special={node: fault(name) for node, name in faults.items()}, job=SHORT)
    assert (result.status, result.findings) == (
        79,
        {
            NAMES[1]: {"peer": "its check ended: reading its clock"},
            NAMES[3]: {"peer": "no answer for 20 s after the others: reading its clock"},
            NAMES[5]: {"peer": "its check did not start, or cannot connect"},
        },
    ), result.output


def test_bad_gpus_are_named(tmp_path: Path) -> None:
    before = dict.fromkeys(range(9), with_gpus(tmp_path / "healthy", 4)) | {
        1: with_gpus(tmp_path / "missing", 3),
        3: with_gpus(tmp_path / "ecc", 4, ecc="2"),
        5: with_gpus(tmp_path / "slow", 4, slow="Active"),
        7: with_gpus(tmp_path / "used", 4, used=40960),
    }
    result = check(tmp_path, 9, before=before, options=["--gpus=4"])
    assert (result.status, result.findings) == (
        79,
        {
            NAMES[1]: {"gpu-count": "3 GPUs, but the others have 4"},
            NAMES[3]: {"gpu-ecc": "GPU 0 has 2 uncorrected memory errors"},
            NAMES[5]: {"gpu-clock": "the hardware slows GPU 0 down: heat or power supply"},
            NAMES[7]: {"gpu-memory": "40.0 of 79.6 GiB of GPU 0 are in use before the job"},
        },
    ), result.output


def test_the_links_of_the_gpus_are_printed_once(tmp_path: Path) -> None:
    gpus = with_gpus(tmp_path / "bin", 4)
    result = check(tmp_path, 2, before=dict.fromkeys(range(2), gpus), options=["--gpus=4"])
    assert result.output.count("the links of this node") == 1


@pytest.mark.skipif(not may_mount(), reason="this user cannot mount a /dev/shm of its own")
def test_a_full_shared_memory_is_named(tmp_path: Path) -> None:
    result = check(tmp_path, before={NODE: IN_FULL_SHM})
    assert result.status == 79, result.output
    assert list(result.findings) == [NAME]
    assert "(/dev/shm) has 1 MiB free of 1 MiB" in result.findings[NAME]["shm"]


def test_a_node_that_cannot_connect_says_why(tmp_path: Path) -> None:
    wrong_port = 'SLURMGEN_PREFLIGHT="127.0.0.1 1 ${SLURMGEN_PREFLIGHT#* * }" exec "$@"'
    result = check(tmp_path, before={NODE: ["sh", "-c", wrong_port, "sh"]}, job=SHORT)
    assert result.findings == {NAME: {"peer": "cannot connect to 127.0.0.1 port 1: connection refused"}}


def test_a_command_that_starts_no_node_ends_with_its_status(tmp_path: Path) -> None:
    exits = ("sh", "-c", "exit 3")
    result = check(tmp_path, 2, special={0: exits, 1: exits})
    assert (result.status, result.report) == (3, {})
    assert "preflight: no node was checked; " in result.output


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        result = check(tmp_path, 2, port=port)
    text = f"another program uses port {port}, where the ranks would meet"
    assert (result.status, result.findings) == (79, {NAMES[0]: {"port-in-use": text}})
    assert [node["busy"] for node in result.report["nodes"]] == [True, False]
    assert f"{NAMES[0]}: BUSY: {text}\n" in result.output
    assert f"verdict: 1 of 2 nodes is busy. {NAMES[0]}: {text}. " in result.output
    assert result.output.endswith("Submit the job again: each job has a port of its own.\n")


def test_the_verdict_names_each_bad_node(tmp_path: Path) -> None:
    before = dict.fromkeys(range(4), with_gpus(tmp_path / "healthy", 4))
    before |= {1: with_gpus(tmp_path / "many", 3, ecc="2", slow="Active", used=40960)}
    before |= {3: with_gpus(tmp_path / "missing", 3)}
    result = check(tmp_path, 4, before=before, options=["--gpus=4"])
    text = "3 GPUs, but the others have 4"
    assert f"2 of 4 nodes are bad. {NAMES[1]}: {text}; {NAMES[3]}: {text}. " in result.output


def test_gpus_that_a_job_does_not_request_are_not_checked(tmp_path: Path) -> None:
    gpus = with_gpus(tmp_path / "of-other-jobs", 4, used=40960, ecc="2")
    result = check(tmp_path, 1, before={0: gpus}, options=["--gpus=0"])
    assert (result.status, result.findings) == (0, {}), result.output
    assert ": healthy: no GPU, " in result.output


def test_the_command_that_started_healthy_nodes_ends_by_itself(tmp_path: Path) -> None:
    slow = ["sh", "-c", 'trap "echo terminated; exit 1" TERM; "$@"; sleep 0.5; echo ended', "sh"]
    impatient = (*PYTHON, str(HERE / "faulty.py"), "impatient", PROGRAM)
    result = check(tmp_path, 1, special={0: [*slow, *PYTHON, PROGRAM, "node"]}, job=impatient)
    assert "\nended\n" in f"\n{result.output}", result.output
