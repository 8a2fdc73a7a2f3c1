"""A job that does one step each time a test lets it: its log and its metrics grow while the test looks."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from slurmgen.ledger.ledger import Ledger, Record
from tests.support import command_server
from tests.support.twins import Testbed

PROGRAM = r"""
import json, os, pathlib, time
gate, rank = pathlib.Path(os.environ["GATE"]), int(os.environ.get("RANK", 0))
run = pathlib.Path(os.environ.get("RUN_DIR", "run"))
run.mkdir(exist_ok=True)
rows, step = [], 0
while True:
    step += 1
    while not (gate / str(step)).exists() and not (gate / "end").exists():
        time.sleep(0.05)
    if not (gate / str(step)).exists():
        break
    print((gate / str(step)).read_bytes().decode(errors="surrogateescape"), flush=True)
    rows.append({"epoch": step, "train_loss": 2.5 / step, "test_loss": 2.7 / step,
                 "test_accuracy": 1 - 0.5 / step, "lr": 0.1})
    if rank == 0:
        (run / "new").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (run / "new").rename(run / "metrics.jsonl")
raise SystemExit(int((gate / "end").read_text() or 0))
"""
_SITE = ("--site", "generic", "--via", "twin", "--gpus", "0", "--time", "00:05:00")


@dataclass(frozen=True)
class Stepping:
    """The job, and the folder by which it is steered."""

    record: Record
    gate: Path

    def step(self, number: int, text: str | bytes) -> None:
        """Let it print a text and add a row to its metrics."""
        content = text if isinstance(text, bytes) else text.encode()
        (self.gate / "new").write_bytes(content)
        (self.gate / "new").rename(self.gate / str(number))

    def end(self, status: int = 0) -> None:
        """Let it end after the steps that it may do."""
        (self.gate / "new").write_text(str(status))
        (self.gate / "new").rename(self.gate / "end")

    def metrics(self) -> list[dict[str, float]]:
        """What it has written."""
        text = Path(self.record.folder, "run", "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def submitted(testbed: Testbed, project: Path, name: str, program: str, *options: str, **env: str) -> Record:
    """A job of a program on the twin."""
    (project / f"{name}.py").write_text(program)
    words = [*_SITE, "--framework", "python", "--script", f"{name}.py", "--name", name, *options]
    for key, value in env.items():
        words += ["--env", f"{key}={value}"]
    return _submitted(testbed, project, *words)


def submitted_script(testbed: Testbed, project: Path, name: str, text: str) -> Record:
    """A job of a batch script on the twin, as it is."""
    (project / name).write_text(text)
    return _submitted(testbed, project, name, "--site", "generic", "--via", "twin")


def _submitted(testbed: Testbed, project: Path, *words: str) -> Record:
    environ = {**os.environ, "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"], "HOME": str(project.parent)}
    reply = command_server.run(("submit", *words), project, environ)
    assert reply.returncode == 0, reply.stderr
    ledger = Ledger(Path(environ["XDG_STATE_HOME"], "slurmgen/ledger.sqlite"))
    return ledger.find(reply.stdout.split()[0])[0]


def stepping(testbed: Testbed, project: Path, name: str, *options: str) -> Stepping:
    """A job that waits for its first step."""
    gate = project.parent / f"gate-{name}"
    gate.mkdir()
    return Stepping(submitted(testbed, project, name, PROGRAM, *options, GATE=str(gate)), gate)
