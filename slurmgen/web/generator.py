"""The page that makes a script: its form and the script's picture."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.config.project import DEFAULT_SITE, table_of
from slurmgen.config.user import FILE_NAME, Personal, load_personal
from slurmgen.errors import Offer, RequestError, SlurmgenError, cleared, parts
from slurmgen.job_spec import JobOptions, spec_of_options
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan import Plan
from slurmgen.plan.placement import LISTS, notes, unlisted, warnings
from slurmgen.plan.resources import charge
from slurmgen.program.files import begins_command
from slurmgen.program.target import as_command
from slurmgen.request.model import Precision, Rendezvous, Sweep
from slurmgen.request.text import command_line, request_of
from slurmgen.script_lines import Line, script_lines
from slurmgen.sites.model import EngineName, Site
from slurmgen.sites.nodes import Place, places_of
from slurmgen.slurm import units
from slurmgen.sync.files import check_replaced
from slurmgen.text import counted, listed, toml_value
from slurmgen.web.pages import Settings, fields, page, settings_of
from slurmgen.web.sites import profiles

MOST_NODES = 4
MOST_TASKS = 8
MOST_RANKS = 16
"Shown of each; a number says how many more there are."


class Task(Struct, frozen=True):
    """One task of a node."""

    ranks: tuple[int, ...]
    "The global numbers of its first ranks."
    more_ranks: int
    gpus: int
    cpus: int


class Picture(Struct, frozen=True):
    """The first nodes of a job with their first tasks."""

    text: str
    "The diagram in words."
    nodes: tuple[tuple[Task, ...], ...]
    more_nodes: int
    more_tasks: int
    "On each node."


def picture_of(plan: Plan) -> Picture:
    """The diagram of a job."""
    shown = min(plan.nodes, MOST_NODES)
    return Picture(
        text=_text(plan),
        nodes=tuple([_tasks(plan, node) for node in range(shown)]),
        more_nodes=plan.nodes - shown,
        more_tasks=max(0, plan.ntasks_per_node - MOST_TASKS),
    )


def _tasks(plan: Plan, node: int) -> tuple[Task, ...]:
    each, ranks = plan.ntasks_per_node, plan.procs_per_task
    gpus = plan.ranks.launcher.gpus_per_task(plan.gpus_per_node) if plan.gpus_per_node else 0
    first = [(node * each + task) * ranks for task in range(min(each, MOST_TASKS))]
    return tuple(
        [
            Task(
                ranks=tuple(range(start, start + min(ranks, MOST_RANKS))),
                more_ranks=max(0, ranks - MOST_RANKS),
                gpus=gpus,
                cpus=plan.cpus_per_task,
            )
            for start in first
        ]
    )


def _text(plan: Plan) -> str:
    each = " each" if plan.nodes > 1 else ""
    gpus = f", {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ", no GPU"
    cpus = counted(plan.cpus_per_task * plan.ntasks_per_node, "CPU")
    tasks, ranks = counted(plan.ntasks_per_node, "task"), counted(plan.procs_per_task, "rank")
    runs = f", for each of {counted(len(plan.sweep.runs), 'run')}" if plan.sweep else ""
    return f"{counted(plan.nodes, 'node')}{each} with {tasks} of {ranks}{gpus}, {cpus}{runs}"


MOST_TEXT = 20_000
"Characters of a form."
MOST_TABLE = 500_000
"Characters of the parameters of all runs of a sweep."


class Answer(Struct, frozen=True, kw_only=True):
    """All that the page shows of a valid request."""

    plan: Plan
    script: str
    "As `slurmgen render` writes it to stdout."
    lines: tuple[Line, ...]
    notes: dict[str, str]
    warnings: Collection[str]
    "The names of the notes that are warnings."
    unlisted: dict[str, str]
    "The field that a note is about, by the name of the note, if the profile does not list its value."
    charge: str | None
    command: str
    "The command that makes the script, with the values of variables."
    toml: str
    "The slurmgen.toml that makes the same job."
    picture: Picture

    @property
    def file_name(self) -> str:
        """The name of the script as a file, as `slurmgen render --write` chooses it."""
        return f"{self.plan.name}.{self.plan.site}.sbatch"


def answer_of(texts: Mapping[str, str], site: Site, own: Personal) -> Answer:
    """The answer to the fields of a form, without the site.

    Raises:
        SlurmgenError: the request is not valid, as on the command line.
    """
    request, notice = request_of(texts), ""
    words = request.script_args
    if words and not request.names_program and begins_command(words[0], Path(), has_jobs=False):
        request, notice = as_command(request)
    _check_table(request.sweep)
    spec = spec_of_options(JobOptions(site=site.name, request=request), site, own)
    plan = spec.plan()
    script = spec.render(plan)
    check_replaced(plan)
    return Answer(
        plan=plan,
        script=script,
        lines=script_lines(plan, script),
        notes=({"command": notice} if notice else {}) | notes(plan),
        warnings=warnings(plan).keys(),
        unlisted={f"{key}.{name}": LISTS[key][1] for key, name in unlisted(plan.request, site)},
        charge=charge(plan),
        command=command_line(site.name, request, with_values=True),
        toml=f"site = {toml_value(site.name)}\n\n{table_of(plan.name, request)}",
        picture=picture_of(plan),
    )


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

PLACED_BY = ("site", "partition", "gpu_type", "qos", "gpus")
"The fields that the hints depend on."
NAMED_BY_SITE = ("partition", "qos", "gpu_type", "container_engine")
"The fields whose values a profile names; another site has other ones."


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
    parts = [f"at most {in_words(most)}" if most else "", "no GPUs" if gpus == 0 else ""]
    return ", ".join(filter(None, parts))


def hints_of(site: Site, own: Personal, texts: Mapping[str, str]) -> dict[str, str]:
    """A hint for each field that may have a limit or a default of its own; empty if it has none."""
    places = _places(site, texts)
    node = _of_node(site, places[0])
    found = _of_size(site, places) | _of_place(site, texts) | _of_software(site) | node | _of_user(site, own)
    return {field: f"{hint[:1].upper()}{hint[1:]}." if hint else "" for field, hint in found.items()}


def _places(site: Site, texts: Mapping[str, str], empty: str = "") -> Sequence[Place]:
    named = {key: text.strip() or None for key, text in texts.items() if key != empty}
    placed_by = (named.get(key) for key in ("partition", "gpu_type", "qos"))
    return [*places_of(site, *placed_by, with_gpus=named.get("gpus") != "0")]


def _of_size(site: Site, places: Sequence[Place]) -> dict[str, str]:
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
        "time": _joined(f"at most {in_words(seconds)}" if seconds else "", _default(site.time)),
    }


def _of_place(site: Site, texts: Mapping[str, str]) -> dict[str, str]:
    """A default is what an empty field means, whatever the field has now."""
    required = "required. " if site.account.required else ""
    partitions = [", ".join(place.partitions) for place in _places(site, texts, "partition")]
    qos = [place.qos for place in _places(site, texts, "qos")]
    gpu_types = [place.gpu_type for place in _places(site, texts, "gpu_type")]
    return {
        "account": f"{required}{site.account.hint or ''}".strip().rstrip("."),
        "partition": _of_several(site.partitions, partitions),
        "qos": _of_several(site.qos, qos, required=site.qos_required),
        "gpu_type": _of_several(site.gpu.types, gpu_types, required=site.gpu.type_required),
    }


def _of_several(names: Iterable[str], defaults: Iterable[str | None], *, required: bool = False) -> str:
    """The defaults, else whether a name is required; and the first names that there are."""
    chosen = [*filter(None, dict.fromkeys(defaults))]
    others = [name for name in names if name not in chosen]
    known = f"{'others:' if chosen else 'such as'} {listed(others, 3)}" if others else ""
    return "; ".join(filter(None, [_default(" or ".join(chosen)) or ("required" if required else ""), known]))


def _of_node(site: Site, place: Place) -> dict[str, str]:
    node, per_gpu = place.node, place.node.cpus_per_gpu or site.cpu.per_gpu
    memory = place.node.memory_per_gpu or site.memory.per_gpu
    has = f"{counted(node.cpus, 'CPU')} on a node" if node.cpus else ""
    return {
        "cpus_per_gpu": _joined(_default(str(per_gpu) if per_gpu else None), has),
        "mem": "the site accepts no memory request"
        if site.memory.form == "none"
        else _joined(
            _default(f"{memory} per GPU" if memory else None),
            f"{node.memory} on a node" if node.memory else "",
        ),
    }


def _of_software(site: Site) -> dict[str, str]:
    container = site.container
    return {
        "container": _default(container.image) if container and container.image else "",
        "container_engine": _default(container.engine) if container else "",
        "modules": _default(", ".join(site.modules.load)),
        "python_env": _default(site.python_env),
    }


def _of_user(site: Site, own: Personal) -> dict[str, str]:
    image = "" if site.container and site.container.image else own.image
    of_fields = {"account": own.account, "container": image, "mail_user": own.mail_user}
    return {"mail_user": ""} | {
        field: f"{_default(value)}, from {FILE_NAME}" for field, value in of_fields.items() if value
    }


def _default(value: str | None) -> str:
    return f"default: {value}" if value else ""


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


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

LABELS = {"site": "Site"} | {one.name: one.label for group in (COMMON, *GROUPS) for one in group.fields}
"The label of each field."


def find_site(settings: Settings, name: str) -> Site:
    """The site of that name.

    Raises:
        ConfigError: there is no such profile, or it is wrong.
    """
    return _bundled(name) if settings.public else profiles(public=False).site(name)


def own_settings(settings: Settings, site: Site) -> Personal:
    """The user's own settings for a site, as on the command line; none on a public server.

    Raises:
        ConfigError: the file is wrong, or another user may change it.
    """
    return Personal() if settings.public else load_personal(site.name)


def site_titles(settings: Settings) -> dict[str, str]:
    """The title of each site; its name if the profile states none, or is not valid."""
    return _bundled_titles() if settings.public else _titles(public=False)


@cache
def _bundled(name: str) -> Site:
    return profiles(public=True).site(name)


@cache
def _bundled_titles() -> dict[str, str]:
    return _titles(public=True)


def _titles(*, public: bool) -> dict[str, str]:
    return {one.name: (one.facts and one.facts.title) or one.name for one in profiles(public=public).listed()}


_SHOWN = "shown"
"The field with the values that the shown hints are for."
_UNKNOWN = "unknown"
"The field with an unknown name of the address, which is then refused."


def show(request: Request) -> Response:
    """The page, with the script of the default request."""
    settings = settings_of(request)
    site = find_site(settings, DEFAULT_SITE)
    own = own_settings(settings, site)
    sites = site_titles(settings)
    values: dict[str, Any] = {
        "sites": sites,
        "common": COMMON,
        "groups": GROUPS,
        "default_site": DEFAULT_SITE,
        "labels": LABELS,
    }
    return page(
        request, "generator.html", **values, **_of_site(site, own, {}), answer=answer_of({}, site, own)
    )


async def answer(request: Request) -> Response:
    """The script of a filled form, or why there is none."""
    texts = await fields(request)
    return await run_in_threadpool(_answered, request, texts)


def _answered(request: Request, texts: dict[str, str]) -> Response:
    shown, unknown = texts.pop(_SHOWN, ""), texts.pop(_UNKNOWN, "")
    texts |= {unknown: ""} if unknown else {}
    of_site: dict[str, Any] = {"hints": None}
    try:
        check_size(texts)
        site = find_site(settings_of(request), texts.pop("site", DEFAULT_SITE))
        own = own_settings(settings_of(request), site)
        if shown != _placed({**texts, "site": site.name}):
            of_site = _of_site(site, own, texts)
        shown_answer = answer_of(texts, site, own)
        return page(request, "generator_answer.html", answer=shown_answer, labels=LABELS, **of_site)
    except SlurmgenError as error:
        field = next((name for name in error.fields if name in LABELS), "")
        refusal: dict[str, Any] = {
            "texts": [*parts(f"{error.marked[0]}. "), *parts(error.marked[1])],
            "field": field,
            "offers": tuple(dict.fromkeys((*error.offers, *_emptied(field, texts)))),
            "labels": LABELS,
        }
        reply = page(request, "generator_refusal.html", **refusal, **of_site)
        reply.headers["HX-Retarget"], reply.headers["HX-Reswap"] = "#refusal", "innerHTML"
        return reply


def _emptied(field: str, texts: Mapping[str, str]) -> tuple[Offer, ...]:
    has_value = field in NAMED_BY_SITE and texts.get(field, "").strip()
    return cleared(field) if has_value else ()


def _of_site(site: Site, own: Personal, texts: Mapping[str, str]) -> dict[str, Any]:
    shown = _placed({**texts, "site": site.name})
    return {"shown": shown, "choices": choices_of(site), "hints": hints_of(site, own, texts)}


def _placed(texts: Mapping[str, str]) -> str:
    gpus = "0" if texts.get("gpus", "").strip() == "0" else ""
    return "|".join(texts.get(name, "").strip() if name != "gpus" else gpus for name in PLACED_BY)


ROUTES = (Route("/", show), Route("/generator", answer, methods=["POST"]))
