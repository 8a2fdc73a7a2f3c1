"""Write docs/sites/: a page for each bundled site, made from its profile.

`python docs/site_pages.py` writes the pages and their index. A test compares them with the profiles.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slurmgen.errors import RequestError
from slurmgen.plan import resolve
from slurmgen.request.model import Request
from slurmgen.sites.describe import facts_by_mark, sections
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site, profile_paths

FOLDER = Path(__file__).with_name("sites")
MARKS = ("documentation", "configuration", "users", "inferred")
SHAPES = (("python", 1), ("ddp", 4))
"Framework and GPUs of the jobs that a page shows."
NAMED = re.compile(r"(.*\S )(`[^`]+`)")
"A kind and a name, such as partition `gpu`."


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    sites = {name: load_site(name, personal=False) for name in profile_paths(personal=False)}
    return {f"{name}.md": page(site) for name, site in sites.items()} | {"index.md": _index(sites)}


def page(site: Site) -> str:
    """The page of one site."""
    parts = (_start, _facts, _jobs, _sources)
    title = site.title or site.name
    return "\n".join([f"# {site.name}: {title}\n", *(line for part in parts for line in part(site))])


def _index(sites: dict[str, Site]) -> str:
    counts = {name: facts_by_mark(site) for name, site in sites.items()}
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


def _start(site: Site) -> Iterator[str]:
    account = " --account NAME" if site.account.required else ""
    yield "```console"
    yield f"$ slurmgen submit --site {site.name}{account} --framework ddp --gpus 4"
    yield "```\n"
    if site.account.required:
        yield f"Every job must name an account. {site.account.hint or ''}".rstrip() + "\n"


def _facts(site: Site) -> Iterator[str]:
    for section in sections(site):
        stated = "account" if site.account.required else ""  # above the tables
        rows = [row.cells for row in section.rows if row.key != stated]
        if section.title == "Variables":
            yield from _section(section.title, ("", ""), _by_jobs(rows))
        else:
            yield from _section(section.title, section.head, _together(rows))
        yield from (f"{remark}\n" for remark in section.remarks)


def _by_jobs(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The variables of each kind of jobs, with their reasons."""
    jobs: dict[str, list[str]] = {}
    for name, value, kind, *reason in rows:
        text = f"{name.removesuffix('`')}={value.removeprefix('`')}"
        jobs.setdefault(kind, []).append(f"{text} ({reason[0].rstrip('.')})" if any(reason) else text)
    return [(kind, ", ".join(texts)) for kind, texts in jobs.items()]


def _together(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows; equal rows of one kind, such as of two partitions, are joined."""
    names: dict[tuple[str, ...], list[str]] = {}
    for label, *values in rows:
        kind, name = found.groups() if (found := NAMED.fullmatch(label)) else (label, "")
        names.setdefault((kind, *values), []).append(name)
    return [(f"{kind}{', '.join(each)}", *values) for (kind, *values), each in names.items()]


def _jobs(site: Site) -> Iterator[str]:
    """The directives that all of the jobs have, then the others of each, or why it is refused."""
    cells: dict[str, list[str]] = {}
    plans: list[list[str]] = []
    for framework, gpus in SHAPES:
        job = f"{framework}, {gpus} GPU{'s' if gpus > 1 else ''}"
        request = Request(framework=framework, gpus=gpus, account="NAME" if site.account.required else None)
        try:
            directives = resolve(request, site).directives[1:]
        except RequestError as error:
            cells[job] = [str(error)]
            continue
        cells[job] = [f"`--{key}={value}`" if value else f"`--{key}`" for key, value in directives]
        plans.append(cells[job])
    common = [option for option in plans[0] if all(option in each for each in plans)] if plans[1:] else []
    rows = [("each", " ".join(common))] if common else []
    rows += [(job, " ".join(cell for cell in each if cell not in common)) for job, each in cells.items()]
    yield from _section("What slurmgen requests", ("", ""), rows)


def _sources(site: Site) -> Iterator[str]:
    rows = []
    for source in site.sources.values():
        title = f"[{source.title}]({source.url})" if source.url else source.title
        facts = ", ".join(f"`{fact}`" for fact in source.facts) or "all others"
        rows.append((", ".join(filter(None, (source.mark, title, source.date))), facts))
    yield from _section("Sources", ("", ""), rows)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    if rows:
        yield f"## {title}\n"
        yield from _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """A table, or a list of names and values, which needs no head."""
    if len(head) == 2:
        yield from (f"- {name}: {value}" for name, value in rows)
        yield ""
        return
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
