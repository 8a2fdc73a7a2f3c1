"""The results and metrics of the tasks of a sweep."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed
from slurmgen.request.model import TASK_FOLDER, Parameters
from slurmgen.status.job import Job, Table, table_of
from slurmgen.text import listed

FILES = ("metrics.jsonl", "steps.jsonl")
"What the bundled training scripts write: a line for each epoch, and one for some of the steps."

METRICS_BYTES = 8 << 20
"Of the end of a file."
MOST_POINTS = 2000
"Of a curve; of more, some at equal distances are kept."
MOST_CURVES = 60
_AXES = ("step", "global_step", "iteration", "epoch")
"The names of the horizontal axis, the finest first."
_LINE = "line"

_READ_METRICS = '[ ! -e "$1" ] || { exec <"$1" && tail -c "$2"; }'


class Curves(Struct, frozen=True):
    """The values of a file over one axis."""

    axis: str = _LINE
    "The name of the value that all lines have; `line` for their numbers."
    x: tuple[float, ...] = ()
    "Ascending."
    values: dict[str, tuple[float | None, ...]] = {}
    "By name, one value for each of `x`; None where the line has no finite number."
    rows: int = 0
    "Lines that were read, of which `x` may have only some."


def read_curves(transport: Transport, path: str) -> Curves:
    """The curves in a file; empty if it does not exist.

    Raises:
        CommandFailed: it cannot be read.
    """
    argv = ["sh", "-c", _READ_METRICS, "curves", path, str(METRICS_BYTES)]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    return curves(completed.stdout)


def curves(text: bytes) -> Curves:
    """The curves in lines of JSON; lines that are not valid do not count.

    Of several lines with the same value on the axis, the last counts: a run that was stopped repeats steps.
    """
    rows = [row for line in text.split(b"\n") if (row := _numbers(line))]
    axis = next((name for name in _AXES if rows and all(row.get(name) is not None for row in rows)), _LINE)
    by_x = {row[axis] if axis != _LINE else float(number): row for number, row in enumerate(rows, 1)}
    points = _thinned(sorted(((x, row) for x, row in by_x.items() if x is not None), key=itemgetter(0)))
    names = list(dict.fromkeys(name for row in rows for name in row if name != axis))[:MOST_CURVES]
    return Curves(
        axis=axis,
        x=tuple(x for x, _ in points),
        values={name: tuple(row.get(name) for _, row in points) for name in names},
        rows=len(rows),
    )


def _numbers(line: bytes) -> dict[str, float | None]:
    try:
        found: Mapping[str, Any] = dict(flat(json.loads(line)))
    except (ValueError, RecursionError):
        return {}
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return {name: _finite(value) for name, value in numbers.items() if not isinstance(value, bool)}


def _finite(value: float) -> float | None:
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _thinned(points: Sequence[Any]) -> Sequence[Any]:
    last = len(points) - 1
    if last < MOST_POINTS:
        return points
    return [points[round(number * last / (MOST_POINTS - 1))] for number in range(MOST_POINTS)]


Value = float | int | str | bool
MOST_BYTES = 8192
"Of summary.json, or of the end of metrics.jsonl; a longer one does not count."
_MOST_TEXT = 200
_MOST_VALUES = 200
_TIMEOUT = 300.0
# A NUL ends each name and each content, before which is a `=`.
_READ = f"""
export LC_ALL=C
most=$1
shift
while [ $# -gt 0 ]; do
  cd "$1/{TASK_FOLDER}" 2>/dev/null || {{ shift 2 && continue; }}
  for run in "$2"_* "$2"_*/[0-9] "$2"_*/[0-9][0-9]; do
    file=$run/summary.json
    [ -f "$file" ] || file=$run/metrics.jsonl
    [ -f "$file" ] || continue
    printf '%s\\000=' "$file"
    tail -c "$most" "$file" 2>/dev/null | tr -d '\\000'
    printf '\\000'
  done
  shift 2
done
exit 0
"""


class Result(Struct, frozen=True, kw_only=True):
    """One run of a sweep and what it measured."""

    task: str
    "The id of its task, as 12_3; of several runs of a task, with its number, as 12_3/1."
    parameters: Parameters
    number: int = 0
    "The number of the run in the whole sweep."
    values: dict[str, Value] = {}
    "By name; those of an inner object as `name.inner`. Empty if it has written none."


def read_results(transport: Transport, arrays: Sequence[Job]) -> list[Result]:
    """The results of all runs of a sweep, in the order of its table.

    Args:
        arrays: the arrays of the sweep; of a task that ran again, the last counts.

    Raises:
        CommandFailed: the remote host did not reply as expected.
    """
    words = [word for job in arrays if job.record for word in (job.record.folder, job.record.id)]
    argv = ["sh", "-c", _READ, "results", str(MOST_BYTES), *words]
    texts = transport.run(argv, timeout=_TIMEOUT).stdout.split(b"\0")
    if len(texts) % 2 == 0:
        raise CommandFailed(f"{transport.where} did not list the results", "Try again.")
    found = {name: text[1:] for name, text in zip(texts[::2], texts[1::2], strict=False)}
    runs = [_result(run, found) for job in arrays for run in _runs(job)]
    last = {(run.number, tuple(run.parameters.items())): run for run in runs}
    return sorted(last.values(), key=lambda run: run.number)


def _runs(job: Job) -> Iterator[Result]:
    table = table_of(job.record) or Table({})
    for index, runs in table.tasks.items():
        for number, parameters in enumerate(runs):
            part = f"/{number}" if table.shares_gpus else ""
            yield Result(
                task=f"{job.id}_{index}{part}",
                parameters=parameters,
                number=(table.first + index) * table.per_task + number,
            )


def _result(run: Result, found: Mapping[bytes, bytes]) -> Result:
    folder = run.task.encode()
    for name, is_lines in ((b"summary.json", False), (b"metrics.jsonl", True)):
        if (text := found.get(folder + b"/" + name)) is not None:
            return structs.replace(run, values=_values(text, is_lines=is_lines))
    return run


def _values(text: bytes, *, is_lines: bool) -> dict[str, Value]:
    """The values in a summary, or in the last line that is complete; none if it is not valid."""
    lines = [line for line in text.split(b"\n") if line.strip()] if is_lines else [text]
    for line in reversed(lines):
        try:
            return dict(list(flat(json.loads(line)))[:_MOST_VALUES])
        except (ValueError, RecursionError):
            continue
    return {}


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Value]]:
    """The numbers and short texts of an object and of the objects in it."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, dict) and not prefix:
            yield from flat(inner, f"{name}.")
        elif isinstance(inner, str | int | float) and len(f"{name}{inner}") <= _MOST_TEXT:
            yield f"{prefix}{name}", inner


def metrics_of(results: Sequence[Result]) -> list[str]:
    """The names of all values, in order."""
    return list(dict.fromkeys(name for result in results for name in result.values))


def ranked(results: Sequence[Result], metric: str | None, *, descending: bool = False) -> list[Result]:
    """The results sorted by a metric, those without it at the end; in their order if it is None.

    Raises:
        RequestError: no run has such a metric.
    """
    if metric is None:
        return list(results)
    names = metrics_of(results)
    if metric not in names:
        hint = f"They have {listed(names, most=20)}." if names else "No run has written metrics yet."
        raise RequestError(f"no run has the metric {metric!r}", hint)
    have = [result for result in results if number_of(result, metric) is not None]
    have.sort(key=lambda result: number_of(result, metric) or 0.0, reverse=descending)
    return [*have, *(result for result in results if result not in have)]


def number_of(result: Result, metric: str) -> float | None:
    """The value of a metric as a number; None if it is not one."""
    value = result.values.get(metric)
    if isinstance(value, str) or value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
