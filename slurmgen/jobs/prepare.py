"""Preparing a submission without a connection: the files, the script, and the entry for the ledger."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.config.project import FILE_NAME
from slurmgen.jobs import dependencies, sweep_table
from slurmgen.jobs.dependencies import Dependency
from slurmgen.jobs.exactly_once import Submission
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.log_paths import logs_in
from slurmgen.jobs.new_entry import hash_of, new_key, pending_record
from slurmgen.jobs.project_content import (
    DEFAULT_UPLOAD,
    ProjectContent,
    Upload,
    project_content,
    stored_content,
)
from slurmgen.jobs.secret_values import Wanted
from slurmgen.paths import cache_folder
from slurmgen.plan import Plan, bad_nodes
from slurmgen.remote.route import Route
from slurmgen.slurm.dependencies import After
from slurmgen.sync.delta import Parcel
from slurmgen.sync.files import Snapshot
from slurmgen.sync.manifest import Manifest, Sent
from slurmgen.sync.needed_files import needed_files
from slurmgen.sync.project_files import project_files, with_preflight
from slurmgen.sync.shared_env import with_environment

_NAMES = re.compile(r"""(?:\./)?([^\s'"=;:|&<>()`]+)""")
"The words in a line of shell that may name a project file."


class Prepared(Struct, frozen=True):
    """A job that is ready to be sent, and its entry for the ledger."""

    submission: Submission
    route: Route
    record: Record
    sent: Sent
    "What was sent to the same folder before."
    first: Parcel
    "The files to send, judged by that."
    refusals: dict[str, str] = {}
    "What to do when Slurm refuses the job, by a part of the message."
    after: tuple[Dependency, ...] = ()
    "The jobs that must end first."
    needs: tuple[tuple[int, str], ...] = ()
    "Those of the same group that must end first, by their place in it, and how they must end."
    secrets: Wanted = Wanted()
    "Their values are added when the job is submitted."
    one_key: bool = False
    "Whether it is given up if its key is closed; else it then gets a new one."


def prepare(
    plan: Plan,
    script: str,
    route: Route,
    project_dir: Path,
    upload: Upload = DEFAULT_UPLOAD,
    identity: str | None = None,
) -> Prepared:
    """Read the project, and make all that a submission needs. It connects to no host.

    Args:
        plan: the plan.
        script: the text of its batch script.
        route: how to reach the site.
        project_dir: the folder to send.
        upload: what is sent of that folder, and where to.
        identity: the text by which a repeated submission is found; default: that of the script.

    Raises:
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    find = partial(_files, plan, project_dir, upload.send)
    content = project_content(plan.profile, route, project_dir, upload, find)
    return _prepared(plan, script, route, project_dir, content, identity or script)


def prepare_stored(
    plan: Plan, script: str, route: Route, project_dir: Path, earlier: Record, identity: str
) -> Prepared:
    """Make all that a submission needs that runs the files of an earlier job, which the cluster still has.

    Args:
        plan: the plan.
        script: the text of its batch script.
        route: how to reach the site of that job.
        project_dir: the folder of the project, which is not read.
        earlier: that job.
        identity: the text by which a repeated submission is found.
    """
    return _prepared(plan, script, route, project_dir, stored_content(earlier), identity)


def _prepared(
    plan: Plan, script: str, route: Route, project_dir: Path, content: ProjectContent, identity: str
) -> Prepared:
    made = _submission(plan, script, content)
    record = structs.replace(
        pending_record(made, route, project_dir, content.commit, identity),
        stderr=_options(plan).get("error", ""),
        retries=plan.request.on_bad_node == "retry",
        requeue=plan.requeue,
        tasks=sweep_table.as_text(plan.sweep),
    )
    refusals = plan.profile.refusals | bad_nodes.refusals(plan.request)
    secrets = _secrets(plan, project_dir)
    return Prepared(made, route, record, content.sent, content.first, refusals, secrets=secrets)


def _secrets(plan: Plan, project_dir: Path) -> Wanted:
    names = plan.request.secrets or ()
    by_project = tuple(name for name in names if plan.files.get(f"secrets.{name}") == FILE_NAME)
    return Wanted(names, by_project, str(project_dir.resolve()))


def dependent(prepared: Prepared, afters: Sequence[After]) -> Prepared:
    """The same job, which starts after others.

    A repeated submission is found by their names, because `last` may mean another job then.

    Raises:
        RequestError: there is no such job, or it cannot be waited for.
    """
    if not afters:
        return prepared
    fingerprint = hash_of(prepared.record.fingerprint, *(one.text for one in afters))
    record = structs.replace(prepared.record, fingerprint=fingerprint)
    return structs.replace(prepared, record=record, after=dependencies.find(record, afters))


def _submission(plan: Plan, script: str, content: ProjectContent) -> Submission:
    options = _options(plan)
    return Submission(
        name=plan.name,
        script=script,
        files=content.files,
        content=content.content,
        parent=content.parent,
        key=new_key(),
        output=plan.output,
        comment=options.get("comment", ""),
        clusters=options.get("clusters", ""),
        login_script=plan.login_script,
        login_hash=_login_hash(plan, content.content),
        is_stored=content.is_stored,
    )


def _login_hash(plan: Plan, content: Manifest) -> str:
    """The name of what runs on the login node: by its text and the project files that its lines name."""
    words = {word for line in plan.request.before_login or () for word in _NAMES.findall(line)}
    named = sorted(words & content.entries.keys())
    files = [text for name in named for text in (name, content.entries[name].content)]
    return hash_of(plan.login_script, *files) if plan.login_script else ""


def _options(plan: Plan) -> dict[str, str]:
    """The further directives, without the quotes that a blank in a value needs."""
    return {key: (value or "").strip('"') for key, value in plan.extra_directives}


def _files(plan: Plan, project_dir: Path, send: tuple[str, ...]) -> Snapshot:
    setup = plan.setup
    logs = logs_in(project_dir, Ledger().with_logs_elsewhere())
    files = project_files(project_dir, needed_files(plan), send, logs)
    files = with_preflight(files) if plan.preflight else files
    return with_environment(files, setup.python_env, setup.modules, cache_folder() / "environments")
