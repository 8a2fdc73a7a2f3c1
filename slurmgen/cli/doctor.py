"""`slurmgen doctor`: check step by step that a job can be submitted."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import click

from slurmgen.cli.job_objects import Diagnosis, DoctorStep
from slurmgen.cli.options import (
    JobCommand,
    cache_dir,
    connect,
    json_option,
    project_size_option,
    remote_dir_option,
    request_options,
    route_options,
    send_option,
)
from slurmgen.cli.output import color_option, print_json, style_of, terminal_width, warn, wrapped
from slurmgen.cli.submit_output import amount_of, announced
from slurmgen.doctor import Step, examine, exit_code
from slurmgen.doctor.checks import Visit
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.ledger.places import route_of
from slurmgen.plan import Plan
from slurmgen.remote.ssh.prompt import terminal_prompt
from slurmgen.submit.how import How
from slurmgen.submit.prepare import DEFAULT_REMOTE_DIR, Prepared, prepare
from slurmgen.text import visible

COLORS = {"ok": "green", "warning": "yellow", "failed": "red", "not checked": "yellow"}
_WIDTH, _NAME_WIDTH = 11, 15


@click.command(
    "doctor",
    cls=JobCommand,
    examples={
        "slurmgen doctor": "Check the job of slurmgen.toml at its site",
        "slurmgen doctor --site daic --account ewi-insy-prb --gpus 2": "Check another request",
        "slurmgen doctor train --host me@login.example.org": "Check another login host",
    },
)
@request_options
@route_options
@remote_dir_option
@project_size_option
@send_option
@color_option
@json_option
def command(
    options: JobOptions,
    remote_dir: str | None,
    max_size: int,
    send: tuple[str, ...],
    color: str,
    as_json: bool,
    **route_values: Any,
) -> int:
    """Check step by step that a job can be submitted.

    With one login it checks the request, the project, the connection, the remote host, and whether Slurm
    would accept the job. Nothing is sent or submitted. Exits with 0 if all checks pass, 2 if the request or
    the project is wrong, and 3 if the remote host is not ready.
    """
    job = announced(load_spec(options, Path.cwd()))
    route = route_of(job.site, job.personal, job.project_dir, terminal_prompt(), **route_values)
    folder = remote_dir or job.personal.remote_dir or DEFAULT_REMOTE_DIR
    how = How(remote_dir=folder, max_size=max_size, send=send)
    visit = Visit(
        route,
        open=lambda: connect(route),
        plan=lambda: _planned(job),
        prepare=lambda plan, text: _described(
            plan, prepare(plan, lambda _: text, route, job.project_dir, how)[0]
        ),
        remote_dir=folder,
        project=job.project_dir.resolve().name,
    )
    steps = []
    style, width = style_of(color), terminal_width()
    with closing(visit):
        for step in examine(visit):
            steps.append(step)
            if not as_json:
                click.echo(_lines(step, style, width), color=True)
    if as_json:
        objects = [
            DoctorStep(step=one.name, state=one.state, said=one.fact, hint=one.hint or None) for one in steps
        ]
        is_ok = all(one.state != "failed" for one in steps)
        print_json(Diagnosis(site=job.site.name, ok=is_ok, steps=objects), indent=2)
    return exit_code(steps)


def _planned(job: JobSpec) -> tuple[Plan, str]:
    plan = job.plan()
    for text in job.warnings(plan):
        warn(text)
    return plan, job.render(plan, cache_dir())


def _described(plan: Plan, prepared: Prepared) -> str:
    text = f"{amount_of(prepared)} would be sent"
    if plan.script is not None:
        is_sent = str(PurePosixPath(plan.script)) in prepared.submission.content.entries
        text += f", {'including' if is_sent else 'but not'} {plan.script}"
    return "; ".join(filter(None, [text, prepared.submission.files.secrets_notice()]))


def _lines(step: Step, style: Callable[..., str], width: int | None) -> str:
    """The state, the name and the fact in columns, and the hint below the fact."""
    head = f"{style(f'{step.state:{_WIDTH}}', fg=COLORS[step.state])}  {step.name:{_NAME_WIDTH}}  "
    indent = " " * (_WIDTH + _NAME_WIDTH + 4)
    texts = [visible(text) for text in (step.fact, *step.hint.splitlines())]
    room = max((width or 0) - len(indent), 20)
    lines = texts if width is None else [line for text in texts for line in wrapped(text, room)]
    return head + f"\n{indent}".join(lines)
