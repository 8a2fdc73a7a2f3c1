"""Write docs/sites/: a page for each bundled site, made from its profile.

`python docs/site_pages.py` writes the pages and their index. A test compares them with the profiles.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from slurmgen.errors import RequestError
from slurmgen.plan import resolve
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site, When
from slurmgen.sites.nodes import cpu_partitions
from slurmgen.sites.profiles import load_site, profile_paths

FOLDER = Path(__file__).with_name("sites")
MARKS = ("documentation", "configuration", "users", "inferred")
UNSOURCED = ("name", "title", "sources")
SHAPES = (("python", 1), ("ddp", 4), ("lightning", 8))
"Framework and GPUs of the jobs that a page shows."


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    sites = {name: load_site(name, personal=False) for name in profile_paths(personal=False)}
    return {f"{name}.md": page(site) for name, site in sites.items()} | {"index.md": _index(sites)}


def page(site: Site) -> str:
    """The page of one site."""
    sections = (_start, _nodes, _limits, _jobs, _settings, _conditions, _notes, _login, _sources)
    title = site.title or site.name
    return "\n".join([f"# {site.name}: {title}\n", *(line for part in sections for line in part(site))])


def _index(sites: dict[str, Site]) -> str:
    counts = {name: _facts(site) for name, site in sites.items()}
    rows = [
        (f"[{name}]({name}.md)", site.title, counts[name].total(), *(counts[name][mark] for mark in MARKS))
        for name, site in sites.items()
    ]
    every = sum(counts.values(), Counter[str]())
    rows.append(("all", "", every.total(), *(every[mark] for mark in MARKS)))
    toctree = ["```{toctree}", ":hidden:", "", *sites, "```"]
    head = [
        "# Bundled sites\n",
        "Each page is made from the profile. What it leaves out is not known. The table counts the facts of\n"
        "each profile by the mark of their source; a value that is slurmgen's default is not counted.\n",
    ]
    return "\n".join([*head, *_table(("name", "site", "facts", *MARKS), rows), *toctree, ""])


def _facts(site: Site) -> "Counter[str]":
    """The number of facts of a site by the mark of their source; a list counts as one."""
    stated = {key: value for key, value in to_builtins(site).items() if key not in UNSOURCED}
    sources = [site.source_of(key) for key in _leaves(stated, "")]
    return Counter(site.sources[name].mark for name in sources if name)


def _leaves(value: object, key: str) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [key]
    return [leaf for name, inner in value.items() for leaf in _leaves(inner, f"{key}.{name}".lstrip("."))]


def _start(site: Site) -> Iterator[str]:
    account = " --account NAME" if site.account.required else ""
    yield "```console"
    yield f"$ slurmgen render --site {site.name}{account} --framework ddp --gpus 4"
    yield f"$ slurmgen submit --site {site.name}{account} --framework ddp --gpus 4"
    yield "```\n"
    if site.account.required:
        yield f"Every job must name an account. {site.account.hint or ''}".rstrip() + "\n"


def _nodes(site: Site) -> Iterator[str]:
    kinds: dict[str, Node] = {"usual": site.node, "of jobs without GPUs": site.cpu_node}
    kinds |= {f"GPU type `{name}`": kind for name, kind in site.gpu.types.items()}
    kinds |= {f"partition `{name}`": part.node for name, part in site.partitions.items() if part.node}
    rows = [(name, node.gpus, node.cpus, node.memory) for name, node in kinds.items() if node != type(node)()]
    yield from _section("Nodes", ("node", "GPUs", "CPUs", "memory"), rows)


def _limits(site: Site) -> Iterator[str]:
    named: dict[str, Limits] = {"every job": site.limits} if site.limits != Limits() else {}
    named |= {f"partition `{name}`": part for name, part in site.partitions.items()}
    named |= {f"QoS `{name}`": qos for name, qos in site.qos.items()}
    rows = [
        (
            name,
            _times(limits),
            _range(limits.min_nodes, limits.max_nodes),
            _range(limits.min_gpus, limits.max_gpus),
            _of_user(limits),
        )
        for name, limits in named.items()
    ]
    yield from _section("Limits of a job", ("", "time", "nodes", "GPUs", "of a user"), rows)
    if site.default_partitions:
        yield f"A job that names no partition gets {_first(site.default_partitions)}.\n"
    if without_gpus := cpu_partitions(site):
        yield f"A job without GPUs that names no partition gets {_first(without_gpus)}.\n"


def _first(partitions: tuple[str, ...]) -> str:
    names = ", ".join(f"`{name}`" for name in partitions)
    return names if len(partitions) == 1 else f"the first of {names} whose limits allow it"


def _times(limits: Limits) -> str:
    parts = [f"{limit.time} to {limit.nodes} nodes" for limit in limits.max_time_by_nodes]
    return ", ".join([*parts, *([limits.max_time] if limits.max_time else [])])


def _of_user(limits: Limits) -> str:
    counts = (
        (limits.max_jobs, "jobs"),
        (limits.max_running_jobs, "running"),
        (limits.max_nodes_per_user, "nodes"),
    )
    words = [f"{count} {what}" for count, what in counts if count is not None]
    return ", ".join([*words, *(["preemptible"] if getattr(limits, "preemptible", False) else [])])


def _range(least: int | None, most: int | None) -> str:
    if most == 0:
        return "none"
    return " ".join([*([f"from {least}"] if least else []), *([f"to {most}"] if most is not None else [])])


def _jobs(site: Site) -> Iterator[str]:
    rows = []
    for framework, gpus in SHAPES:
        request = Request(framework=framework, gpus=gpus, account="NAME" if site.account.required else None)
        try:
            plan = resolve(request, site)
        except RequestError as error:
            rows.append((f"{framework}, {gpus} GPUs", str(error)))
            continue
        options = " ".join(
            f"`--{key}={value}`" if value else f"`--{key}`" for key, value in plan.directives[1:]
        )
        rows.append((f"{framework}, {gpus} GPU{'s' if gpus > 1 else ''}", options))
    yield from _section("What slurmgen requests", ("job", "directives"), rows)


def _settings(site: Site) -> Iterator[str]:
    rows = [
        (group.replace("_", " "), f"`{name}={value}`", site.env.notes.get(name, ""))
        for group in ("always", "multi_gpu", "multi_node", "container", "task")
        for name, value in getattr(site.env, group).items()
    ]
    yield from _section("Variables", ("jobs", "variable", "reason"), rows)
    facts = (
        ("GPUs", site.gpu.vendor if site.gpu.vendor != "nvidia" else ""),
        ("architecture", site.architecture),
        ("internet on compute nodes", site.internet),
        ("local storage of a node", f"`{site.local_dir}`" if site.local_dir else ""),
        ("jobs start below", ", ".join(f"`{folder}`" for folder in site.job_folders)),
        (
            "container engine",
            ", ".join((site.container.engine, *site.container.engines)) if site.container else None,
        ),
        ("container image", site.container.image if site.container else None),
        ("modules", ", ".join(site.modules.load)),
        ("Python", site.python_env),
        ("srun options", " ".join(f"`{word}`" for word in site.launch.srun)),
        (
            "charge",
            f"{site.charge.unit}: {site.charge.rate:g} for an hour of one {site.charge.per}"
            if site.charge
            else "",
        ),
    )
    yield from _section("Software", ("", ""), [row for row in facts if row[1]])


def _conditions(site: Site) -> Iterator[str]:
    rows = [(_meets(table), _sets(table)) for table in site.when.values()]
    yield from _section("Settings of some jobs", ("jobs", "settings"), rows)


def _meets(table: When) -> str:
    names = "nodes tasks whole_nodes has_gpus several_gpus gpu_type partition qos container"
    values = {name: getattr(table, name) for name in names.split()}
    return ", ".join(f"{name} = {value}" for name, value in values.items() if value is not None)


def _sets(table: When) -> str:
    words = [f"account suffix {table.account_suffix}"] if table.account_suffix else []
    words += [f"--{name}={value}" for name, value in table.sbatch.items()]
    words += [f"module load {name}" for name in table.modules.load] + [*table.modules.init]
    words += [f"{name}={value}" for name, value in (table.env | table.task_env).items()]
    words += [f"srun {option}" for option in table.launch.srun]
    words += [*table.launch.before, *table.launch.before_on_each_node]
    texts = [f"refused: {table.refuse}"] if table.refuse else []
    texts += [table.note] if table.note else []
    return " ".join([*(f"`{word}`" for word in words), *texts])


def _notes(site: Site) -> Iterator[str]:
    rows = [*site.notes.items()]
    rows += [(f"`--{option}`", reason) for option, reason in site.refused_options.items()]
    yield from _section("Notes", ("", ""), rows)


def _login(site: Site) -> Iterator[str]:
    login = site.login
    rows = [
        ("host", login.host),
        ("further hosts", ", ".join(login.other_hosts)),
        ("jump host", login.jump_host),
        ("automation host", login.automation_host),
        ("hosts for copying files", ", ".join(login.transfer_hosts)),
        ("needs", ", ".join(login.methods)),
        ("certificate", f"{login.certificate_hours} hours" if login.certificate_hours else ""),
        ("gets a certificate", f"`{login.certificate_command}`" if login.certificate_command else ""),
        ("note", login.note),
    ]
    yield from _section("Login", ("", ""), [row for row in rows if row[1]])


def _sources(site: Site) -> Iterator[str]:
    rows = [
        (source.mark, f"[{source.title}]({source.url})" if source.url else source.title, source.date,
         ", ".join(f"`{fact}`" for fact in source.facts) or "all others")
        for source in site.sources.values()
    ]  # fmt: skip
    yield from _section("Sources", ("mark", "source", "date", "facts"), rows)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    if rows:
        yield f"## {title}\n"
        yield from _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        cells = ("" if cell is None else str(cell).replace("|", r"\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
