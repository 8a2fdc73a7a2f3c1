"""The table of a sweep as the ledger keeps it: which task has which parameters. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import DecodeError, Struct, json

from slurmgen.errors import RequestError
from slurmgen.jobs.ledger import Record
from slurmgen.sweep import TASK_FOLDER, Parameters, matches

if TYPE_CHECKING:
    from slurmgen.plan.sweep import Sweeping

_SELECTION = re.compile(r"(?P<job>[^\[\]]+)\[(?P<parameters>.+)\]", re.DOTALL)
_HINT = "Write NAME[lr=1e-3], or several with commas; `slurmgen status NAME --tasks` lists them."


class Table(Struct, frozen=True, omit_defaults=True):
    """The parameters of the tasks of one array."""

    tasks: dict[int, tuple[dict[str, str], ...]]
    "By the index of a task, those of each of its runs."
    first: int = 0
    "The task of the sweep that is task 0 of the array."
    per_task: int = 1
    "Runs of a task; the last one of a sweep may have fewer."

    @property
    def shares_gpus(self) -> bool:
        """Whether a task has several runs."""
        return self.per_task > 1


def names_of(tables: Sequence[Table]) -> list[str]:
    """The names of all parameters, in order."""
    runs = (run for table in tables for runs in table.tasks.values() for run in runs)
    return list(dict.fromkeys(name for run in runs for name in run))


def as_text(sweep: "Sweeping | None") -> str:
    """The text for `Record.tasks`; empty without a sweep."""
    if sweep is None:
        return ""
    tasks = {index: tuple(map(dict, runs)) for index, runs in sweep.table().items()}
    return json.encode(Table(tasks, sweep.array.first, sweep.per_task)).decode()


def table_of(record: Record | None) -> Table | None:
    """The table of a record; None if it is of no sweep, or of another version of slurmgen."""
    if record is None or not record.tasks:
        return None
    try:
        return json.decode(record.tasks, type=Table)
    except DecodeError:
        return None


class Selection(Struct, frozen=True):
    """The runs of a job that the user selects by their parameters."""

    job: str
    "An id or a name."
    parameters: Parameters


def selection(text: str) -> Selection | None:
    """What `NAME[lr=1e-3,seed=1]` selects; None for another name.

    Raises:
        RequestError: the brackets do not contain parameters.
    """
    match = _SELECTION.fullmatch(text)
    if match is None:
        return None
    pairs = [part.partition("=") for part in match["parameters"].split(",")]
    if not all(name and equals for name, equals, _ in pairs):
        raise RequestError(f"{match['parameters']!r} are not parameters of a run", _HINT)
    return Selection(match["job"], {name: value for name, _, value in pairs})


def chosen(record: Record, asked: Parameters) -> Iterator[tuple[int, int | None]]:
    """The tasks with these parameters, each with the number of its run if it has several."""
    table = table_of(record)
    for index, runs in table.tasks.items() if table else ():
        for number, run in enumerate(runs):
            if matches(asked, run):
                yield index, number if table and table.shares_gpus else None


def check_parameters(records: Sequence[Record], asked: Selection) -> None:
    """Refuse parameters that no run has.

    Raises:
        RequestError: it names the parameters of the sweep.
    """
    names = names_of([table for record in records if (table := table_of(record))])
    if not names:
        raise RequestError(f"job {asked.job} is not a sweep", "Only the runs of a sweep have parameters.")
    for name in asked.parameters:
        if name not in names:
            raise RequestError(
                f"the sweep {asked.job} has no parameter {name}", f"It has {', '.join(names)}."
            )
    raise RequestError(
        f"no run of {asked.job} has {', '.join(f'{name}={text}' for name, text in asked.parameters.items())}",
        f"`slurmgen status {asked.job} --tasks` lists all.",
    )


def run_folder(record: Record, task: str, run: int | None = None) -> str:
    """The folder of a run, in that of its job.

    Args:
        record: the array.
        task: the id of the task, such as 12_3.
        run: the number of the run in its task, if the task has several.
    """
    part = f"/{run}" if run is not None else ""
    return f"{record.folder}/{TASK_FOLDER}/{task}{part}"


def tasks_of(record: Record | None) -> int:
    """The number of tasks of a sweep's array; 0 for another job."""
    table = table_of(record)
    return len(table.tasks) if table else 0


def parameters_of(task: str, tables: Mapping[str, Table]) -> list[dict[str, str]]:
    """The parameters of each run of a task; none for a task of another job.

    Args:
        task: its id, such as 12_3.
        tables: the table of each array, by the id of the array.
    """
    array, _, index = task.partition("_")
    runs = tables[array].tasks.get(int(index), ()) if array in tables and index.isdecimal() else ()
    return list(runs)
