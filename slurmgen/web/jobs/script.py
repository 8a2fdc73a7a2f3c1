"""The batch script of a job as it was submitted, with what the linter finds in it."""

from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import ConfigError
from slurmgen.jobs.submitted_script import submitted_script
from slurmgen.lint import Report, lint
from slurmgen.sites.profiles import load_site
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.parts import part
from slurmgen.web.jobs.records import connections_of
from slurmgen.web.pages import page


@part
def show(request: Request) -> Response:
    """The script, read-only."""
    job = asked_job(request)
    with connections_of(request).use(job.route) as transport:
        text = submitted_script(transport, job)
    return page(request, "job_script.html", text=text, findings=_findings(text, job.route.site))


def _findings(text: str, site: str) -> tuple[Report, ...]:
    """What the linter finds; without the limits of the site, if it has no profile any more."""
    try:
        return lint(text, load_site(site))
    except ConfigError:
        return lint(text)
