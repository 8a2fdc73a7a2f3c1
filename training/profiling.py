"""`--profile`: where the time of some steps goes."""

from pathlib import Path

import torch
from ranks import Ranks
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, schedule

WAIT, WARM_UP, STEPS = 5, 3, 20
MESSAGES = ("nccl", "gloo", "c10d", "distributeddataparallel.allreduce")
NO_WORK = (
    "ProfilerStep",
    "DataParallel",
    "DistributedDataParallel.forward",
    "autograd::",
    "Optimizer.",
    "## ",
)


class Profile:
    """Profiles steps 9 to 28; then prints where their time has gone, and writes a trace."""

    def __init__(self, ranks: Ranks, folder: Path | None, on: bool) -> None:
        self.ranks, self.folder, self.profiler, self.reported = ranks, folder, None, False
        if on:
            activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (ranks.device.type == "cuda")
            plan = schedule(wait=WAIT, warmup=WARM_UP, active=STEPS, repeat=1)
            self.profiler = profile(activities=activities, schedule=plan, on_trace_ready=self._report)
            self.profiler.start()

    def step(self) -> None:
        """Note the end of a step."""
        if self.profiler:
            self.profiler.step()

    def stop(self) -> None:
        """End the profile of a run with fewer steps, and report those that it has."""
        if self.profiler:
            self.profiler.stop()
        if self.profiler and not self.reported and self.ranks.rank == 0:
            self.ranks.say(f"profile: none, since the run had fewer than {WAIT + WARM_UP + 1} steps")

    def _report(self, profiler: profile) -> None:
        self.reported = True
        if self.folder:
            profiler.export_chrome_trace(str(self.folder / f"trace-{self.ranks.rank}.json"))
        if self.ranks.rank == 0:
            for line in shares(profiler.events(), self.ranks.device):
                self.ranks.say(line)


def shares(events: list[FunctionEvent], device: torch.device) -> list[str]:
    """Return the shares of the time in which this rank computes, only communicates, and only waits."""
    kind = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    named = [each for each in events if each.name.startswith("ProfilerStep")]
    steps = [each.time_range for each in named if each.device_type == DeviceType.CPU]
    begin, end = min(step.start for step in steps), max(step.end for step in steps)
    of_device = [each for each in events if each.device_type == kind and not each.name.startswith(NO_WORK)]
    # On a GPU, an annotation such as FSDP's spans kernels that have events of their own.
    work = [each for each in of_device if kind == DeviceType.CPU or not each.is_user_annotation]
    computing = covered([each for each in work if not each.name.lower().startswith(MESSAGES)], begin, end)
    busy = covered(work, begin, end)
    parts = {"computation": computing, "communication alone": busy - computing, "waiting": end - begin - busy}
    return [
        f"profile: {name} {part / (end - begin):.1%} of {len(steps)} steps" for name, part in parts.items()
    ]


def covered(events: list[FunctionEvent], begin: float, end: float) -> float:
    """Return the time between `begin` and `end` that at least one event covers."""
    total, reached = 0.0, begin
    for span in sorted((each.time_range for each in events), key=lambda span: span.start):
        start, stop = max(span.start, reached), min(span.end, end)
        total, reached = total + max(stop - start, 0), max(reached, stop)
    return total
