"""Which files of a project are sent."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from slurmgen import python_env
from slurmgen.errors import Hint, RequestError, TransferFailed, offered, option
from slurmgen.files import FOLDER, PREFLIGHT, REPLACED, bundled, is_bundled, read_bytes
from slurmgen.slurm.shell import is_full_path, variables_in
from slurmgen.sync.ignore import IGNORE_FILES, Chain, Patterns, chain_above, chain_in, ignored
from slurmgen.text import counted, listed, visible

if TYPE_CHECKING:
    from slurmgen.plan import Plan

_NAMED = 10
"Files that cannot be sent and are named one by one."
_LONGEST = 300


class Snapshot(Struct, frozen=True):
    """Files by their names in the remote folder, and which were left out and why."""

    files: dict[str, str]
    "The path of each. A Path takes longer to make than its file to find."
    notices: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    "The kind of secret in each file and folder that is left out; the name of a folder ends in a slash."

    def statuses(self) -> dict[str, os.stat_result]:
        """The status of each file, by lstat."""
        with readable():
            return {name: os.lstat(path) for name, path in self.files.items()}

    def over(self, other: "Snapshot") -> "Snapshot":
        """Both together; this snapshot's file counts if both have the name."""
        files, secrets = {**other.files, **self.files}, {**other.secrets, **self.secrets}
        return Snapshot(files, self.notices + other.notices, secrets)

    def under(self, folder: str) -> "Snapshot":
        """The same files in a folder."""
        files = {f"{folder}/{name}": path for name, path in self.files.items()}
        return Snapshot(
            files, self.notices, {f"{folder}/{name}": what for name, what in self.secrets.items()}
        )

    def secrets_notice(self) -> str:
        """Which secrets were left out; empty if none were."""
        if not self.secrets:
            return ""
        names = listed([f"{name} ({what})" for name, what in self.secrets.items()])
        return f"{counted(len(self.secrets), 'possible secret')} not sent: {names}; --send PATH sends a file"


def snapshot(root: Path, send: Collection[str] = (), logs: re.Pattern[str] | None = None) -> Snapshot:
    """The files and links of a project, sorted by name. Empty folders are not sent, as in git.

    Args:
        send: files to send although they hold secrets by their names, or are ignored.
        logs: matches the names of jobs' logs, which are not sent unless an ignore file says so.

    Raises:
        RequestError: an ignore file cannot be used, or an entry of `send` is not a file.
        TransferFailed: a folder or an ignore file cannot be read.
    """
    root = root.resolve()
    with readable():
        found = walk(root, logs)
        named = {_plain(name): _named_file(root, name) for name in send}
        outputs = _outputs()
        reasons = ((name, _unfit(entry, root, outputs)) for name, entry in found.entries.items())
        unfit = {name: reason for name, reason in reasons if reason}
    files = {name: entry.path for name, entry in found.entries.items() if name not in unfit} | named
    return Snapshot(
        {name: files[name] for name in by_bytes(files)},
        (*_unfit_notices(unfit), *_overruled_notices(found.overruled)),
        {name: found.secrets[name] for name in sorted(found.secrets) if name not in named},
    )


def by_bytes(names: Collection[str]) -> list[str]:
    """Names in the order of their bytes, which is that of their characters if all are ASCII."""
    return sorted(names, key=None if all(map(str.isascii, names)) else os.fsencode)


def _plain(name: str) -> str:
    return str(PurePosixPath(name))


def _named_file(root: Path, name: str) -> str:
    path = root / name
    if never := NEVER_SENT.intersection(path.parts[len(root.parts) :]):
        raise RequestError(f"--send {name}: {min(never)} is never sent", "Copy the file to another folder.")
    if os.path.realpath(path) != f"{root}/{_plain(name)}" or not path.is_file():
        raise RequestError(
            f"--send {name}: there is no such file in {root}", "Give its path relative to that folder."
        )
    return str(path)


