"""`slurmgen sites new` and `sites discover`: profiles from answers and from what a cluster reports."""

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from getpass import getuser
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
from msgspec import ValidationError, convert

from slurmgen.cli.objects import Compared, DiscoveredProfile, NewProfile, ProbeJob, ProfileDifference
from slurmgen.cli.options import (
    complete_hosts,
    complete_sites,
    connect,
    json_option,
    not_empty,
    project_dir,
    route_options,
    shown,
    site_route,
    write_new,
)
from slurmgen.cli.output import Command, answered, can_answer, print_json, printable, say
from slurmgen.config.user import Personal, load_personal
from slurmgen.errors import CommandFailed, RequestError
from slurmgen.ledger.ledger import Record
from slurmgen.plan import Plan
from slurmgen.remote.route import Route, find_route
from slurmgen.remote.transport import Transport
from slurmgen.sites.discover.compare import command_name, corrected, differences, profile_text
from slurmgen.sites.discover.probe import SCRIPT_NAME, script, with_probe
from slurmgen.sites.discover.profile import NAME, Discovery, cluster_name, discover
from slurmgen.sites.discover.query import QUERY, answers
from slurmgen.sites.model import Address, Site
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
from slurmgen.sites.profiles import load_site, profile_errors, profile_paths
from slurmgen.submit.probe import batch_script, prepare_probe, probe_plan, read_report, submit_probe, unread
from slurmgen.text import counted, visible

_OPTIONS = [
    click.option("--probe", is_flag=True, help="Submit a one-minute job that looks at a compute node."),
    click.option("--yes", is_flag=True, help="Submit the job of --probe without a prompt."),
    click.option("--dry-run", is_flag=True, help="Print the job of --probe; submit nothing."),
    click.option("--account", metavar="NAME", help="Account of the job of --probe."),
    click.option("--partition", metavar="NAME", help="Partition of the job of --probe."),
    click.option("--qos", metavar="NAME", help="QoS of the job of --probe."),
    click.option("--gpu-type", metavar="TYPE", help="GPU type of the job of --probe."),
]


_OF_PROBE = ("yes", "dry_run", "account", "partition", "qos", "gpu_type")


def probe_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of --probe; it receives them as `probe`, None without --probe."""

    def gathered(*args: Any, probe: bool, **options: Any) -> Any:
        values = {name: options.pop(name) for name in _OF_PROBE}
        if not probe and any(values.values()):
            option = next(name for name, value in values.items() if value)
            raise click.UsageError(f"--{option.replace('_', '-')} needs --probe.")
        return function(*args, probe=values if probe else None, **options)

    gathered.__doc__ = function.__doc__
    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def probed(
    options: dict[str, Any],
    transport: Transport,
    route: Route,
    found: Discovery,
    site: Site,
    *,
    as_json: bool = False,
) -> Discovery:
    """The discovery with the report of a probe job, which is submitted unless an earlier one is unread.

    Raises:
        RemoteError: the job was not submitted, or there is no report.
    """
    own = load_personal(route.site)
    request = {name: options[name] for name in ("partition", "qos", "gpu_type")}
    plan = probe_plan(site, options["account"] or own.account, **request)
    if options["dry_run"]:
        _show(plan, as_json)
        return found
    earlier = unread(transport, route)
    if earlier:
        say(f"the report of job {earlier.id}, an earlier --probe, is unread")
        return with_probe(found, read_report(transport, earlier, _wait_for))
    if not (options["yes"] or _is_confirmed(plan, transport.where)):
        say("no job was submitted")
        return found
    prepared = prepare_probe(plan, route, own.remote_dir)
    return with_probe(found, submit_probe(transport, prepared, _wait_for))


def _show(plan: Plan, as_json: bool) -> None:
    if as_json:
        print_json(ProbeJob(script=batch_script(plan), program=script()))
    else:
        click.echo(f"{batch_script(plan)}\n# {SCRIPT_NAME}:\n{script()}", nl=False)


def _is_confirmed(plan: Plan, where: str) -> bool:
    """Ask before a job is submitted, which may cost something.

    Raises:
        click.UsageError: there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("--probe submits a job: confirm it with --yes, or see it with --dry-run.")
    partition = f" in partition {plan.place.partitions[0]}" if plan.place.partitions else ""
    text = f"Submit a one-minute job with {counted(plan.world_size, 'GPU')}{partition} on {where}?"
    return click.confirm(visible(text), err=True)


def _wait_for(record: Record) -> None:
    say(f"job {record.id} is submitted; waiting for its report")
    say("^C leaves the job running, and the same command then reads its report")


_TIMEOUT = 120


