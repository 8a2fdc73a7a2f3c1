"""The results of a sweep: the last metrics of each run, from its folder on the cluster.

What a run wrote is untrusted: it is read up to a limit, and only numbers and short texts of it count.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.jobs.job import Job
from slurmgen.jobs.sweep_table import Table, table_of
from slurmgen.remote.transport import Transport
from slurmgen.sweep import TASK_FOLDER, Parameters
from slurmgen.text import listed

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
        transport: to the site.
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
    """The runs of an array, without results."""
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