def _unfit_notices(unfit: Mapping[str, str]) -> list[str]:
    notices = sorted(f"not sent: {name!r}, {reason}" for name, reason in unfit.items())
    more = len(notices) - _NAMED
    return [*notices[:_NAMED], f"not sent: {more} more of that kind"] if more > 0 else notices


def _overruled_notices(names: Collection[str]) -> list[str]:
    if not names:
        return []
    return [f"sent, as .slurmgenignore says, although .gitignore names it: {listed(sorted(names))}"]


def _outputs() -> dict[int, int]:
    """The files that this process writes its output to: the device of each inode."""
    found = {}
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            status = os.fstat(descriptor)
            found[status.st_ino] = status.st_dev
    return found


def _unfit(entry: "os.DirEntry[str]", root: Path, outputs: Mapping[int, int]) -> str | None:
    if entry.is_symlink():
        path = Path(entry.path)
        leads_out = not _stays_inside(path, root)
        return f"a link that leads out of the project to {link_target(path)!r}" if leads_out else None
    if not entry.is_file(follow_symlinks=False):
        return "neither a file nor a link"
    is_output = entry.inode() in outputs and entry.stat().st_dev == outputs[entry.inode()]
    return "the output of this command" if is_output else None


def _stays_inside(link: Path, root: Path) -> bool:
    """Whether a link stays in the project, as written and when followed, and so works on the remote host."""
    written = Path(os.path.normpath(link.parent / link_target(link)))
    return written.is_relative_to(root) and Path(os.path.realpath(link)).is_relative_to(root)


def link_target(link: Path) -> str:
    """The target of a link, relative to its folder."""
    target = link.readlink()
    return os.path.relpath(target, link.parent) if target.is_absolute() else str(target)


@contextmanager
def readable() -> Iterator[None]:
    """Report a file that cannot be read, as a TransferFailed."""
    try:
        yield
    except OSError as error:
        name = visible(os.fsdecode(error.filename or "a file"))
        short = name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"
        raise TransferFailed(
            f"cannot read {short}: {error.strerror or error}",
            "Correct that, or name the file in .slurmgenignore.",
        ) from None


_IGNORED = (
    "Check its path relative to that folder, and whether a .gitignore or .slurmgenignore leaves it out."
)
_NO_PROJECT = (
    "Write a pyproject.toml (`uv init`), or name another environment with --python-env: the full path of one "
    "on the remote host, or none."
)


class Needed(NamedTuple):
    """A file of the project, by its path in the folder that the job starts in."""

    paths: tuple[str, ...]
    "One of these is enough."
    what: str
    "What it is, for an error."
    cause: str
    "What it is for."
    hint: str
    package: str = ""
    "It is needed only if the project has this package; otherwise it is one of the environment."

    @property
    def path(self) -> str:
        """The first of its paths."""
        return self.paths[0]


def needed_files(plan: "Plan") -> Iterator[Needed]:
    """The files that a job needs; those with a full path are on the remote host."""
    request = plan.request
    for script in filter(None, (plan.script, *plan.later_scripts)):
        if not script.startswith("/"):
            yield of_script(script)
    for module in filter(None, (request.module, *(one.module for one in request.then or ()))):
        yield _of_module(module)
    config = request.launcher_config or "/"
    if not is_full_path(config) and not variables_in(config):
        what = f"the file {config!r} of --launcher-config"
        yield Needed((_plain(config.replace("$$", "$")),), what, "the launcher reads", _IGNORED)
    for path in map(_plain, python_env.needed_files(plan.setup.python_env)):
        what = f"{path!r}, which the Python environment needs,"
        yield Needed((path,), what, "the Python environment needs", _NO_PROJECT)


def of_script(script: str) -> Needed:
    """A script that a job runs."""
    return Needed((_plain(script),), f"the script {script!r}", "the job runs", _IGNORED)


def of_batch_script(script: str) -> Needed:
    """A batch script of the user's own."""
    return Needed((_plain(script),), f"the batch script {script!r}", "Slurm runs", _IGNORED)


