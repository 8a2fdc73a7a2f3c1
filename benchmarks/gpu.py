"""The runs of gpu.sh: each is a command, and the figures that its output contains."""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TRAINING = HERE.parent / "training"
NUMBER = r"([\d.]+)"
STEPS = {
    "first step, s": rf"first step: {NUMBER} s",
    "images/s, no data loading": rf"no data loading: {NUMBER} images/s",
    "images/s, with data loading": rf"with data loading: {NUMBER} images/s",
    "GFLOP/s": rf"with data loading: .* {NUMBER} GFLOP/s",
    "MFU, %": rf"with data loading: .* MFU {NUMBER}%",
}
LOOPS = {
    "images/s": rf'"bundled": {NUMBER}',
    "images/s, Olivia style": rf'"olivia": {NUMBER}',
    "ratio": rf'"ratio": {{"olivia": {NUMBER}',
    "steps of an epoch": rf'"steps": {NUMBER}',
    "blocking calls in an epoch": rf'"blocking_calls": {NUMBER}',
}
TRAIN = {"images/s": rf"summary: {NUMBER} images/s", "MFU, %": rf"summary: .* MFU {NUMBER}%"}
PROFILE = TRAIN | {
    "computation, %": rf"profile: computation {NUMBER}%",
    "idle, %": rf"profile: waiting {NUMBER}%",
}
RECOMPILED = "Recompiling function"
STAND_IN = """
import sys, torch
from images import patterns, split
folder, samples = sys.argv[1], int(sys.argv[2])
torch.save(split(patterns(samples, 3, 32), samples * 5 // 6), f"{folder}/cifar10.pt")
"""
VARIANTS = {
    "default": [],  # without --batch-size too
    "batch size": [],
    "compile": ["--compile"],
    "no-compile": ["--no-compile"],
    "fp16": ["--precision", "fp16"],
    "contiguous": ["--no-channels-last"],
}


@dataclass(frozen=True)
class Size:
    """The sizes of the runs: on a GPU, or tiny ones on CPUs."""

    device: str
    resnet: list[str]
    wide: list[str]
    loops: list[str]
    short: list[str]
    samples: int  # of the stand-in for CIFAR-10
    variants: list[str]  # without `compile` where it is the default
    limit: float  # seconds for all runs

    @property
    def gpu(self) -> bool:
        """Whether to use a GPU."""
        return self.device == "cuda"


GPU = Size(
    "cuda",
    ["--task", "cifar10", "--model", "resnet18", "--batch-size", "512", "--steps", "60"],
    ["--task", "cifar100", "--model", "wideresnet", "--batch-size", "512", "--steps", "40"],
    ["--task", "cifar10", "--batch-size", "512", "--limit", "50000"],
    ["--task", "cifar10", "--batch-size", "512", "--epochs", "3"],
    60000,
    ["default", "batch size", "no-compile", "fp16", "contiguous"],
    570,
)
CPU = Size(
    "cpu",
    ["--task", "cifar10", "--model", "mlp", "--batch-size", "16", "--steps", "6"],
    ["--task", "cifar100", "--model", "wideresnet", "--width", "1", "--batch-size", "8", "--steps", "3"],
    ["--task", "cifar10", "--model", "mlp", "--batch-size", "16", "--limit", "64"],
    ["--task", "cifar10", "--model", "mlp", "--batch-size", "16", "--epochs", "2"],
    600,
    ["default", "compile", "no-compile"],
    math.inf,  # the machine may be slow and busy
)


@dataclass
class Run:
    """A script on some ranks, and its figures by name: patterns of one number."""

    name: str
    script: Path
    flags: list[str]
    figures: dict[str, str]
    ranks: int = 1
    environ: dict[str, str] = field(default_factory=dict)
    recompiles: bool = False

    @property
    def command(self) -> list[str]:
        """The command, under torchrun."""
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, f"--nproc-per-node={self.ranks}", str(self.script), *self.flags]

    def read(self, text: str) -> dict[str, float]:
        """Return the figures in an output."""
        found = {name: re.search(pattern, text) for name, pattern in self.figures.items()}
        figures = {name: float(match[1]) for name, match in found.items() if match}
        if self.recompiles:
            figures["recompiles"] = text.count(RECOMPILED)
            figures["recompiles after epoch 1"] = text.partition("\nepoch 1/")[2].count(RECOMPILED)
        return figures