@click.command(
    "discover",
    cls=Command,
    examples={
        "slurmgen sites discover login.example.org --output site_profiles/example.toml": (
            "Write a profile of a cluster"
        ),
        "slurmgen sites discover --diff daic --via ssh": "Compare a profile with its cluster",
        "slurmgen sites discover login.example.org --probe": "Let a one-minute job look at a node too",
    },
)
@click.argument(
    "login_host", metavar="[HOST]", required=False, callback=not_empty, shell_complete=complete_hosts
)
@click.option(
    "--name", metavar="NAME", help="Name of the site; default: that of FILE, else Slurm's ClusterName."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the profile to a new file; default: print it.",
)
@click.option(
    "--diff",
    "diff",
    metavar="SITE",
    shell_complete=complete_sites,
    help="Compare with a profile; exit with 1 if a fact differs.",
)
@route_options
@json_option
@probe_options
def discover_command(
    login_host: str | None,
    name: str | None,
    output: Path | None,
    diff: str | None,
    probe: dict[str, Any] | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Print a site profile from what Slurm on a login node reports, or write it to a file.

    It queries HOST; without HOST this machine, or with --diff the login host of SITE. It runs five commands
    of Slurm and submits nothing. Each fact names its command and the date; what Slurm cannot know is listed.

    --probe then submits a job of one minute, after a prompt. It reports network interfaces, the links of
    GPUs, what each task sees, and whether the internet is reached. If it is interrupted, the same command
    reads the report of that job.
    """
    if login_host and options["host"]:
        raise click.UsageError("HOST and --host name the login host twice.")
    if diff and (name or output):
        raise click.UsageError("--diff writes no profile: leave --name and --output out.")
    if options["via"] == "twin" and not (diff or name):
        raise click.UsageError("--via twin needs --diff SITE, or --name SITE.")
    name = name or (output.stem if output else None)
    _check_name(name, "--name")
    if output is not None and os.path.lexists(output):
        raise RequestError(f"{output} cannot be written: File exists", "Name a new file.")
    host = login_host or options.pop("host", None)
    options["host"] = host
    route = _route(diff, name, options)
    with connect(route) as transport:
        found, cluster = _query(transport, host)
        if probe:
            site = _site(found, diff, name or cluster)
            found = probed(probe, transport, route, found, site, as_json=as_json)
    if probe and probe["dry_run"]:
        return 0
    if diff:
        return _compare(diff, found, options["via"], as_json)
    return _write(found, name or cluster, output, as_json)


def _check_name(name: str | None, option: str) -> None:
    if name is not None and not NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not a valid name of a site: use letters, digits and _ . + -.", param_hint=option
        )


def _route(diff: str | None, name: str | None, options: dict[str, Any]) -> Route:
    if diff:
        return site_route(options, diff)
    return find_route(Site(name=name or "discover"), Personal(), **options)


def _site(found: Discovery, diff: str | None, name: str) -> Site:
    """The profile for the probe job: --diff corrected by the cluster, or else the discovered one."""
    return (
        corrected(load_site(diff, project_dir()), found)
        if diff
        else convert(tomllib.loads(profile_text(found, name, _today())), Site)
    )


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _query(transport: Transport, host: str | None) -> tuple[Discovery, str]:
    """What the cluster reports, and the name that Slurm gives it.

    Raises:
        CommandFailed: there is no Slurm.
    """
    # Not as an argument: csh cannot read its line feeds.
    reply = transport.run([*transport.shell, "exec sh"], input=QUERY.encode(), timeout=_TIMEOUT)
    replies = answers(reply.stdout)
    if not any(answer.succeeded for command, answer in replies.items() if command.startswith("scontrol")):
        output = "".join(answer.output for answer in replies.values()) or reply.err
        last = next(filter(None, output.splitlines()), f"exit status {reply.returncode}")
        raise CommandFailed(
            f"no description of a cluster on {transport.where}: {last}",
            "Run this on a login node, or name the login host.",
        )
    return discover(replies, host), cluster_name(replies)


def _compare(name: str, found: Discovery, via: str | None, as_json: bool) -> int:
    wrong = list(differences(load_site(name, project_dir()), found, all_types=via != "twin"))
    for command in found.failed:
        click.echo(f"not compared: `{command}` failed on the cluster", err=True)
    if as_json:
        objects = [ProfileDifference(**one._asdict()) for one in wrong]
        print_json(Compared(site=name, differences=objects, failed=[*found.failed]), indent=2)
    for one in wrong if not as_json else ():
        click.echo(visible(f"{one.key}: {one.profile} in the profile, {one.cluster} on the cluster"))
    if not wrong:
        click.echo(f"the profile of {name} agrees with the cluster", err=True)
    return 1 if wrong else 0


def _write(found: Discovery, name: str, output: Path | None, as_json: bool) -> int:
    text = profile_text(found, name, _today())
    if output is not None:
        write_new(output, text)
        click.echo(f"wrote {output}: check it with `slurmgen sites validate {output}`", err=True)
    if as_json:
        path, unknown = (str(output) if output else None), [*found.unknown]
        print_json(DiscoveredProfile(name=name, path=path, profile=text, unknown=unknown), indent=2)
    elif output is None:
        click.echo(text, nl=False)
    return 0


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
def new_command(
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
    if can_answer():
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


new_command.help = (
    f"{cleandoc(new_command.help or '')}\n\nThe order of the answers: {_order()}. "
    "Those of given options, and what the cluster reports, are left out."
)


def _address(text: str) -> str:
    """The address of a page, so that no answer to another question becomes a source.

    Raises:
        ValueError: it is not an address.
    """
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
    _check_name(name, "NAME")
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
        for key in ("via", "host", "ssh_client"):
            if options[key]:
                raise click.UsageError(f"--{key.replace('_', '-')} needs --from-discover.")
        return {}, []
    if from_discover != _HERE:
        if options["host"]:
            raise click.UsageError("--from-discover and --host name the login host twice.")
        options["host"] = from_discover
    with connect(_route(None, name, options)) as transport:
        found, _ = _query(transport, options["host"])
    facts = {
        fact.keys: Stated(
            fact.keys, fact.value, DISCOVERED, f"seen {_today()} by {command_name(fact.command)}"
        )
        for fact in found.facts
    }
    return facts, [f"Slurm does not report {text}" for text in found.unknown]


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
    try:
        return getuser()
    except (KeyError, OSError):  # the user id has no name
        return "an unnamed user"


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