def _of_module(module: str) -> Needed:
    path = module.replace(".", "/")
    hint = (
        f"It is {path}.py or {path}/__main__.py. A module of the environment, whose package the project "
        f'has too, runs with --command "python -m {module}".'
    )
    package = module.partition(".")[0]
    return Needed(
        (f"{path}.py", f"{path}/__main__.py"), f"the module {module!r}", "the job runs", hint, package
    )


def project_files(
    project_dir: Path,
    needed: Iterable[Needed],
    send: tuple[str, ...] = (),
    logs: re.Pattern[str] | None = None,
) -> Snapshot:
    """The project's files, with the bundled training folder if a script is part of it and not of the project.

    Args:
        needed: the files that the job needs.
        send: files that are sent although their names suggest secrets, or they are ignored.
        logs: matches the names of jobs' logs, which are not sent.

    Raises:
        RequestError: one of these files would not be sent, so the job could only fail; the script is one of
            an earlier slurmgen; or the project folder contains the home folder.
    """
    if Path.home().resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"the project folder is {visible(str(project_dir))}, which contains your home folder",
            "Go to the folder of the project, and submit from there.",
        )
    found = snapshot(project_dir, send, logs)
    for one in needed:
        found = _with_bundled(one, found, project_dir)
        _demand(one, found, project_dir)
    return found


def _with_bundled(one: Needed, found: Snapshot, project_dir: Path) -> Snapshot:
    _refuse_replaced(one.path, project_dir)
    if one.path in found.files or not is_bundled(one.path):
        return found
    return found.over(snapshot(bundled(FOLDER)).under(FOLDER))


def with_preflight(files: Snapshot) -> Snapshot:
    """The files with the program that checks nodes, unless the project has a copy of it."""
    if f"{PREFLIGHT}/__main__.py" in files.files:
        return files
    return files.over(snapshot(bundled(PREFLIGHT)).under(PREFLIGHT))


def missing_preflight(plan: "Plan", project_dir: Path) -> list[str]:
    """A message if `sbatch` would not find the program that checks nodes; `submit` sends it."""
    if not plan.request.preflight or (project_dir / PREFLIGHT / "__main__.py").exists():
        return []
    return [f"there is no {PREFLIGHT} in {project_dir}; `slurmgen preflight --copy` makes one for sbatch"]


def missing_files(plan: "Plan", project_dir: Path) -> list[str]:
    """A message for each file of a job that does not exist; `submit` would refuse the job.

    Only existence is checked, which is quick: no ignore file is read.

    Raises:
        RequestError: the script is one of an earlier slurmgen.
    """
    needed = list(needed_files(plan))
    for one in needed:
        _refuse_replaced(one.path, project_dir)
    with_training = any(is_bundled(one.path) for one in needed)
    folders = [project_dir, *([bundled(FOLDER).parent] if with_training else [])]
    return [
        f"there is no {one.path} in {project_dir}, which {one.cause}"
        for one in needed
        if not any((folder / path).exists() for folder in folders for path in one.paths)
        and _is_of_project(one, project_dir)
    ]


def check_replaced(plan: "Plan") -> None:
    """Refuse a job whose script is a bundled one of an earlier slurmgen, and of no project. It reads no file.

    Raises:
        RequestError: the script is one of an earlier slurmgen.
    """
    for one in needed_files(plan):
        _refuse_replaced(one.path, None)


def _refuse_replaced(script: str, project_dir: Path | None) -> None:
    """Refuse a bundled script of an earlier slurmgen, unless the project has a copy of it."""
    name = str(PurePosixPath(script))
    if name not in REPLACED or (project_dir and (project_dir / name).exists()):
        return
    new, task = REPLACED[name]
    raise RequestError(
        f"{name} is now {new} with the argument --task {task}",
        Hint(
            f"Write `{option('script', new)} -- --task {task}`, or in slurmgen.toml "
            f'`script = "{new}"` and `script_args = ["--task", "{task}"]`.',
            offered("script", new),
        ),
    )


_UNSENT = "Rename it, or send it with --send PATH."


def _is_of_project(one: Needed, project_dir: Path) -> bool:
    """Whether the project must have the file: a module may also be installed in the environment."""
    if not one.package or (project_dir / f"{one.package}.py").exists():
        return True
    folder = project_dir / one.package
    return not folder.is_symlink() and any(folder.rglob("*.py"))  # a link may lead anywhere