def runs(size: Size, data: Path) -> list[Run]:
    """Return all runs, the most important ones first."""
    steps, device = TRAINING / "benchmark.py", ["--device", size.device]
    train = [*size.short, "--data-dir", str(data), *device]
    resnet = [
        Run(f"{size.resnet[3]}, {name}", steps, [*sized(size.resnet, name), *device, *VARIANTS[name]], STEPS)
        for name in size.variants
    ]
    wide = [
        Run(f"{size.wide[3]}, {name}", steps, [*size.wide, *device, *VARIANTS[name]], STEPS)
        for name in ("default", "no-compile")
    ]
    olivia = ["against Olivia's style", "olivia", "3" if size.gpu else "1", *size.loops, *device]
    compiled = [*train, "--profile", *([] if size.gpu else ["--compile"])]
    gloo = [*CPU.short, "--data-dir", str(data), "--limit", "500", "--device", "cpu"]
    return [
        *resnet[:3],
        *wide,
        Run("Olivia style", HERE / "training_ranks.py", olivia, LOOPS),
        Run(
            "DDP, profiled",
            TRAINING / "train_ddp.py",
            compiled,
            PROFILE,
            1,
            {"TORCH_LOGS": "recompiles"},
            True,
        ),
        *resnet[3:],
        *(
            Run(name, TRAINING / f"train_{name}.py", [*train, "--no-compile"], TRAIN)
            for name in ("fsdp", "lightning", "accelerate")
        ),
        Run("two ranks, gloo", TRAINING / "train_ddp.py", gloo, TRAIN, 2),
    ]


def sized(flags: list[str], name: str) -> list[str]:
    """Return the flags of a variant. The default one has the default batch size, as `no flags` says."""
    if name != "default":
        return flags
    place = flags.index("--batch-size")
    return [*flags[:place], *flags[place + 2 :]]


def main() -> None:
    """Run everything, and write the summary after each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/gpu"), help="default: build/gpu")
    parser.add_argument("--cpu", action="store_true", help="tiny sizes on CPUs, to test this script")
    asked = parser.parse_args()
    size, begin = CPU if asked.cpu else GPU, time.monotonic()
    data = asked.folder.absolute() / "data"
    data.mkdir(parents=True, exist_ok=True)
    python("-c", STAND_IN, str(data), str(size.samples))
    summary: dict[str, Any] = {"machine": machine(size), "runs": {}}
    for run in runs(size, data):
        left = begin + size.limit - time.monotonic()
        summary["runs"][run.name] = (
            measure(run, asked.folder, left) if left > 0 else {"status": "no time left"}
        )
        summary["checks"] = checks(summary["runs"])
        (asked.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        (asked.folder / "summary.md").write_text(table(summary))
    print(table(summary))
    raise SystemExit(any(each["status"] != 0 for each in summary["runs"].values()))


def machine(size: Size) -> dict[str, str]:
    """Return the device and the versions."""
    name = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else 'none')"
    packages = ("torch", "torchvision", "lightning", "accelerate")
    versions = {package: version(package) for package in packages}
    return {"device": size.device, "GPU": python("-c", name).strip(), **versions}


def python(*words: str) -> str:
    """Return the output of Python."""
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment({}), stdout=subprocess.PIPE, text=True, check=True).stdout


def environment(more: dict[str, str]) -> dict[str, str]:
    """Return the variables of the processes."""
    return {**os.environ, "PYTHONPATH": str(TRAINING), **more}


def measure(run: Run, folder: Path, limit: float) -> dict[str, Any]:
    """Return the status, the seconds and the figures of a run; its output goes to a log."""
    log, begin = folder / f"{re.sub('[^a-z0-9]+', '-', run.name.lower())}.log", time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            run.command, env=environment(run.environ), stdout=file, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = stop(process)
    seconds = round(time.monotonic() - begin, 1)
    return {"status": status, "seconds": seconds, "figures": run.read(log.read_text())}


def stop(process: subprocess.Popen[bytes], grace: float = 40) -> int:
    """End torchrun and its ranks, which have process groups of their own: it takes up to 30 s for it."""
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def checks(results: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """Return the figures that the bars are about."""
    figures = {name: each.get("figures", {}) for name, each in results.items()}
    speed = "images/s, with data loading"
    first = next(iter(results)).partition(",")[0]
    variants = {name: each.get(speed, 0) for name, each in figures.items() if name.startswith(first)}
    best, olivia, profiled = (
        max(variants.values()),
        figures.get("Olivia style", {}),
        figures.get("DDP, profiled", {}),
    )
    return {
        "speed without flags, % of the best": 100 * variants[f"{first}, default"] / best if best else None,
        "times as fast as the Olivia style": olivia.get("ratio"),
        "blocking calls in an epoch": olivia.get("blocking calls in an epoch"),
        "recompiles after epoch 1": profiled.get("recompiles after epoch 1"),
        "idle, %": profiled.get("idle, %"),
    }


def table(summary: dict[str, Any]) -> str:
    """Return the summary as Markdown."""
    lines = [", ".join(f"{name} {value}" for name, value in summary["machine"].items()), ""]
    lines += ["| run | status | seconds | figures |", "|---|---|---|---|"]
    for name, each in summary["runs"].items():
        shown = "; ".join(f"{figure} {value:g}" for figure, value in each.get("figures", {}).items())
        lines.append(f"| {name} | {each['status']} | {each.get('seconds', '')} | {shown} |")
    lines += ["", "| check | value |", "|---|---|"]
    lines += [
        f"| {name} | {'not measured' if value is None else f'{value:g}'} |"
        for name, value in summary["checks"].items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
