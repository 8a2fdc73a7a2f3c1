"""Say which transport each pair of ranks uses, from the log of a job with NCCL_DEBUG=INFO.

python nccl_transports.py train-1234.out        (or `-`: standard input)
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

CHANNEL = re.compile(
    r"NCCL INFO Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\] (?:\[(?:send|receive)\] )?via (\S.*?)\s*$",
    re.M,
)
NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.M)
SETTING = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (\S+?)\.?\s*$", re.M)
NIC = re.compile(r"NET/(.+?)/\d+(?:\(\d+\))?(/.*)?$")
HINTS = {
    "NET/Socket": "TCP sockets: correct only where the nodes have neither InfiniBand nor a plugin for their network",
    "SHM": "through host memory: the GPUs have no peer access, or NCCL_P2P_DISABLE is set",
    "P2P": "from GPU to GPU, over NVLink or PCIe: `nvidia-smi topo -m` shows which",
    "NET/": "over the network adapter; with GDRDMA, the adapter reads the memory of the GPU itself",
}
"The first one that a transport starts with applies."


def transport(text: str) -> str:
    """NET/IB/3/GDRDMA and NET/IB/0/GDRDMA are one transport on two adapters."""
    return NIC.sub(r"NET/\1\2", text)


def pairs(log: str) -> dict[tuple[int, int], Counter[str]]:
    """How many log lines name each transport, by sender and receiver."""
    found: dict[tuple[int, int], Counter[str]] = {}
    for sender, receiver, text in CHANNEL.findall(log):
        found.setdefault((int(sender), int(receiver)), Counter())[transport(text)] += 1
    return found


def report(log: str) -> list[str]:
    found = pairs(log)
    if not found:
        return [
            "no channel in this log: was NCCL_DEBUG=INFO set, and did the job reach its first collective?"
        ]
    lines = [f"{name} = {value} (from the environment)" for name, value in sorted(set(SETTING.findall(log)))]
    lines += [f"network: {name}" for name in sorted(set(NETWORK.findall(log)))]
    lines += [f"{a} -> {b}: {', '.join(sorted(kinds))}" for (a, b), kinds in sorted(found.items())]
    used = sorted({kind for kinds in found.values() for kind in kinds})
    return lines + [f"{kind}: {hint(kind)}" for kind in used]


def hint(kind: str) -> str:
    return next((text for start, text in HINTS.items() if kind.startswith(start)), "see NCCL's documentation")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("log", help="a file, or - for standard input")
    name = parser.parse_args().log
    print("\n".join(report(sys.stdin.read() if name == "-" else Path(name).read_text(errors="replace"))))
