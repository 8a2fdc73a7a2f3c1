"""The page that makes a script: its form, its hints and its answer."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.config.project import DEFAULT_SITE, FILE_NAME, Project, find_project, table_of
from slurmgen.config.user import FILE_NAME as PERSONAL
from slurmgen.config.user import Personal
from slurmgen.errors import RequestError, SlurmgenError, cleared, did_you_mean, parts
from slurmgen.job_spec import JobOptions, JobSpec, load_spec, spec_of_options
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan import Plan
from slurmgen.plan.placement import LISTS, notes, unlisted, warnings
from slurmgen.plan.resources import charge
from slurmgen.program.files import begins_command
from slurmgen.program.target import as_command
from slurmgen.request.model import Precision, Rendezvous, Sweep, merge, text_of
from slurmgen.request.model import Request as JobRequest
from slurmgen.request.text import command_line, request_of
from slurmgen.script_lines import script_lines
from slurmgen.sites.model import EngineName, Site
from slurmgen.sites.nodes import Place, places_of
from slurmgen.slurm import units
from slurmgen.sync.files import check_replaced, missing_files
from slurmgen.text import counted, listed, toml_key, toml_value
from slurmgen.web.pages import Settings, page, settings_of, with_fields
from slurmgen.web.sites import profiles

MOST_TEXT = 20_000
"Characters of a form."
MOST_TABLE = 500_000
"Characters of the parameters of all runs of a sweep."

SpecOf = Callable[[JobOptions], JobSpec]
"How a server makes a job of its options."


def spec_in_project(options: JobOptions) -> JobSpec:
    """The job as the command line makes it in the folder of a local server.

    Raises:
        SlurmgenError: as on the command line; or the form names no program and no job.
    """
    _, project = find_project(Path.cwd())
    if options.job is not None and options.job not in project.job:  # on the command line it may be a file
        hint = did_you_mean(options.job, project.job)
        raise RequestError(f"there is no job {options.job!r} in {FILE_NAME}", hint, "job")
    request = options.request
    if project.job and not (options.job or request.names_program or request.script_args):
        raise RequestError(
            "a job that is not in slurmgen.toml needs a program",
            "Name its script, or choose a job.",
            "script",
        )
    return load_spec(options, Path.cwd())


def spec_without_project(options: JobOptions) -> JobSpec:
    """The job as in an empty folder, for a public server: it reads only bundled files.

    Raises:
        SlurmgenError: as on the command line.
    """
    request, notice = options.request, ""
    words = request.script_args
    if words and not request.names_program and begins_command(words[0], Path(), has_jobs=False):
        request, notice = as_command(request)
    site = profiles(public=True).site(options.site or DEFAULT_SITE)
    spec = spec_of_options(structs.replace(options, request=request), site, Personal())
    return structs.replace(spec, notices=(notice,) if notice else ())


def answer_of(texts: Mapping[str, str], spec_of: SpecOf) -> dict[str, Any]:
    """All that the page shows of the fields of a form.

    Raises:
        SlurmgenError: the request is not valid, as on the command line.
    """
    request = request_of({name: text for name, text in texts.items() if name not in _OF_JOB})
    _check_table(request.sweep)
    job = texts.get("job") or None
    # The field shows the arguments of slurmgen.toml: other ones replace them.
    replace_args = bool(job and request.script_args)
    spec = spec_of(JobOptions(job=job, site=texts.get("site"), request=request, replace_args=replace_args))
    plan = spec.plan()
    script = spec.render(plan)
    found = {f"notice-{number}": text for number, text in enumerate(spec.notices)} | notes(plan)
    seen = {f"warning-{number}": text for number, text in enumerate(_warnings(spec, plan))}
    return {
        "plan": plan,
        "script": script,
        "lines": script_lines(plan, script),
        "notes": found | seen,
        "warnings": {*warnings(plan), *seen},
        # The field that a note is about, if the profile does not list its value.
        "unlisted": {f"{key}.{name}": LISTS[key][1] for key, name in unlisted(plan.request, spec.site)},
        "charge": charge(plan),
        "command": _command(spec),
        "toml": _toml(spec, plan),
        "picture": _picture_in_words(plan),
        "task_gpus": plan.ranks.launcher.gpus_per_task(plan.gpus_per_node) if plan.gpus_per_node else 0,
        "file_name": f"{plan.name}.{plan.site}.sbatch",  # as `render --write` chooses it
    }


def _warnings(spec: JobSpec, plan: Plan) -> Iterable[str]:
    """What the files of the project show; nothing without one."""
    if spec.project_dir == Path():
        check_replaced(plan)
        return ()
    return (*missing_files(plan, spec.project_dir), *spec.warnings(plan))


def _command(spec: JobSpec) -> str:
    """The command that makes the script in the same folder, with the values of variables."""
    options = spec.options
    asked = options.overrides if spec.name else options.request
    return command_line(spec.site.name, asked, spec.name, replace_args=options.replace_args, with_values=True)


def _toml(spec: JobSpec, plan: Plan) -> str:
    """The entry of slurmgen.toml for the same job; for a job of it, the table of the site if that differs."""
    asked, site, jobs = spec.options.request, spec.site.name, spec.project.job
    if spec.name:
        table = merge(jobs[spec.name].site.get(site, JobRequest()), asked)
        values = table_of(spec.name, table).partition("\n")[2] if asked != JobRequest() else ""
        return f"[job.{toml_key(spec.name)}.site.{toml_key(site)}]\n{values}" if values else ""
    if plan.name in jobs:
        return table_of(f"{plan.name}-2", structs.replace(asked, name=plan.name))
    first = "" if spec.project != Project() else f"site = {toml_value(site)}\n\n"
    return f"{first}{table_of(plan.name, asked)}"


def _picture_in_words(plan: Plan) -> str:
    each = " each" if plan.nodes > 1 else ""
    gpus = f", {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ", no GPU"
    cpus = counted(plan.cpus_per_task * plan.ntasks_per_node, "CPU")
    tasks, ranks = counted(plan.ntasks_per_node, "task"), counted(plan.procs_per_task, "rank")
    runs = f", for each of {counted(len(plan.sweep.runs), 'run')}" if plan.sweep else ""
    return f"{counted(plan.nodes, 'node')}{each} with {tasks} of {ranks}{gpus}, {cpus}{runs}"


def check_size(texts: Mapping[str, str]) -> None:
    """Refuse a form that is too large for a page.

    Raises:
        RequestError: it has more than `MOST_TEXT` characters.
    """
    size = sum(map(len, (*texts, *texts.values())))
    if size > MOST_TEXT:
        raise RequestError(f"the form has {size:,} characters, more than {MOST_TEXT:,}", _ELSEWHERE)


def _check_table(sweep: Sweep | None) -> None:
    """Refuse a sweep whose table would be a very large page, before it is made."""
    grid = (sweep.grid if sweep else None) or {}
    runs = prod(map(len, grid.values()))
    size = runs * sum(len(name) + max(len(str(value)) for value in values) for name, values in grid.items())
    if size > MOST_TABLE:
        raise RequestError(f"the table of the sweep has about {size:,} characters", _ELSEWHERE, "sweep")


_ELSEWHERE = "Write such a job into slurmgen.toml, and use the command line."

PLACED_BY = ("site", "partition", "gpu_type", "qos", "gpus", "job")
"The fields that the hints depend on."
NAMED_BY_SITE = ("partition", "qos", "gpu_type", "container_engine")
"The fields whose values a profile names; another site has other ones."
_OF_JOB = ("site", "job")
"The fields that are not of the request."


def choices_of(site: Site) -> dict[str, dict[str, str]]:
    """The values of each field that has some, with a note on each."""
    engines = (site.container.engine, *site.container.engines) if site.container else get_args(EngineName)
    return {
        "partition": {name: _limits(one.max_time, one.max_gpus) for name, one in site.partitions.items()},
        "qos": {name: _limits(one.max_time, one.max_gpus) for name, one in site.qos.items()},
        "gpu_type": {name: one.label or "" for name, one in site.gpu.types.items()},
        "container_engine": dict.fromkeys(dict.fromkeys(engines), ""),
    }


def _limits(time: str | None, gpus: int | None) -> str:
    most = units.time_limit(time)
    return _joined(f"at most {in_words(most)}" if most else "", "no GPUs" if gpus == 0 else "")


def hints_of(site: Site, texts: Mapping[str, str], written: Mapping[str, "Written"]) -> dict[str, str]:
    """A hint for each field that may have a limit or a default of its own; empty if it has none."""
    places = _places(site, texts)
    defaults = _defaults(site, texts, places[0])
    limits = _limits_of_size(places) | _limits_of_place(site, defaults) | _limits_of_node(site, places[0])
    found = {}
    for field in dict.fromkeys([*limits, *defaults, *written]):
        own = written[field].hint if field in written else ""
        default = own or (f"default: {defaults[field]}" if defaults.get(field) else "")
        limit = "" if own and field == "account" else limits.get(field, "")
        hint = "; ".join(filter(None, [default, limit]))
        found[field] = f"{hint[:1].upper()}{hint[1:]}." if hint else ""
    return found


def _places(site: Site, texts: Mapping[str, str], empty: str = "") -> Sequence[Place]:
    named = {key: text.strip() or None for key, text in texts.items() if key != empty}
    placed_by = (named.get(key) for key in ("partition", "gpu_type", "qos"))
    return [*places_of(site, *placed_by, with_gpus=named.get("gpus") != "0")]


def _defaults(site: Site, texts: Mapping[str, str], place: Place) -> dict[str, str]:
    """What an empty field means at the site, whatever the field has now."""
    container, memory = site.container, place.node.memory_per_gpu or site.memory.per_gpu
    found = {
        "time": site.time,
        "partition": _several(", ".join(one.partitions) for one in _places(site, texts, "partition")),
        "qos": _several(one.qos for one in _places(site, texts, "qos")),
        "gpu_type": _several(one.gpu_type for one in _places(site, texts, "gpu_type")),
        "cpus_per_gpu": place.node.cpus_per_gpu or site.cpu.per_gpu,
        "mem": f"{memory} per GPU" if memory and site.memory.form != "none" else "",
        "container": container and container.image,
        "container_engine": container and container.engine,
        "modules": ", ".join(site.modules.load),
        "python_env": site.python_env,
    }
    return {field: str(value or "") for field, value in found.items()}


def _several(names: Iterable[str | None]) -> str:
    return " or ".join(filter(None, dict.fromkeys(names)))


def _limits_of_size(places: Sequence[Place]) -> dict[str, str]:
    """Limits that no place exceeds: slurmgen chooses the place by the size of the job."""
    per_node = _most([place.node.gpus for place in places])
    gpus, nodes = (
        _most([_least(getattr(one, key) for one in place.limits.values()) for place in places])
        for key in ("max_gpus", "max_nodes")
    )
    seconds = _most([_least(one.seconds_for(1) for one in place.limits.values()) for place in places])
    return {
        "gpus": _joined(
            f"up to {per_node} per node" if per_node else "", f"at most {gpus} per job" if gpus else ""
        ),
        "nodes": f"at most {nodes} per job" if nodes else "",
        "time": f"at most {in_words(seconds)}" if seconds else "",
    }


def _limits_of_place(site: Site, defaults: Mapping[str, str]) -> dict[str, str]:
    """Whether a name is required, and the first names that there are."""
    required = "required. " if site.account.required else ""
    return {
        "account": f"{required}{site.account.hint or ''}".strip().rstrip("."),
        "partition": _others(site.partitions, defaults["partition"]),
        "qos": _others(site.qos, defaults["qos"], required=site.qos_required),
        "gpu_type": _others(site.gpu.types, defaults["gpu_type"], required=site.gpu.type_required),
    }


def _others(names: Iterable[str], default: str, *, required: bool = False) -> str:
    others = [name for name in names if name not in re.split(" or |, ", default)]
    known = f"{'others:' if default else 'such as'} {listed(others, 3)}" if others else ""
    return "; ".join(filter(None, ["required" if required and not default else "", known]))


def _limits_of_node(site: Site, place: Place) -> dict[str, str]:
    node = place.node
    memory = f"{node.memory} on a node" if node.memory else ""
    return {
        "cpus_per_gpu": f"{counted(node.cpus, 'CPU')} on a node" if node.cpus else "",
        "mem": "the site accepts no memory request" if site.memory.form == "none" else memory,
    }


class Written(NamedTuple):
    """What slurmgen.toml, personal.toml or the program says of a field that the form leaves empty."""

    hint: str
    value: str = ""
    "As the field shows it; empty if what the form has is added to it."


def written_for(texts: Mapping[str, str], spec_of: SpecOf) -> dict[str, Written]:
    """The value of each field in the files of the user, with its source."""
    job = texts.get("job") or None
    program = JobRequest() if job else JobRequest(command=("true",))  # as one that the form will name
    with suppress(RequestError):  # such as an ambiguous account; the answer to the whole form says so
        return _written(spec_of(JobOptions(job=job, site=texts.get("site"), request=program)))
    return {}


def _written(spec: JobSpec) -> dict[str, Written]:
    found = dict.fromkeys(LABELS, Written(""))  # another job had other fields
    if spec.personal.mail_user:
        found["mail_user"] = Written(f"default: {spec.personal.mail_user}, from {PERSONAL}")
    for key, source in spec.files.items():
        field, _, name = key.partition(".")
        if field in found and name:
            before = f"{found[field].hint}; " if found[field].hint else ""
            found[field] = Written(f"{before}{name}: from {source}")
        elif field in found:
            text = _as_text(field, getattr(spec.request, field))
            in_line = text.replace("\n", ", ")
            found[field] = Written(f"default: {in_line}, from {source}", text)
    return {field: one for field, one in found.items() if field not in _OF_JOB}


def _as_text(field: str, value: object) -> str:
    """A value as a user types it into the field."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sweep):
        grid = (value.grid or {}).items()
        lines = [f"{name}={','.join(map(text_of, values))}" for name, values in grid]
        return "\n".join(lines) or counted(len(value.list or ()), "run")
    if isinstance(value, tuple):
        return shlex.join(value) if field in ("script_args", "command") else "\n".join(value)
    return str(value)


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def _most(limits: Sequence[int | None]) -> int | None:
    return max((limit for limit in limits if limit), default=None) if all(limits) else None


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number), default=None)


