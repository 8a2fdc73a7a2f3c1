"""Sweep: many runs of one job, each with parameters of its own. Pure."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from slurmgen.errors import RequestError
from slurmgen.field_names import option

ParameterName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*\Z",
        description="letters, digits and _ . -, beginning with a letter or _",
    ),
]
Value = str | int | float | bool
Style = Literal["equals", "space", "hydra"]
Parameters = Mapping[str, str]
"The parameters of one run, as the program gets them."

MOST_RUNS = 10_000
"Runs of a sweep. A script with more than that is not readable, and few sites accept as many tasks."
MOST_PER_GPU = 64
TASK_FOLDER = "tasks"
"The folder of the folders of all runs, in that of the job."
RUN_LOG = "run.out"
"The log of a run that shares its task with others, in the folder of the run."
_SOURCES = ("grid", "list", "file")
"The fields that name parameters; a sweep has one of them."
_WRITE = (
    'Write it in [job.NAME.sweep], such as grid = { lr = ["1e-3", "3e-4"] }, '
    f"or as {option('sweep', 'lr=1e-3,3e-4')}."
)


class Sweep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Many runs of one job in a job array, each with parameters of its own."""

    grid: dict[ParameterName, tuple[Value, ...]] | None = None
    "The values of each parameter; there is a run for every combination."
    list: tuple[dict[ParameterName, Value], ...] | None = None
    "Instead of a grid: the parameters of each run."
    file: str | None = None
    "Instead of both: a file of the project, .csv with a header, .json with a list, or .jsonl."
    limit: int | None = None
    "The most tasks that run at the same time."
    style: Style | None = None
    "How a parameter becomes an argument: equals (`--lr=1e-3`), space (`--lr 1e-3`) or hydra (`lr=1e-3`)."
    runs_per_gpu: int | None = None
    "Runs that share a GPU, in one task of the array."
    tasks: tuple[int, ...] | None = None
    "Only these tasks, by number; default: all."

    @property
    def names_parameters(self) -> bool:
        """Whether it has a grid, a list or a file."""
        return any(getattr(self, key) is not None for key in _SOURCES)


def merged(earlier: Sweep | None, later: Sweep) -> Sweep:
    """Both sweeps: the later one overrules; its parameters replace those of the earlier one as a whole."""
    if earlier is None:
        return later
    kept = structs.asdict(earlier)
    if later.names_parameters:
        kept |= dict.fromkeys((*_SOURCES, "tasks"))
    own = {key: value for key, value in structs.asdict(later).items() if value is not None}
    return Sweep(**{**kept, **own})


def runs_of(sweep: Sweep) -> tuple[Parameters, ...]:
    """The parameters of each run, in order: of a grid, the last parameter changes fastest.

    Raises:
        RequestError: there are none, too many, or the sweep contradicts itself.
    """
    named = [key for key in _SOURCES if getattr(sweep, key) is not None]
    if not named:
        raise RequestError("the sweep has no parameters", _WRITE, field="sweep")
    if len(named) > 1:
        raise RequestError(
            f"sweep: {' and '.join(named)} exclude each other", "Keep one of them.", field="sweep"
        )
    _check_count(sweep)
    return tuple(_of_grid(sweep.grid) if sweep.grid is not None else map(_texts, sweep.list or ()))


def _check_count(sweep: Sweep) -> None:
    empty = [name for name, values in (sweep.grid or {}).items() if not values]
    if empty:
        raise RequestError(
            f"sweep.grid: {empty[0]} has no values", "Give it one, or leave it out.", field="sweep"
        )
    count = prod(map(len, sweep.grid.values())) if sweep.grid else len(sweep.list or ())
    if not count or not all(sweep.list or [sweep.grid]):
        raise RequestError("the sweep has a run without parameters, or no run", _WRITE, field="sweep")
    if count > MOST_RUNS:
        raise RequestError(
            f"the sweep has {count:,} runs, more than {MOST_RUNS:,}",
            "Sweep fewer values, or divide it into several jobs.",
            field="sweep",
        )


def _of_grid(grid: Mapping[str, Sequence[Value]]) -> list[Parameters]:
    return [_texts(dict(zip(grid, values, strict=True))) for values in product(*grid.values())]


def _texts(parameters: Mapping[str, Value]) -> Parameters:
    return {name: text_of(value) for name, value in parameters.items()}


def text_of(value: Value) -> str:
    """A value as an argument: text as it is, true and false in lower case, numbers as Python writes them.

    >>> text_of(1e-3), text_of(True), text_of("1e-3")
    ('0.001', 'true', '1e-3')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def arguments(parameters: Parameters, style: Style | None) -> list[str]:
    """The arguments of a run.

    >>> arguments({"lr": "1e-3"}, "space"), arguments({"lr": "1e-3"}, "hydra")
    (['--lr', '1e-3'], ['lr=1e-3'])
    """
    forms = _FORMS[style or "equals"]
    return [form.format(name, text) for name, text in parameters.items() for form in forms]


_FORMS: dict[Style, tuple[str, ...]] = {
    "equals": ("--{0}={1}",),
    "space": ("--{0}", "{1}"),
    "hydra": ("{0}={1}",),
}


def matches(asked: Parameters, parameters: Parameters) -> bool:
    """Whether a run has these parameters; numbers are compared as numbers.

    >>> matches({"lr": "1e-3"}, {"lr": "0.001", "seed": "1"}), matches({"lr": "1"}, {"seed": "1"})
    (True, False)
    """
    return all(name in parameters and _same(text, parameters[name]) for name, text in asked.items())


def _same(one: str, other: str) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False
