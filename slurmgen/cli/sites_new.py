"""`slurmgen sites new`: write a commented profile from answers, or from what a cluster reports."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from slurmgen.cli.answers import answered, is_terminal, printable
from slurmgen.cli.discover import discover_cluster
from slurmgen.cli.objects import NewProfile
from slurmgen.cli.options import complete_hosts, json_option, project_dir, route_options, shown, write_new
from slurmgen.cli.output import Command, print_json
from slurmgen.errors import RequestError
from slurmgen.sites.discover.compare import command_name
from slurmgen.sites.discover.profile import NAME
from slurmgen.sites.model import Address
from slurmgen.sites.new import (
    DISCOVERED,
    QUESTIONS,
    Facts,
    Keys,
    Question,
    Stated,
    new_faults,
    new_profile,
)
from slurmgen.sites.profiles import profile_errors, profile_paths
from slurmgen.text import visible

_HERE = "."
"The value of --from-discover without a host."
_REMARK = "What else the scheduler requires or refuses, in a line"
_PAGE = "Address of the documentation page with these facts"


def _question_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for question in reversed(QUESTIONS):
        option = click.option(f"--{question.name}", metavar=question.metavar, help=f"{question.text}.")
        function = option(function)
    return function


@click.command(
    "new",
    cls=Command,
    examples={
        "slurmgen sites new mycluster": "Answer questions about a cluster",
        "slurmgen sites new mycluster --from-discover login.example.org": "Read first what Slurm reports",
        "slurmgen sites new mycluster --partition gpu --gpus-per-node 4": "Give some answers as options",
    },
)
@click.argument("name")
@click.option(
    "--from-discover",
    metavar="[HOST]",
    is_flag=False,
    flag_value=_HERE,
    shell_complete=complete_hosts,
    help="First read what Slurm on the login node HOST reports; without HOST, on this machine.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The new file; default: site_profiles/NAME.toml in the project.",
)
@_question_options
@click.option("--remark", metavar="TEXT", help=f"{_REMARK}.")
@click.option("--page", metavar="URL", help=f"{_PAGE}.")
@route_options
@json_option
def command(
    name: str,
    from_discover: str | None,
    output: Path | None,
    remark: str | None,
    page: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a commented profile of a new site.

    It asks for the facts that no option states; an empty answer leaves a fact unknown. Without a terminal it
    reads the answers from stdin, a line each. Unknown facts are in the file as comments with the question. An
    existing file is never overwritten.
    """
    project = project_dir()
    path = _new_path(name, output, project)
    given = {question.name: options.pop(question.name.replace("-", "_")) for question in QUESTIONS}
    found, remarks = _discover(name, from_discover, options)
    if is_terminal():
        required = " and ".join(question.text for question in QUESTIONS if question.required)
        click.echo(f"Press Enter where you do not know an answer. Required: {required}.", err=True)
    facts = _ask_all(name, given, {keys: fact.value for keys, fact in found.items()})
    remark = answered(_REMARK, "--remark", remark, printable)
    page = answered(_PAGE, "--page", page, _address)
    remarks += [f"Scheduler: {remark}"] if remark else []
    write_new(path, new_profile(name, facts, found, remarks, _user(), _today(), page))
    click.echo(visible(f"wrote {shown(path)}"), err=True)
    errors = _print_next_steps(name, path, project)
    if as_json:
        print_json(NewProfile(name=name, path=shown(path), errors=errors))


def _order() -> str:
    names = [*(question.name for question in QUESTIONS), "remark", "page"]
    return ", ".join(f"{number} {name}" for number, name in enumerate(names, 1))


command.help = (
    f"{cleandoc(command.help or '')}\n\nThe order of the answers: {_order()}. "
    "Those of given options, and what the cluster reports, are left out."
)


def _address(text: str) -> str:
    """The address of a page, so that no answer to another question becomes a source.

    Raises:
        ValueError: it is not an address.
    """
    from msgspec import ValidationError, convert

    try:
        return convert(printable(text), Address)
    except ValidationError:
        raise ValueError(f"{text!r} is not an address that begins with https:// or http://") from None


def _new_path(name: str, output: Path | None, project: Path) -> Path:
    """The path of the new profile.

    Raises:
        UsageError: the name is not valid, or not that of the file.
        RequestError: there is such a site.
    """
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not a valid name of a site: use letters, digits and _ . + -.", param_hint="NAME"
        )
    if output and output.name != f"{name}.toml":
        raise click.BadParameter(
            f"a profile is found by its file name; call it {name}.toml.", param_hint="--output"
        )
    path = output.absolute() if output else project / "site_profiles" / f"{name}.toml"
    known = profile_paths(project).get(name)
    if known:
        other = f'write {shown(path)} with `extends = "{name}"` to change some facts'
        hint = "edit that file" if known == path else other
        raise RequestError(
            f"site {name!r} exists already: {shown(known)}", f"Choose another name, or {hint}."
        )
    if os.path.lexists(path):
        raise RequestError(f"{shown(path)} exists already", "Choose another name, or edit that file.")
    return path


def _discover(
    name: str, from_discover: str | None, options: dict[str, Any]
) -> tuple[dict[Keys, Stated], list[str]]:
    if from_discover is None:
        _refuse_route(options)
        return {}, []
    if from_discover != _HERE:
        if options["host"]:
            raise click.UsageError("--from-discover and --host name the login host twice.")
        options["host"] = from_discover
    found = discover_cluster(name, options)
    facts = {
        fact.keys: Stated(
            fact.keys, fact.value, DISCOVERED, f"seen {_today()} by {command_name(fact.command)}"
        )
        for fact in found.facts
    }
    return facts, [f"Slurm does not report {text}" for text in found.unknown]


def _refuse_route(options: dict[str, Any]) -> None:
    given = [key for key in ("via", "host", "ssh_client") if options[key]]
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --from-discover.")


def _ask_all(name: str, given: Mapping[str, str | None], known: Facts) -> Facts:
    """The known facts and the answers; an option takes precedence over a known fact."""
    facts = dict(known)
    for question in QUESTIONS:
        answer = given[question.name]
        if answer is not None or not question.is_answered(known):
            read = partial(_facts_of, question, name, facts)
            option = f"--{question.name}"
            facts |= answered(question.text, option, answer, read, required=question.required) or {}
    return facts


def _facts_of(question: Question, name: str, known: Facts, text: str) -> Facts:
    """The facts of an answer.

    Raises:
        ValueError: it is wrong.
    """
    facts = question.facts(text, known)
    if faults := new_faults(name, known, facts):
        raise ValueError(faults[0])
    return facts


def _user() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # the user id has no name
        return "an unnamed user"


def _today() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).date().isoformat()


def _print_next_steps(name: str, path: Path, project: Path) -> list[str]:
    errors = [str(error) for error in profile_errors(path, project)]
    for error in errors:
        click.echo(visible(f"error: {error}", keep="\n"), err=True)
    steps = {
        f"$EDITOR {shown(path)}": "answer the lines that begin with `# ?`",
        f"slurmgen sites validate --strict {shown(path)}": "errors and contradictions",
        f"slurmgen sites test {name} --twin": "six jobs, on a twin of the site",
        f"slurmgen doctor --site {name}": "the connection, and Slurm there",
    }
    width = max(map(len, steps))
    lines = [f"  {step:{width}}  # {why}" for step, why in steps.items()]
    click.echo(visible("\n".join(["Next:", *lines]), keep="\n"), err=True)
    return errors
