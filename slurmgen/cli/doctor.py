"""`slurmgen doctor`: check step by step that one could submit."""

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.options import Asked, JobCommand, project_size_option, request_options, send_option
from slurmgen.cli.route_options import reach, route_options
from slurmgen.cli.submit_output import amount_of

if TYPE_CHECKING:
    from slurmgen.doctor import Step
    from slurmgen.jobs.submit import Prepared
    from slurmgen.plan import Plan

COLORS = {"ok": "green", "warning": "yellow", "failed": "red", "not checked": "yellow"}
_WIDTH, _NAME_WIDTH = 11, 15


@click.command(cls=JobCommand)
@request_options
@route_options
@click.option("--remote-dir", metavar="FOLDER", help="Remote folder for submissions; default: ~/slurmgen.")
@project_size_option
@send_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    asked: Asked, remote_dir: str | None, max_size: int, send: tuple[str, ...], as_json: bool, **said: Any
) -> int:
    """Check step by step that one could submit.

    With one login, from the project's files and the host's name to what Slurm says of the job; nothing is
    sent or submitted. Exit 0 if all is well, 2 if the request or the project is wrong, 3 if the remote
    host is not ready.
    """
    from contextlib import closing

    from slurmgen.doctor import examine, exit_code
    from slurmgen.doctor.visit import Visit
    from slurmgen.jobs.submit import DEFAULT_REMOTE_DIR, prepare
    from slurmgen.remote.route import find_route

    way = find_route(asked.site, asked.personal, **said)
    folder = remote_dir or asked.personal.remote_dir or DEFAULT_REMOTE_DIR
    visit = Visit(
        way,
        open=lambda: reach(way),
        plan=lambda: _planned(asked),
        prepare=lambda plan, text: _described(
            plan, prepare(plan, text, way, asked.project_dir, folder, max_size, send)
        ),
        remote_dir=folder,
        project=asked.project_dir.resolve().name,
    )
    steps = []
    with closing(visit):
        for step in examine(visit):
            steps.append(step)
            if not as_json:
                _show(step)
    if as_json:
        click.echo(_json(asked.site.name, steps), nl=False)
    return exit_code(steps)


def _planned(asked: Asked) -> "tuple[Plan, str]":
    plan = asked.plan()
    return plan, asked.text(plan)


def _described(plan: "Plan", prepared: "Prepared") -> str:
    sent = f"{amount_of(prepared)} would be sent"
    is_sent = str(PurePosixPath(plan.script)) in prepared.submission.content.entries
    script = f", {plan.script} among them" if is_sent else f"; {plan.script} is none of them"
    return "; ".join(filter(None, [sent + script, prepared.submission.files.secrets_notice()]))


def _show(step: "Step") -> None:
    """One line, as soon as it is known; and below it what to do."""
    from slurmgen.text import visible

    color = None if os.environ.get("NO_COLOR") else COLORS[step.state]
    state = click.style(f"{step.state:{_WIDTH}}", fg=color) if color else f"{step.state:{_WIDTH}}"
    click.echo(f"{state}  {step.name:{_NAME_WIDTH}}  {visible(step.said)}")
    for line in step.hint.splitlines():
        click.echo(f"{'':{_WIDTH}}  {'':{_NAME_WIDTH}}  {visible(line)}")


def _json(site: str, steps: "list[Step]") -> str:
    from slurmgen.text import visible_json

    shown = [
        {"step": one.name, "state": one.state, "said": one.said, "hint": one.hint or None} for one in steps
    ]
    return visible_json(
        {"site": site, "ok": all(one.state != "failed" for one in steps), "steps": shown}, indent=2
    )
