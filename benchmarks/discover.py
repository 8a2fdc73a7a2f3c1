"""`sites discover`: 10,000 nodes grouped on a login node and digested here, and a twin over SSH."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from unittest.mock import patch

from slurmgen import twin
from slurmgen.sites.discover.compare import profile_text
from slurmgen.sites.discover.profile import discover
from slurmgen.sites.discover.query import COMMANDS, NODES, QUERY, answers
from slurmgen.sites.profiles import load_site
from slurmgen.text import counted
from slurmgen.twin import Twin

NODES_OF_A_LARGE_CLUSTER, ROUNDS = 10_000, 5
PARTITION = (
    "PartitionName=gpu AllowAccounts=ALL Default=YES QoS=N/A Hidden=NO MaxNodes=64 MaxTime=1-00:00:00 "
    "State=UP OverSubscribe=NO JobDefaults=DefCpuPerGPU=16,DefMemPerGPU=120000"
)
NODE = (
    "NodeName=n{} Arch=x86_64 CoresPerSocket=64  CPUAlloc={} CPUEfctv=252 CPUTot=256 CPULoad={} "
    "AvailableFeatures=ib,h100,rack{} ActiveFeatures=ib,h100,rack{} Gres=gpu:h100:4(S:0-1) NodeAddr=n{} "
    "NodeHostName=n{} Version=24.11.5 OS=Linux 6.12.0 #1 SMP PREEMPT_DYNAMIC  RealMemory={} AllocMem={} "
    "FreeMem={} Sockets=2 Boards=1 CoreSpecCount=2 CPUSpecList=62-63,126-127 MemSpecLimit=3000 State=MIXED "
    "ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,long,preempt  "
    "BootTime=2026-11-01T08:00:00 SlurmdStartTime=2026-11-01T08:10:00 LastBusyTime=2026-11-21T12:00:00 "
    "ResumeAfterTime=None CfgTRES=cpu=252,mem=1030000M,billing=252,gres/gpu=4,gres/gpu:h100=4 "
    "AllocTRES=cpu={},mem=400000M,gres/gpu=2,gres/gpu:h100=2 CurrentWatts=0 AveWatts=0 "
)


def main() -> None:
    """Print sizes and times, of a large cluster and of a twin."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        _large(Path(folder))
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        patch.dict(os.environ, {"XDG_STATE_HOME": folder}),
    ):
        started = twin.up(load_site("generic"), 2, ssh=True)
        try:
            _over_ssh(started)
        finally:
            twin.down("generic")


def _large(folder: Path) -> None:
    """Stand-ins for Slurm's commands print a large cluster, in 64 racks and with 8 sizes of memory."""
    lines = [
        NODE.format(n, n % 252, n % 97, n % 64, n % 64, n, n, 1030000 - n % 8, n, n, n % 252)
        for n in range(NODES_OF_A_LARGE_CLUSTER)
    ]
    (folder / "nodes").write_text("\n".join(lines) + "\n")
    (folder / "partitions").write_text(f"{PARTITION}\n")
    script = (
        f"#!/bin/sh\ncase $* in *node) cat {folder}/nodes ;; *partition) cat {folder}/partitions ;; esac\n"
    )
    for name in ("scontrol", "sacctmgr", "srun"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{folder}:/usr/bin:/bin"}
    seconds, output = _timed(lambda: subprocess.check_output(["/bin/sh", "-c", QUERY], env=environ))
    digest, found = _timed(lambda: discover(answers(output)))
    raw = (folder / "nodes").read_bytes()
    ungrouped = b"".join(
        b"\0%s\0%s\0000" % (command.encode(), raw if command == NODES else b"") for command in COMMANDS
    )
    slowest, _ = _timed(lambda: profile_text(discover(answers(ungrouped)), "large", "2026-11-21"))
    print(
        f"{len(lines)} nodes, {len(raw) / 1e6:.1f} MB: the login node sends {len(output) / 1e3:.1f} kB after "
        f"{seconds:.2f} s; digested in {digest * 1000:.0f} ms, and ungrouped in {slowest:.2f} s; "
        f"{len(found.facts)} facts, {counted(len(found.notes), 'note')}"
    )


def _over_ssh(started: Twin) -> None:
    """`sites discover` over a real sshd, and the time beside a login."""
    ssh = ["--ssh-config", str(started.ssh_config)]
    ours = [sys.executable, "-m", "slurmgen", "sites", "discover", started.ssh_host, "--name", "x", *ssh]
    login = ["ssh", "-F", str(started.ssh_config), started.ssh_host, "true"]
    times = {"ours": [], "login": []}  # type: dict[str, list[float]]
    text = b""
    for _ in range(ROUNDS):
        seconds, text = _timed(lambda: subprocess.check_output(ours, cwd=Path.home()))
        times["ours"].append(seconds)
        times["login"].append(_timed(lambda: subprocess.check_output(login))[0])
    mine, least = median(times["ours"]), median(times["login"])
    facts = text.count(b"# seen ")
    print(
        f"over SSH: {mine:.2f} s, of which a login takes {least:.2f} s; 1 login, {len(COMMANDS)} commands of "
        f"Slurm, {facts} facts and notes"
    )


def _timed(call):  # type: ignore[no-untyped-def]
    """The seconds that a call takes, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