def in_words(seconds: int) -> str:
    """A duration in words.

    >>> in_words(172_800), in_words(5_400)
    ('2 days', '90 minutes')
    """
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % length == 0:
            return counted(seconds // length, noun)
    return units.canonical_time(seconds)


Kind = Literal["text", "number", "lines", "select", "switch"]


class Field(NamedTuple):
    """One field."""

    name: str
    label: str
    kind: Kind = "text"
    placeholder: str = ""
    help: str = ""
    options: tuple[str, ...] = ()
    "Of a select, besides an empty one for the default."
    narrow: bool = False
    "Two such fields are beside each other."


class Group(NamedTuple):
    """Fields that belong together."""

    title: str
    fields: tuple[Field, ...]

    @property
    def rows(self) -> list[tuple[Field, ...]]:
        """The fields that are beside each other: two narrow ones, or one alone."""
        rows: list[tuple[Field, ...]] = []
        for one in self.fields:
            pairs = one.narrow and rows and len(rows[-1]) == 1 and rows[-1][0].narrow
            rows = [*rows[:-1], (*rows[-1], one)] if pairs else [*rows, (one,)]
        return rows


COMMON = Group(
    "",
    (
        Field("framework", "Framework", "select", options=tuple(LAUNCHERS), narrow=True),
        Field("time", "Time limit", placeholder="01:00:00", help="HH:MM:SS or D-HH:MM:SS.", narrow=True),
        Field("gpus", "GPUs in total", "number", "1", narrow=True),
        Field("nodes", "Nodes", "number", "as few as fit", narrow=True),
        Field("gpu_type", "GPU type", narrow=True),
        Field("partition", "Partition", narrow=True),
        Field("account", "Account", narrow=True),
        Field("qos", "QoS", narrow=True),
        Field("script", "Script", placeholder="train.py", help="Python, or shell if it ends with .sh."),
        Field("script_args", "Arguments", placeholder="--epochs 20", help="Quoted as in a shell."),
    ),
)
GROUPS = (
    Group(
        "Module or command instead of a script",
        (
            Field("module", "Python module", placeholder="package.train", narrow=True),
            Field("command", "Command", placeholder="./simulate --steps 100", narrow=True),
        ),
    ),
    Group(
        "Container and Python",
        (
            Field("container", "Container image", placeholder="/path/image.sif", help="none: no container."),
            Field("container_engine", "Container engine", narrow=True),
            Field("python_env", "Python environment", placeholder="venv:/path/.venv", narrow=True),
            Field("binds", "Folders to bind", "lines", "/data:/data"),
            Field("modules", "Modules", "lines", help="Instead of the site's; none: no modules."),
        ),
    ),
    Group(
        "Environment variables",
        (
            Field("env", "Variables", "lines", "NAME=value", "$NAME in a value expands in the job."),
            Field("secrets", "Secret variables", "lines", "HF_TOKEN", "Names only; submit asks for values."),
            Field("not_secret", "Not secret", "lines", help="Variables that look secret and are not."),
        ),
    ),
    Group(
        "CPUs and memory",
        (
            Field("cpus_per_gpu", "CPUs per GPU", "number", narrow=True),
            Field("cpus", "CPUs per task", "number", narrow=True),
            Field("mem", "Memory per node", placeholder="64G", narrow=True),
            Field("ntasks_per_node", "Tasks per node", "number", narrow=True),
        ),
    ),
    Group(
        "Longer than one job",
        (
            Field("requeue", "Requeue if unfinished", "switch", narrow=True),
            Field("segments", "Segments", "number", "1", narrow=True),
            Field("requeue_signal", "How ranks are asked to stop", placeholder="USR2@120"),
        ),
    ),
    Group(
        "Sweep of parameters",
        (
            Field("sweep", "Grid", "lines", "lr=1e-3,3e-4", "A parameter per line; a run per combination."),
            Field("sweep_limit", "Tasks at a time", "number"),
        ),
    ),
    Group(
        "Checks of nodes",
        (
            Field("preflight", "Check nodes first", "switch", narrow=True),
            Field("on_bad_node", "On a bad node", "select", options=("stop", "retry"), narrow=True),
            Field("exclude", "Nodes not to use", "lines", "gpu012=slow network"),
        ),
    ),
    Group(
        "Name, log and mail",
        (
            Field("name", "Job name", placeholder="name of the script", narrow=True),
            Field("log_dir", "Folder for the log", placeholder="logs", narrow=True),
            Field("mail", "Mail on", placeholder="end,fail", narrow=True),
            Field(
                "mail_user", "Mail address", placeholder="name@example.org", help="For Mail on.", narrow=True
            ),
            Field("label_ranks", "Rank on each line of the log", "switch", narrow=True),
        ),
    ),
    Group(
        "Launcher and sbatch options",
        (
            Field("rendezvous", "Rendezvous", "select", options=get_args(Rendezvous), narrow=True),
            Field("mixed_precision", "Precision", "select", options=get_args(Precision), narrow=True),
            Field("launcher_config", "Configuration file", placeholder="accelerate.yaml"),
            Field("launcher_args", "Options of the launcher", "lines", "--max-restarts=3"),
            Field("sbatch", "Further sbatch options", "lines", "comment=first try"),
        ),
    ),
)

LABELS = {"site": "Site", "job": "Job"}
LABELS |= {one.name: one.label for group in (COMMON, *GROUPS) for one in group.fields}
"The label of each field."

_SHOWN = "shown"
"The field with the values that the shown hints are for."
_UNKNOWN = "unknown"
"The field with an unknown name of the address, which is then refused."


def show(request: Request) -> Response:
    """The page, with the script of the default request or of the first job of slurmgen.toml."""
    settings = settings_of(request)
    folder, project = (Path(), Project()) if settings.public else find_project(Path.cwd())
    texts = {"site": project.site or DEFAULT_SITE, "job": next(iter(project.job), "")}
    answer = None  # the page asks for a refusal when it is loaded
    with suppress(RequestError):
        answer = answer_of(texts, _spec_of(settings))
    return page(
        request,
        "generator.html",
        sites={one.name: one.title for one in profiles(public=settings.public).listed()},
        jobs=project.job,
        project_file=folder / FILE_NAME,
        chosen=texts,
        of_project=bool(project.site),
        common=COMMON,
        groups=GROUPS,
        labels=LABELS,
        answer=answer,
        **_of_site(settings, texts),
    )


@with_fields
def answer(request: Request, texts: dict[str, str]) -> Response:
    """The script of a filled form, or why there is none."""
    settings, shown, unknown = settings_of(request), texts.pop(_SHOWN, ""), texts.pop(_UNKNOWN, "")
    texts = {"site": DEFAULT_SITE} | texts | ({unknown: ""} if unknown else {})
    of_site: dict[str, Any] = {"hints": None}
    try:
        check_size(texts)
        if shown != _placed(texts):
            of_site = _of_site(settings, texts)
        shown_answer = answer_of(texts, _spec_of(settings))
        return page(request, "generator_answer.html", answer=shown_answer, labels=LABELS, **of_site)
    except SlurmgenError as error:
        field = next((name for name in error.fields if name in LABELS), "")
        has_value = field in NAMED_BY_SITE and texts.get(field, "").strip()
        refusal: dict[str, Any] = {
            "texts": [*parts(f"{error.marked[0]}. "), *parts(error.marked[1])],
            "field": field,
            "offers": tuple(dict.fromkeys((*error.offers, *(cleared(field) if has_value else ())))),
            "labels": LABELS,
        }
        reply = page(request, "generator_refusal.html", **refusal, **of_site)
        reply.headers["HX-Retarget"], reply.headers["HX-Reswap"] = "#refusal", "innerHTML"
        return reply


def _spec_of(settings: Settings) -> SpecOf:
    return spec_without_project if settings.public else spec_in_project


def _of_site(settings: Settings, texts: Mapping[str, str]) -> dict[str, Any]:
    """What the form shows of the site and of the user's files."""
    site = profiles(public=settings.public).site(texts["site"])
    written = {} if settings.public else written_for(texts, spec_in_project)
    return {
        "shown": _placed(texts),
        "choices": choices_of(site),
        "hints": hints_of(site, texts, written),
        "written": written,
    }


def _placed(texts: Mapping[str, str]) -> str:
    gpus = "0" if texts.get("gpus", "").strip() == "0" else ""
    return "|".join(texts.get(name, "").strip() if name != "gpus" else gpus for name in PLACED_BY)


ROUTES = (Route("/", show), Route("/generator", answer, methods=["POST"]))
