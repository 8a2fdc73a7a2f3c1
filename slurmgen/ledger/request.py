"""What was asked for, as the ledger keeps it: enough to make the same job again, without secrets.

`recorded` writes the text of `Record.request`, `recorded_request` reads it, and `spec_again` makes the job.
A request is kept complete, so that neither slurmgen.toml nor personal.toml is needed to make it again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json, structs

from slurmgen.config.project import Project, find_project, own_templates
from slurmgen.config.user import load_personal
from slurmgen.errors import ConfigError, RequestError
from slurmgen.job_spec import JobOptions, JobSpec, command_again, load_spec
from slurmgen.ledger.ledger import Record
from slurmgen.request.model import Request, merge
from slurmgen.secret_names import in_clear
from slurmgen.sites.profiles import load_site
from slurmgen.text import listed, script_name

UNCHANGED = Request()


class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as it was asked for."""

    site: str
    project: str
    "The folder of the project, as a full path."
    job: str | None = None
    "The job of slurmgen.toml."
    request: Request = Request()
    "Complete: slurmgen.toml, the options and personal.toml, on this site."
    options: Request = Request()
    "What the caller gave; on another site, it counts on top of slurmgen.toml again."
    replace_args: bool = False
    "Whether the options replaced the arguments of slurmgen.toml."
    files: dict[str, str] = {}
    "The file that a field of the request comes from, if it is not an option."
    secrets: tuple[str, ...] = ()
    "Variables whose values are not kept."
    send: tuple[str, ...] = ()
    "Files that were sent although they may hold secrets or are ignored."
    resubmits: str = ""
    "The key of the job that this one was made from by `slurmgen resubmit`."
    after: tuple[str, ...] = ()
    "The jobs that had to end first, each `TYPE:ID`."
    batch_script: str = ""
    "Of a batch script that was submitted as it is, its path in the project; the request is then empty."


def recorded(spec: JobSpec, send: Sequence[str] = (), resubmits: str = "") -> str:
    """The text for `Record.request`; empty if a value is not valid UTF-8.

    Args:
        spec: the job; of one that excludes remembered bad nodes, the job before that counts.
        send: the files that were named with --send.
        resubmits: the key of the job that this one repeats.
    """
    asked = spec.on_all_nodes or spec
    secrets = tuple(name for name, value in asked.request.env.items() if in_clear(name, value))
    kept = Recorded(
        site=asked.site.name,
        project=str(asked.project_dir.resolve()),
        job=asked.name,
        request=_without(asked.request, secrets),
        options=_without(asked.options.request, secrets),
        replace_args=asked.options.replace_args,
        files=asked.files,
        secrets=secrets,
        send=tuple(send),
        resubmits=resubmits,
    )
    return text_of(kept)


def text_of(kept: Recorded) -> str:
    """The text for `Record.request`; empty if a value is not valid UTF-8."""
    try:
        return json.encode(kept).decode()
    except UnicodeEncodeError:
        return ""


def _without(request: Request, secrets: Sequence[str]) -> Request:
    env = {name: value for name, value in request.env.items() if name not in secrets}
    return structs.replace(request, env=env)


def recorded_request(record: Record) -> Recorded:
    """What the job of a record was asked for.

    Raises:
        RequestError: it is a batch script, or as for `kept_of`.
    """
    kept = kept_of(record)
    if kept.batch_script:
        raise RequestError(
            f"job {record.id or record.name} is the batch script {kept.batch_script}, as it is",
            "It has no request of slurmgen.",
        )
    return kept


def kept_of(record: Record) -> Recorded:
    """What the ledger keeps of a job, or of a batch script that was submitted as it is.

    Raises:
        RequestError: the record has no request, or one of another version of slurmgen.
    """
    if not record.request:
        raise RequestError(
            f"the request of job {record.id or record.name} is not recorded",
            f"Repeat its command: {record.command}" if record.command else "Use `slurmgen submit`.",
        )
    try:
        return json.decode(record.request, type=Recorded)
    except DecodeError as error:
        raise RequestError(
            f"the recorded request of job {record.id or record.name} cannot be read: {error}",
            "Another version of slurmgen wrote it; use that one, or `slurmgen submit`.",
        ) from None


def spec_again(kept: Recorded, changes: Request = UNCHANGED) -> JobSpec:
    """The same job on the same site, with changes; slurmgen.toml does not count, the profile does.

    Args:
        changes: fields that overrule it, as in `merge`: `env` and `sbatch` are merged key by key, and
            `script_args` replace those of the record.

    Raises:
        RequestError: the value of a secret is missing.
        ConfigError: the profile of the site or personal.toml is wrong, or is gone.
    """
    _require_secrets(kept, changes.env)
    project_dir = Path(kept.project)
    replace_args = kept.replace_args or changes.script_args is not None
    asked = merge(kept.options, changes)
    options = JobOptions(job=kept.job, site=kept.site, request=asked, replace_args=replace_args)
    request, site = merge(kept.request, changes), load_site(kept.site, project_dir)
    return JobSpec(
        request=request,
        site=site,
        personal=load_personal(site.name),
        project_dir=project_dir,
        project=Project(),
        template_dir=_templates(project_dir),
        files={key: file for key, file in kept.files.items() if not _is_changed(key, changes)},
        command=command_again(site.name, options, request),
        name=kept.job,
        options=options,
        is_recorded=True,
    )


def spec_at(kept: Recorded, site: str, changes: Request = UNCHANGED) -> JobSpec:
    """The same job at another site: the options of that time and changes, on the present slurmgen.toml.

    What slurmgen.toml and personal.toml had for the first site does not fit another one.

    Raises:
        RequestError: the project or the job is gone, or the value of a secret is missing.
        ConfigError: slurmgen.toml, personal.toml or the site's profile is wrong.
    """
    if not Path(kept.project).is_dir():
        raise RequestError(
            f"the project is gone: there is no folder {kept.project}", f"Leave out --site {site}."
        )
    replace_args = kept.replace_args or changes.script_args is not None
    options = JobOptions(
        job=kept.job, site=site, request=merge(kept.options, changes), replace_args=replace_args
    )
    spec = load_spec(options, Path(kept.project))
    _require_secrets(kept, spec.request.env)
    return spec


def script_file(record: Record) -> str:
    """The path of the batch script in the run folder of a job."""
    with suppress(RequestError):
        return kept_of(record).batch_script or script_name(record.name)
    return script_name(record.name)


def resubmits(record: Record) -> str:
    """The key of the job that a record resubmits; empty if it is not a resubmission, or cannot be read."""
    with suppress(RequestError):
        return kept_of(record).resubmits
    return ""


def _require_secrets(kept: Recorded, env: Mapping[str, str]) -> None:
    missing = [name for name in kept.secrets if name not in env]
    if missing:
        raise RequestError(
            f"the values of secrets are not recorded: {listed(missing)}",
            f"Give each again, as in --env {missing[0]}=...",
        )


def _is_changed(key: str, changes: Request) -> bool:
    """Whether changes overrule a field, or one variable or sbatch option of it, as in `env.NAME`."""
    field, _, name = key.partition(".")
    value = getattr(changes, field)
    return name in (value or ()) if name else value is not None


def _templates(project_dir: Path) -> Path | None:
    """The project's own templates as they are now; none if the project is gone from this machine."""
    try:
        return own_templates(*find_project(project_dir))
    except ConfigError:
        if project_dir.exists():
            raise
        return None
