"""The batch script of a job as it was submitted. The page lets the linter check it."""

from starlette.requests import Request
from starlette.responses import Response

from slurmgen.jobs.submitted_script import submitted_script
from slurmgen.text import visible
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.parts import part
from slurmgen.web.jobs.state import connections_of
from slurmgen.web.pages import page


@part
def show(request: Request) -> Response:
    """The script, read-only."""
    job = asked_job(request)
    with connections_of(request).use(job.route) as transport:
        text = submitted_script(transport, job)
    return page(request, "job_script.html", text=visible(text, keep="\n\t"))
