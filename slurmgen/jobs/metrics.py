"""The curves of a run: the numbers in the lines of its metrics.jsonl. What a run wrote is untrusted."""

import json
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct

from slurmgen.jobs.sweep_results import flat
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed

FILES = ("metrics.jsonl", "steps.jsonl")
"What the bundled training scripts write: a line for each epoch, and one for some of the steps."
MOST_BYTES = 8 << 20
"Of the end of a file."
MOST_POINTS = 2000
"Of a curve; of more, some at equal distances are kept."
MOST_CURVES = 60
_AXES = ("step", "global_step", "iteration", "epoch")
"The names of the horizontal axis, the finest first."
_LINE = "line"
_READ = '[ ! -e "$1" ] || { exec <"$1" && tail -c "$2"; }'


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
    argv = ["sh", "-c", _READ, "curves", path, str(MOST_BYTES)]
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
    """The numbers of a line, by name; None for one that is not finite."""
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
    """At most `MOST_POINTS` of them, with the first and the last."""
    last = len(points) - 1
    if last < MOST_POINTS:
        return points
    return [points[round(number * last / (MOST_POINTS - 1))] for number in range(MOST_POINTS)]
