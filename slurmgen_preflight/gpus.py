"""The GPUs of a node, as nvidia-smi or rocm-smi list them, and copies between them."""

import json
import subprocess
import time

_SECONDS = 10
_FIELDS = {
    "name": "name",
    "memory_total": "memory.total",
    "memory_used": "memory.used",
    "clock": "clocks.max.sm",
    "power": "power.limit",
    "ecc": "ecc.errors.uncorrected.volatile.total",
    "slowdown": "clocks_throttle_reasons.hw_slowdown",
}
"""The fields of nvidia-smi, each of which may be unknown to a driver or a GPU.

https://docs.nvidia.com/deploy/nvidia-smi/
"""
_FAILED = " failed: "
_MIB = 1 << 20
_COPIED = 64 << 20


def listed():
    """Facts of each GPU, and why there are none; (None, None) if neither program is there."""
    query, fault = _queried(list(_FIELDS.values()))
    if query is None and fault and _FAILED in fault:
        query, _ = _queried(["name", "uuid"])  # some driver or GPU may not know a field
    if query is not None:
        return [_nvidia(words) for words in query], None
    cards = _listed_by_rocm()
    return (None, fault) if cards is None else (cards, None)


def _queried(fields):
    """The values of each GPU, and why there are none; a line of another length is a message."""
    text, fault = _replied(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"])
    rows = [[word.strip() for word in line.split(",")] for line in (text or "").splitlines()]
    return (None, fault) if text is None else ([row for row in rows if len(row) == len(fields)], None)


def _nvidia(words):
    gpu = dict(zip(_FIELDS, words))
    numbers = {key: _number(gpu.get(key)) for key in ("memory_total", "memory_used", "clock", "power", "ecc")}
    return {"name": gpu["name"], "slowdown": gpu.get("slowdown") == "Active", **numbers}


def _listed_by_rocm():
    text = _output(["rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"])
    try:
        cards = json.loads(text or "")
    except ValueError:
        return None
    return [_amd(card) for name, card in sorted(cards.items()) if name.startswith("card")]


def _amd(card):
    total, used = (_number(card.get(f"VRAM Total {what}Memory (B)")) for what in ("", "Used "))
    name = card.get("Card Series") or card.get("Card series") or "AMD GPU"
    return {"name": name, "memory_total": total and total / _MIB, "memory_used": used and used / _MIB}


def topology():
    """The links between the GPUs, as nvidia-smi or rocm-smi draw them; empty if neither can."""
    return _output(["nvidia-smi", "topo", "-m"]) or _output(["rocm-smi", "--showtopo"]) or ""


def _output(command):
    """What a program prints; None if it is not there, fails, or does not end."""
    return _replied(command)[0]


def _replied(command):
    """What a program prints, or None and why it fails; (None, None) if it is not there."""
    try:
        reply = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_SECONDS)  # noqa: UP022
    except OSError:
        return None, None
    except subprocess.TimeoutExpired:
        return None, f"{command[0]} did not end within {_SECONDS} s"
    text = reply.stdout.decode(errors="replace")
    if reply.returncode == 0:
        return text, None
    message = (text + reply.stderr.decode(errors="replace")).split("\n")
    return None, f"{command[0]}{_FAILED}{message[0]}"


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):  # such as [N/A]
        return None


def copies(torch):
    """The speed of a copy from each GPU to the next one in bytes per second, and what is wrong with it."""
    count = torch.cuda.device_count() if torch else 0
    pairs = [(number, (number + 1) % count) for number in range(count)] if count > 1 else []
    return [_copy(torch, *pair) for pair in pairs]


def _copy(torch, first, second):
    pair = f"GPU {first} to GPU {second}"
    try:
        source = torch.arange(_COPIED // 4, dtype=torch.int32, device=f"cuda:{first}")
        target = torch.empty_like(source, device=f"cuda:{second}")
        best = min(_copy_once(torch, source, target) for _ in range(5))
        same = bool((target.cpu() == source.cpu()).all())
    except Exception as error:  # CUDA reports faults in many ways
        return {"pair": pair, "speed": None, "fault": str(error).splitlines()[0]}
    return {"pair": pair, "speed": _COPIED / best, "fault": None if same else "the data came back changed"}


def _copy_once(torch, source, target):
    begin = time.perf_counter()
    target.copy_(source)
    torch.cuda.synchronize(source.device)
    torch.cuda.synchronize(target.device)
    return time.perf_counter() - begin


def seen_by_torch(torch):
    """The number of GPUs that PyTorch sees; None if it is built without GPUs."""
    if torch is None or not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return None
    return torch.cuda.device_count()