def _demand(one: Needed, found: Snapshot, project_dir: Path) -> None:
    if any(path in found.files for path in one.paths) or not _is_of_project(one, project_dir):
        return
    for path, (secret, content) in product(one.paths, found.secrets.items()):
        if f"{path}/".startswith(f"{secret.rstrip('/')}/"):
            fact = f"{one.what} is not sent: by its name, {visible(secret)} holds {content}"
            raise RequestError(fact, _UNSENT)
    raise RequestError(
        f"{one.what} is not among the files of {visible(str(project_dir))} that are sent", one.hint
    )


SECRETS = {
    "environment variables": """
        .env .env[._-]* *.env *.env[._-]* .envrc .envrc[._-]* .flaskenv .Renviron *.tfvars
    """,
    "SSH keys": """
        .ssh/ .ssh[._-]*/ id_rsa id_rsa[._-]* id_dsa id_dsa[._-]* id_ecdsa id_ecdsa[._-]* id_ed25519
        id_ed25519[._-]* *[_-]rsa *[_-]ecdsa *[_-]ed25519
    """,
    "a private key": "*.p12 *.pfx *.ppk *.jks *.keystore *.keytab *.ovpn .gnupg/",
    "possibly a private key": "*.pem *.key",
    "passwords": """
        .netrc .netrc[._-]* _netrc password password.txt passwords.txt .password .passwd .vault_pass*
        .pgpass .my.cnf .mylogin.cnf .htpasswd .smbcredentials .password-store/ *.kdbx
    """,
    "a login to a service": """
        .git-credentials **/.config/git/credentials **/.config/gh/hosts.yml .vault-token .databrickscfg
        .condarc **/.jupyter/*.json auth.json *[_-]auth.json .cdsapirc .ngc/
        krb5cc_* .Xauthority
    """,
    "a login to package indexes": ".pypirc .npmrc **/.cargo/credentials **/.cargo/credentials.toml",
    "a login to container registries": """
        **/.docker/config.json .dockercfg .dockerconfigjson **/containers/auth.json
        **/.apptainer/*.json **/.singularity/*.json
    """,
    "a token for data and models": """
        .token *.token token.txt token.json *[_-]token *[_-]token.txt *[_-]token.json access_token*
        api[_-]key api[_-]key.txt api[_-]keys.txt *api[_-]key *api[_-]key.txt .*api[_-]key* wandb[_-]key*
        .neptune/ kaggle.json .kaggle/ **/wandb/settings .comet.config .modal.toml
        **/.huggingface/token **/huggingface/token **/huggingface/stored_tokens .hf_token
    """,
    "credentials of a cloud": """
        .aws/ .aws[._-]*/ credentials .credentials *[._-]credentials *credentials.json *credentials.txt
        *credentials.csv *credentials.toml *credentials.ini *credentials.y*ml .azure/ .oci/ .kube/
        kubeconfig **/.config/gcloud/ .boto .s3cfg rclone.conf .rclone.conf
        application_default_credentials.json service[_-]account*.json client_secret*.json
        *.tfstate *.tfstate.*
    """,
    "secrets by its name": """
        .secret .secret[._-]* .secrets .secrets/ .secrets[._-]* secrets secret.txt secrets.txt secrets.ini
        secret.toml secret.json secret.y*ml secrets.toml secrets.json secrets.y*ml *[_-]secret *[_-]secrets
    """,
    "a history of commands": """
        .*_history .*_history[.-]* fish_history .histfile .zhistory .Rhistory .lesshst .viminfo
    """,
}
"Patterns as in .gitignore, in any case, by the kind of secret; those that end in a slash match folders."

