"""A request: what the user asks for, before a site is known."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, structs, to_builtins

from slurmgen.errors import FILE_ONLY, RequestError, leave_it_out, option
from slurmgen.slurm.sbatch_options import SbatchOptions
from slurmgen.slurm.shell import VariableName, unprintable
from slurmgen.toml import explained

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


Rendezvous = Literal["static", "c10d"]
Precision = Literal["no", "fp16", "bf16", "fp8"]
OnBadNode = Literal["stop", "retry"]
RequeueSignal = Annotated[
    str,
    Meta(
        pattern=r"^(USR2|TERM|file)(@[0-9]{1,6})?\Z",
        description="USR2, TERM or file, optionally with seconds before the time limit, as in TERM@300",
    ),
]
NONE = "none"
"Instead of a name: use none of those that the site has."

MOST = {
    "gpus": 100_000,
    "nodes": 65_536,
    "cpus_per_gpu": 1_024,
    "cpus": 4_096,
    "ntasks_per_node": 4_096,
    "segments": 1_000,
}
"The largest valid values; no cluster has so many."
_UNITED = ("secrets", "not_secret")
"Lists that are united over all layers."
_LISTS = ("secrets", "not_secret", "modules", "binds", "exclude", "launcher_args", *FILE_ONLY)
"Lists without empty texts."
PROGRAMS = ("script", "module", "command")
"The fields that say what the ranks run; a request has at most one of them."
_ALTERNATIVES = (PROGRAMS, ("cpus_per_gpu", "cpus"))
"Fields of which a later layer replaces all by one."


class Then(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A further step of the job: what runs when the step before it has succeeded."""

    script: str | None = None
    module: str | None = None
    command: tuple[str, ...] | None = None
    script_args: tuple[str, ...] | None = None
    framework: str | None = None
    "Default: that of the job."


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One job. Where a field is None, the site decides, otherwise a documented default."""

    framework: str | None = None
    gpus: int | None = None
    "GPUs of the whole job, as in Slurm's --gpus; 0 for a job without GPUs."
    nodes: int | None = None
    gpu_type: str | None = None
    cpus_per_gpu: int | None = None
    cpus: int | None = None
    "CPUs of each task, as in Slurm's --cpus-per-task, instead of `cpus_per_gpu`."
    ntasks_per_node: int | None = None
    "Tasks of a node that the job reserves; srun starts those of the framework, or of MPI as many as these."
    mem: str | None = None
    "Memory of one node, as in Slurm's --mem."
    time: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    container: str | None = None
    "Path of the image, or `none` for no container where the site has one."
    container_engine: str | None = None
    "Another container engine that the site offers."
    binds: tuple[str, ...] | None = None
    env: dict[VariableName, str] = {}
    secrets: tuple[VariableName, ...] | None = None
    "Variables with secret values, which `submit` sends into a file that the job reads; from all layers."
    not_secret: tuple[VariableName, ...] | None = None
    "Variables of `env` that are not secret, although the name or the value looks so; from all layers."
    modules: tuple[str, ...] | None = None
    "Instead of the site's modules; an empty list loads none."
    python_env: str | None = None
    "none, uv[:FOLDER], venv:FOLDER, conda:NAME, pixi[:FOLDER[:NAME]] or squashfs:FILE[:FOLDER]."
    sbatch: SbatchOptions = {}
    "Further sbatch options by long name: `true` for one without a value, `false` to leave one out."
    script: str | None = None
    "A Python script, or a shell script whose name ends with .sh."
    module: str | None = None
    "A Python module instead of a script, as in `python -m`."
    command: tuple[str, ...] | None = None
    "Any other program instead of a script, with its arguments."
    script_args: tuple[str, ...] | None = None
    "Further arguments of the script, module or command."
    launcher_args: tuple[str, ...] | None = None
    "Further options of torchrun or `accelerate launch`."
    launcher_config: str | None = None
    "The configuration file of `accelerate launch`, or of DeepSpeed."
    rendezvous: Rendezvous | None = None
    mixed_precision: Precision | None = None
    "For accelerate's launcher."
    preflight: bool | None = None
    "Check the nodes before the ranks start."
    requeue: bool | None = None
    "Requeue the job if its ranks stop unfinished before the time limit."
    segments: int | None = None
    "Run the job in up to so many array tasks, one after the other, until it is finished."
    exclude: tuple[str, ...] | None = None
    "Nodes that the job does not use, each as NODE or NODE=WHY; the reason becomes a comment."
    on_bad_node: OnBadNode | None = None
    "After a preflight that found a bad node: stop, or requeue the job without it."
    requeue_signal: RequeueSignal | None = None
    "How the ranks are asked to stop, and optionally how many seconds before the time limit."
    label_ranks: bool | None = None
    "Begin each line of the log with the rank that wrote it."
    mail: str | None = None
    "The events that Slurm sends mail for, such as `end,fail`, or `none`."
    mail_user: str | None = None
    "The address for that; default: that of personal.toml, else the user's on the cluster."
    name: str | None = None
    "Name of the job."
    log_dir: str | None = None
    "Folder for the logs; it must exist when the job starts (submit makes it)."
    before_login: tuple[str, ...] | None = None
    "Lines of shell that `submit` runs on the login node before the job: once, under a lock."
    before: tuple[str, ...] | None = None
    "Lines of shell that the batch script runs before the step."
    after: tuple[str, ...] | None = None
    "Lines of shell that it runs after the step, also if the step failed with `$status`."
    then: tuple[Then, ...] | None = None
    "Further steps on the same nodes, each of which runs when the one before has succeeded."
    stage: tuple[str, ...] | None = None
    "Files on the cluster that each node copies to its local storage, `$STAGED_DATA`."
    stage_archives: tuple[str, ...] | None = None
    "Tar archives on the cluster that each node unpacks there."
    sweep: Sweep | None = None
    "Many runs of the job in a job array, each with parameters of its own."

    @property
    def in_segments(self) -> bool:
        """Whether the job may take several array tasks."""
        return (self.segments or 1) > 1

    @property
    def may_stop_early(self) -> bool:
        """Whether its ranks are asked to stop before the time limit, and continue in another run."""
        return bool(self.requeue) or self.in_segments

    @property
    def names_program(self) -> bool:
        """Whether it says what the ranks run; otherwise they run a bundled script."""
        return _names_one(self, PROGRAMS)


def merge(*layers: Request) -> Request:
    """Merge requests: later ones overrule earlier ones; `env` and `sbatch` are merged key by key.

    `secrets` and `not_secret` are united.

    A later `container` of none also removes the engine and the binds of earlier requests; a later script,
    module or command replaces an earlier one of any kind, and so do the CPUs of a task and of a GPU.
    """
    values: dict[str, object] = {}
    for layer in layers:
        replaced = {key for group in _ALTERNATIVES for key in group if _names_one(layer, group)}
        values = {key: value for key, value in values.items() if key not in replaced}
        for key in Request.__struct_fields__:
            value = getattr(layer, key)
            if value is not None:
                values[key] = _merged(key, values.get(key), value)
        if layer.container == NONE:
            values = {key: value for key, value in values.items() if key not in _drops(layer)}
    return Request(**values)  # type: ignore[arg-type]


def _names_one(layer: Request, fields: tuple[str, ...]) -> bool:
    return any(getattr(layer, field) for field in fields)


def _merged(key: str, earlier: Any, value: Any) -> object:
    if isinstance(value, Sweep):
        return merged(earlier, value)
    if isinstance(value, dict):
        return {**(earlier or {}), **value}
    return tuple(dict.fromkeys([*(earlier or ()), *value])) if key in _UNITED else value


def _drops(layer: Request) -> set[str]:
    """What of earlier layers has no effect without a container."""
    return {key for key in ("container_engine", "binds") if getattr(layer, key) is None}


def check_form(request: Request) -> dict[str, Any]:
    """Check the types and ranges of a request, and return the fields that are set.

    Raises:
        RequestError: a value is empty, out of range or of a wrong type, or the name of a variable is invalid.
    """
    _check_counts(request)
    try:
        values: dict[str, Any] = to_builtins(request)
        convert(values, Request)
    except (TypeError, ValueError) as error:
        problem = explained(str(error), values, Request)
        field = problem.keys[0] if problem.keys else ""
        raise RequestError(f"the request is wrong: {problem.fact}", problem.hint, field) from None
    if request.command == () or "" in values.values() or any("" in values.get(key, ()) for key in _LISTS):
        empty = next(key for key, value in values.items() if _is_empty(key, value))
        then = leave_it_out(empty, text="Leave it out, or give it a value.")
        raise RequestError(f"{option(empty)} is empty", then)
    return values


def _is_empty(key: str, value: Any) -> bool:
    return value == "" or (key in _LISTS and "" in value) or (key == "command" and not value)


def _check_counts(request: Request) -> None:
    for key, most in MOST.items():
        value = getattr(request, key)
        least = 0 if key == "gpus" else 1
        if isinstance(value, int) and not least <= value <= most:
            raise RequestError(
                f"{option(key)} is {value}", f"It takes a whole number from {least} on, and at most {most:,}."
            )


def check_text(request: Request) -> None:
    """Refuse control characters, which are not allowed in a batch script.

    Raises:
        RequestError: a value has a newline, a NUL or another control character.
    """
    values: dict[str, Any] = to_builtins(request)
    for key, value in values.items():
        if (text := unprintable(value)) is not None:
            raise RequestError(
                f"{key} has a control character: {text!r}",
                "Newlines, tabs and NULs are not allowed in a batch script; take it out.",
                key,
            )
