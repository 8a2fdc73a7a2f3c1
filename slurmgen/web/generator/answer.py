"""The answer to a filled form: the script with its reasons, and what else makes it. Pure."""

from collections.abc import Mapping
from math import prod

from msgspec import Struct

from slurmgen.config.job_table import table_of
from slurmgen.config.user import Personal
from slurmgen.errors import RequestError
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import spec_of_options
from slurmgen.plan import Plan
from slurmgen.request_command import command_line
from slurmgen.request_text import request_of
from slurmgen.script_lines import Line, script_lines
from slurmgen.sites.model import Site
from slurmgen.sweep import Sweep
from slurmgen.sync.project_files import check_replaced
from slurmgen.text import toml_value
from slurmgen.web.generator.picture import Picture, picture_of

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

    Args:
        texts: the text of each field.
        site: the site.
        own: the user's own settings for it.

    Raises:
        SlurmgenError: the request is not valid, as on the command line.
    """
    request = request_of(texts)
    _check_table(request.sweep)
    spec = spec_of_options(JobOptions(site=site.name, request=request), site, own)
    plan = spec.plan()
    script = spec.render(plan)
    check_replaced(plan)
    return Answer(
        plan=plan,
        script=script,
        lines=script_lines(plan, script),
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