_PUBLIC = """
    *.pub *[._-]example *[._-]sample *[._-]template *[._-]dist example*.env sample*.env template*.env
    *[._-]example.env
"""
_TABLE: tuple[tuple[str, str | None], ...] = (
    *((pattern, what) for what, names in SECRETS.items() for pattern in names.split()),
    *((pattern, None) for pattern in _PUBLIC.split()),
)
"Each pattern with the kind of secret; the last that matches decides."
_MAYBE_PUBLIC = "possibly a private key"
_BEGIN, _PRIVATE = b"-----BEGIN ", b"PRIVATE KEY"


def secret(state: int, path: str, *, is_folder: bool) -> str | None:
    """The kind of secret that a file or folder holds, if any.

    Args:
        state: of `patterns`, after its lower-case path relative to the project.
    """
    line = patterns().match(state, is_folder=is_folder)
    if line is None:
        return None
    pattern, what = _TABLE[line]
    if is_folder != pattern.endswith("/") or (what == _MAYBE_PUBLIC and _is_public(path)):
        return None
    return what


@cache
def patterns() -> Patterns:
    """The names of SECRETS and of their exceptions."""
    return Patterns([pattern.lower().encode() for pattern, _ in _TABLE])


def _is_public(path: str) -> bool:
    try:
        content = read_bytes(Path(path))
    except OSError:
        return False
    return _BEGIN in content and _PRIVATE not in content


NEVER_SENT = frozenset({".git", ".hg", ".svn", ".jj", ".venv", "__pycache__", ".slurmgen"})


@dataclass
class Found:
    """The entries of a project, by relative path; that of a folder ends in a slash."""

    entries: "dict[str, os.DirEntry[str]]" = field(default_factory=dict)
    "All but folders."
    secrets: dict[str, str] = field(default_factory=dict)
    "The kind of secret in each entry that is left out."
    overruled: list[str] = field(default_factory=list)
    "Entries that .gitignore leaves out and .slurmgenignore includes again."


class _Folder(NamedTuple):
    path: str
    name: str
    chain: Chain
    secrets: int
    "The state of `patterns` after its name."


def walk(root: Path, logs: re.Pattern[str] | None = None) -> Found:
    """Find the entries of a project.

    Args:
        logs: matches the names of jobs' logs, besides those that Slurm chooses.

    Raises:
        RequestError: an ignore file cannot be used.
        OSError: a folder or an ignore file cannot be read.
    """
    found = Found()
    todo = [_Folder(str(root), "", chain_above(root), patterns().start)]
    while todo:  # not recursive: folders may be thousands deep
        todo += _look(todo.pop(), root, found, logs)
    return found


def _look(folder: _Folder, root: Path, found: Found, logs: re.Pattern[str] | None) -> list[_Folder]:
    entries, chain = _listed(folder, root)
    of_git = tuple(rules for rules in chain if not rules.is_own)
    may_overrule = len(of_git) < len(chain)
    below = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        encoded = os.fsencode(entry.name)
        if verdict := ignored(chain, encoded, is_folder=is_folder):
            continue
        name = folder.name + entry.name + "/" * is_folder
        if verdict is None and _is_log(entry.name, name, logs):
            continue
        secrets = patterns().after(folder.secrets, encoded.lower())
        if what := secret(secrets, entry.path, is_folder=is_folder):
            found.secrets[name] = what
            continue
        if may_overrule and ignored(of_git, encoded, is_folder=is_folder):
            found.overruled.append(name)
        if is_folder:
            inner = tuple(rules.below(encoded) for rules in chain)
            below.append(_Folder(entry.path, name, inner, patterns().after(secrets, b"/")))
        else:
            found.entries[name] = entry
    return below


def _is_log(name: str, path: str, logs: re.Pattern[str] | None) -> bool:
    return (name.startswith("slurm-") and name.endswith(".out")) or bool(logs and logs.fullmatch(path))


def _listed(folder: _Folder, root: Path) -> "tuple[list[os.DirEntry[str]], Chain]":
    with os.scandir(folder.path) as listing:
        entries = [entry for entry in listing if entry.name not in NEVER_SENT]
    names = {entry.name for entry in entries}
    if names.isdisjoint(IGNORE_FILES):
        return entries, folder.chain
    return entries, chain_in(Path(folder.path), names, folder.chain, root)
