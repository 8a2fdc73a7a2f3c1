"""The results of a sweep, from what its runs wrote into their folders."""

import json
import os
from pathlib import Path

import pytest

from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.status.job import Job
from slurmgen.status.sweep_results import MOST_BYTES, Result, ranked, read_results
from tests.conftest import Run


def record(folder: Path, runs: int, per_task: int = 1) -> Record:
    tasks = {
        task: tuple({"seed": str(task * per_task + run)} for run in range(per_task)) for task in range(runs)
    }
    return Record(
        id="12",
        site="generic",
        via="local",
        name="fit",
        folder=str(folder),
        output="%x-%A_%a.out",
        submitted="2026-01-01T00:00:00+00:00",
        tasks=json.dumps({"tasks": tasks, "per_task": per_task}),
    )


def results(folder: Path, runs: int, per_task: int = 1) -> list[Result]:
    job = Job.of(record(folder, runs, per_task), Route(site="generic", via="local"))
    with LocalTransport({}) as transport:
        return read_results(transport, [job])


def write(folder: Path, task: str, name: str, content: bytes) -> None:
    (folder / "tasks" / task).mkdir(parents=True, exist_ok=True)
    (folder / "tasks" / task / name).write_bytes(content)


def test_the_last_complete_line_counts_and_a_summary_before_it(tmp_path: Path) -> None:
    write(tmp_path, "12_0", "metrics.jsonl", b'{"loss": 2}\n{"loss": 1, "val": {"acc": 0.5}}\n{"lo')
    write(tmp_path, "12_1", "metrics.jsonl", b'{"loss": 3}\n')
    write(tmp_path, "12_1", "summary.json", b'{\n "loss": 0.25,\n "name": "a b"\n}\n')
    assert [one.values for one in results(tmp_path, 3)] == [
        {"loss": 1, "val.acc": 0.5},
        {"loss": 0.25, "name": "a b"},
        {},
    ]


def test_runs_that_share_a_task_have_a_folder_each(tmp_path: Path) -> None:
    for run in range(12):
        write(tmp_path, f"12_0/{run}", "metrics.jsonl", b'{"run": %d}' % run)
    found = results(tmp_path, 1, per_task=12)
    assert [(one.task, one.values) for one in found] == [(f"12_0/{run}", {"run": run}) for run in range(12)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b'"text"',
        b"\0=x\0",
        b"[" * 5000,
        b'{"a": ' * 1000,
        b'{"a": "' + b"x" * 2 * MOST_BYTES + b'"}',
        b'{"a": [1], "b": null, "c": "%s"}' % (b"x" * 300),
    ],
)
def test_a_file_without_valid_values_hides_no_other(content: bytes, tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "summary.json"):
        write(tmp_path, "12_0", "metrics.jsonl", b'{"loss": 1}')
        write(tmp_path, "12_1", name, content)
        write(tmp_path, "12_2", "metrics.jsonl", b'{"loss": 2}')
        assert [one.values for one in results(tmp_path, 3)] == [{"loss": 1}, {}, {"loss": 2}]


def test_runs_without_the_metric_come_last() -> None:
    values = [{"loss": 2.0}, {}, {"loss": float("nan")}, {"loss": 1}, {"loss": "x"}]
    runs = [Result(task=f"12_{n}", parameters={}, values=value) for n, value in enumerate(values)]  # type: ignore[arg-type]
    assert [one.task for one in ranked(runs, "loss")] == ["12_3", "12_0", "12_1", "12_2", "12_4"]
    assert [one.task for one in ranked(runs, "loss", descending=True)][:2] == ["12_0", "12_3"]
    with pytest.raises(RequestError, match="no run has the metric 'acc'"):
        ranked(runs, "acc")


def test_a_plot_is_a_file_that_loads_nothing_from_the_network(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, "12_0", "metrics.jsonl", b'{"loss": -1.5, "n\\u001b[2J": 1e999}')
    write(tmp_path, "12_1", "metrics.jsonl", b'{"loss": 3}')
    Ledger().add(record(tmp_path, 2))
    for name in ("loss.svg", "loss.html", "loss.txt"):
        reply = slurmgen("results", "fit", "--metric", "loss", "--plot", name)
        assert reply.returncode == 0, reply.stderr
        text = (tmp_path / name).read_text()
        assert "seed=1" in text.replace("&#160;", " ")
        assert 'url("' not in text
        assert "█" * 40 in text
    refused = slurmgen("results", "fit", "--metric", "loss", "--plot", "loss.png")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is of none of the kinds .svg, .html, .txt" in refused.stderr
    shown = json.loads(slurmgen("results", "fit", "--json").stdout)
    assert shown["runs"][0]["values"] == {"loss": -1.5, "n\x1b[2J": None}
    assert "\x1b" not in slurmgen("results", "fit").stdout + slurmgen("results", "fit", "--csv").stdout


def test_no_text_of_a_run_is_a_formula_in_csv(tmp_path: Path, slurmgen: Run) -> None:
    write(tmp_path, "12_0", "summary.json", b'{"loss": -1.5, "note": "=HYPERLINK(1)", "@x": "-1e-3"}')
    Ledger().add(record(tmp_path, 1))
    shown = slurmgen("results", "fit", "--csv").stdout.splitlines()
    assert shown == ["task,seed,loss,note,'@x", "12_0,0,-1.5,'=HYPERLINK(1),-1e-3"]


def test_only_a_sweep_has_results(tmp_path: Path, slurmgen: Run) -> None:
    Ledger().add(Record(**{**_fields(record(tmp_path, 1)), "tasks": ""}))
    reply = slurmgen("results", "fit")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert "job 12 is not a sweep" in reply.stderr
    assert slurmgen("results", "fit", "--csv", "--json").returncode == 2


def _fields(one: Record) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_the_arrays_of_a_sweep_do_not_mix_in_one_folder(tmp_path: Path, slurmgen: Run) -> None:
    for array in ("12", "13"):
        folder = tmp_path / "runs" / f"fit-{array}"
        (tmp_path / "submissions" / folder.name).mkdir(parents=True)
        (tmp_path / "submissions" / folder.name / "intent.1").symlink_to("intent")
        os.utime(tmp_path / "submissions" / folder.name / "intent.1", (0, 0), follow_symlinks=False)
        fields = {"id": array, "key": f"k{array}", "part_of": "k12"}
        Ledger().add(Record(**{**_fields(record(folder, 1)), **fields}))
        write(folder, f"{array}_0", "metrics.jsonl", b"{}")
        (folder / "model.pt").write_text(f"of {array}")
    reply = slurmgen("fetch", "fit", "--to", "got")
    assert reply.returncode == 0, reply.stderr
    models = {
        str(path.relative_to(tmp_path / "got")): path.read_text() for path in tmp_path.glob("got/*/*.pt")
    }
    assert models == {"fit-12/model.pt": "of 12", "fit-13/model.pt": "of 13"}
