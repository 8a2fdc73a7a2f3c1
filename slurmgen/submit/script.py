"""Submit a batch script that slurmgen did not write: its options, changes and faults."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from slurmgen.config.project import FILE_NAME, Project
from slurmgen.errors import RequestError, contradiction, flag, option
from slurmgen.files import is_file, read_bytes, refuse_links
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import Recorded, text_of
from slurmgen.lint.engine import lint_text
from slurmgen.lint.finding import Report
from slurmgen.lint.reader import Script, read
from slurmgen.lint.reader.header import Header
from slurmgen.lint.reader.shape import header_shape
from slurmgen.lint.reader.source import Span
from slurmgen.plan.requeue import FIELDS, with_bad_nodes, with_mail
from slurmgen.program.files import BATCH_SUFFIXES
from slurmgen.program.target import kind_of
from slurmgen.remote.route import Route
from slurmgen.request.model import NONE, Request, check_form, check_text, merge
from slurmgen.sites.model import Site
from slurmgen.slurm import dependencies
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.sbatch_options import given
from slurmgen.status.job import logs_in
from slurmgen.submit.how import How
from slurmgen.submit.prepare import Entry, Prepared, made, project_content, stored_content
from slurmgen.sync.files import of_batch_script, project_files
from slurmgen.text import counted
from slurmgen.toml import unreadable

_LOGS = {False: "slurm-%j.out", True: "slurm-%A_%a.out"}
"Slurm's own names of a log: of a job, and of an array."

_LOG_FOLDER = "SG112"

_NO_JOB = "sbatch would print a text and submit nothing"

REFUSED = {
    "wait": ("sbatch would wait for the end of the job", "`slurmgen submit --follow` waits."),
    "test-only": ("sbatch would submit nothing", "Use `slurmgen submit --test-only`."),
    **dict.fromkeys(("help", "usage", "version"), (_NO_JOB, "Leave it out.")),
    "wrap": ("it replaces the script", "Write that command into the script."),
    "quiet": ("sbatch would not print the id of the job", "Leave it out."),
    "uid": ("only an administrator can submit for another user", "Leave it out."),
    "gid": ("the folder of the job belongs to your own group", "Leave it out."),
}
"Options in a script that prevent its submission: why, and what to do."


class BatchScript(Struct, frozen=True):
    """A batch script, with what its header says of the job."""

    path: Path
    file: str
    "Its path in the project."
    script: Script
    name: str
    "The name of the job: Slurm's default is that of the file."
    output: str
    "The name of its log, with Slurm's patterns."
    asked: Request = Request()
    "The options of a command that override its header."
    options: tuple[str, ...] = ()
    "These as options of sbatch; `script` is read as if its header had them."
    sent: str | None = None
    "Its text, if there are such options."

    @property
    def text(self) -> str:
        """Its text; bytes that are not UTF-8 are surrogates."""
        return self.script.source.text if self.sent is None else self.sent

    @property
    def is_array(self) -> bool:
        """Whether it is a job array."""
        return self.script.header.last("array") is not None

    def option(self, name: str) -> str:
        """The value of an option of its header; empty if it is not set."""
        return self.script.header.value(name) or ""

    def after(self, words: Sequence[str]) -> tuple[After, ...]:
        """The jobs that it waits for, each `[TYPE:]JOB`; refused if its header names some too."""
        afters = dependencies.given(words)
        dependencies.check_alone(afters, self.option("dependency"))
        return afters

    def without_made(self, reports: tuple[Report, ...]) -> tuple[Report, ...]:
        """The findings of the linter without that of a missing log folder, which `submit` makes."""
        folder, error = PurePosixPath(self.output).parent, PurePosixPath(self.option("error"))
        if self.option("error") and error.parent != folder:
            return reports
        return tuple(report for report in reports if report.rule.code != _LOG_FOLDER)


def find_script(
    name: str | None, project: Project, folder: Path, asked: Request | None = None
) -> Path | None:
    """The batch script that the argument of a command names; None if it names a job or its program.

    A job of slurmgen.toml comes first: `./NAME` names the file.

    Raises:
        RequestError: its name is that of a batch script, and there is none.
    """
    if name is None or name in project.job:
        return None
    path = folder / name
    if not is_file(path):
        if name.endswith(BATCH_SUFFIXES):
            raise RequestError(f"there is no batch script {name}", _HINT)
        return None
    kind = kind_of(path)
    if kind is None and name.endswith(BATCH_SUFFIXES):
        raise RequestError(
            f"{name} is not a batch script: it has no #! of a shell and no #SBATCH line",
            _HINT,
        )
    runs_as_it_is = kind == "batch" or (kind == "shell" and not _becomes_job(asked or Request(), path))
    return path if runs_as_it_is else None


_HINT = f"Name a job of {FILE_NAME}, a program, or the path of a batch script."


def _becomes_job(asked: Request, path: Path) -> bool:
    """Whether a shell program without #SBATCH lines is the program of a job, and no batch script.

    It is if the options say what runs it, or ask for GPUs; sbatch does not take it without `#!`.
    """
    own = (*(key for key in Request.__struct_fields__ if key not in _OVERRIDES), "gpus", "gpu_type")
    is_asked = any(getattr(asked, key) != getattr(_NO_OPTIONS, key) for key in own)
    return is_asked or not _content(path).startswith(b"#!")


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise unreadable(path, error) from error


def read_script(path: Path, project_dir: Path) -> BatchScript:
    """Read a batch script that is submitted as it is.

    Raises:
        RequestError: it is not in the project, or its header has an option that contradicts a submission.
        ConfigError: it cannot be read, or is a link.
    """
    return parsed(_content(path), path, _name_in(project_dir, path))


def parsed(data: bytes, path: Path, file: str) -> BatchScript:
    """The batch script of a content; `file` is its path in the project.

    Raises:
        RequestError: it has a NUL byte, or its header has an option that contradicts a submission.
    """
    if b"\0" in data:
        raise RequestError(f"{path.name} has a NUL byte, so it is not a batch script", "Remove it.")
    script = read(data.decode(errors="surrogateescape"), path)
    _check_options(script, path)
    header = script.header
    output = header.value("output") or _LOGS[header.last("array") is not None]
    return BatchScript(path, file, script, header.value("job-name") or path.name, output)


def _name_in(project_dir: Path, path: Path) -> str:
    """The path of a file in the project."""
    try:
        file = (path.parent.resolve() / path.name).relative_to(project_dir.resolve()).as_posix()
        refuse_links(project_dir, file)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:
        raise RequestError(
            f"{path} is not in the project {project_dir}, whose files the job gets",
            "Go to the folder of its project, and submit it from there.",
        ) from None
    return file


def _check_options(script: Script, path: Path) -> None:
    for directive in script.header.directives:
        place = f"{path.name}:{script.source.position(directive.span.start).line}: --{directive.name}"
        if directive.name in REFUSED:
            why, hint = REFUSED[directive.name]
            raise RequestError(f"{place} is not possible: {why}", hint)
        if directive.name == "chdir" and PurePosixPath(directive.value) != PurePosixPath("."):
            raise RequestError(
                f"{place}={directive.value} is not possible: the job starts in its own copy of the project",
                "Leave it out, and write `cd FOLDER` where the script needs another folder.",
            )
    if script.header.components > 1:
        raise RequestError(
            f"{path.name} is a heterogeneous job, whose parts have several ids", "Submit it with sbatch."
        )


def refuse_errors(script: BatchScript, reports: tuple[Report, ...]) -> None:
    """Refuse a script in which the linter found an error.

    Raises:
        LintErrors: it has one.
    """
    found = sum(report.rule.severity == "error" for report in reports)
    if found:
        raise LintErrors(
            f"{script.path.name} has {counted(found, 'error')}, so it is not submitted",
            "Correct the script (`slurmgen lint --diff` shows fixes), or submit it with --no-lint.",
        )


class LintErrors(RequestError):
    """The linter found errors in a batch script."""

    exit_code = 1


OPTIONS = {
    "account": "account",
    "cpus": "cpus-per-task",
    "cpus_per_gpu": "cpus-per-gpu",
    "mem": "mem",
    "name": "job-name",
    "nodes": "nodes",
    "ntasks_per_node": "ntasks-per-node",
    "partition": "partition",
    "qos": "qos",
    "time": "time",
}
"The option of sbatch with the value of a field of the request."

_OVERRIDES = frozenset({*OPTIONS, "exclude", "gpus", "gpu_type", "sbatch", *FIELDS.values()})
"The fields that become options of sbatch. The others would change what the script runs."

EXCLUDES = {
    "mem": ("mem-per-cpu", "mem-per-gpu"),
    "mem-per-cpu": ("mem", "mem-per-gpu"),
    "mem-per-gpu": ("mem", "mem-per-cpu"),
    "cpus-per-task": ("cpus-per-gpu",),
    "cpus-per-gpu": ("cpus-per-task",),
}
"Options of a header that sbatch does not combine with another one of its command line."

_REFUSED = {
    "array": ("the number of tasks belongs to the script", "Change the script."),
    "container": ("the script starts in it", "Change the script."),
    "dependency": ("slurmgen sets it", "Use --after."),
    "parsable": ("slurmgen sets it", "Leave it out."),
}

_BY_OTHERS = ("gpus-per-socket", "gpus-per-task", "ntasks-per-gpu", "tres-per-task")
"Options of which the number of GPUs is a product."

_NO_OPTIONS = Request()

_NAME = re.compile(r"[a-z][a-z0-9-]*")

_GRES = re.compile(r"(?:gres/)?gpu\b[^,]*")


def refuse_others(asked: Request, replace_args: bool, file: str) -> None:
    """Refuse what would change more than options of sbatch.

    Raises:
        RequestError: one is given.
    """
    keys = [key for key in Request.__struct_fields__ if getattr(asked, key) != getattr(_NO_OPTIONS, key)]
    others = [key for key in keys if key not in _OVERRIDES]
    if others or replace_args:
        what = "arguments after --" if others[-1:] == ["script_args"] else flag([*others, "script_args"][0])
        raise RequestError(f"{file} runs as it is: {what} would change more than its header", _advice(file))


def with_options(
    script: BatchScript, asked: Request, site: Site, *, check: bool = True, accepted: Request = _NO_OPTIONS
) -> BatchScript:
    """The batch script with options of sbatch that override its header; its text stays the same.

    Args:
        check: refuse options that contradict what the script starts, as far as the linter finds that.
        accepted: the options of an earlier submission, which may contradict the script.

    Raises:
        RequestError: an option is not possible, or contradicts the script.
    """
    check_form(asked)
    check_text(asked)
    options = _options(script, asked)
    if not options:
        return script
    text = _overridden(script, options)
    made = parsed(text.encode(errors="surrogateescape"), script.path, script.file)
    if check:
        before = with_options(script, accepted, site, check=False)
        refuse_new_faults(before, made, _words(options), site, _advice(script.file))
    return structs.replace(made, sent=script.text, options=_words(options), asked=asked)


def _advice(file: str) -> str:
    return f"Change the script, or make a job of slurmgen.toml from it with `slurmgen adopt {file}`."


def _options(script: BatchScript, asked: Request) -> dict[str, str]:
    """The options of sbatch by their long names; an empty value is none."""
    header = script.script.header
    own = given(asked.sbatch)
    _check_names(own)
    fields = {name: str(value) for key, name in OPTIONS.items() if (value := getattr(asked, key)) is not None}
    gpus = _gpus(header, asked, script.file)
    _refuse_twice(asked, gpus, own)
    options = fields | gpus | with_bad_nodes(asked, _mail(asked, own))
    _refuse_mixture(script, options)
    return options


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name!r} is not an sbatch option", "Write its long name without dashes, as KEY=VALUE."
            )
        if name in _REFUSED:
            why, hint = _REFUSED[name]
            raise RequestError(f"--sbatch {name} is not possible: {why}", hint)


def _refuse_twice(asked: Request, gpus: dict[str, str], own: dict[str, str]) -> None:
    """Refuse an option of sbatch that a field of the request sets too."""
    twice = sorted(name for name, value in own.items() if name in gpus or counts_gpus(name, value))
    if gpus and twice:
        field = "gpu_type" if asked.gpus is None else "gpus"
        raise contradiction(option(field), option("sbatch", twice[0]))
    for key, name in OPTIONS.items():
        if getattr(asked, key) is not None and name in own:
            raise contradiction(option(key), option("sbatch", name))


def counts_gpus(name: str, value: str) -> bool:
    """Whether an option of sbatch says how many GPUs a job gets."""
    return name in {"gpus", "gpus-per-node", *_BY_OTHERS} or (name == "gres" and bool(_GRES.search(value)))


def _mail(asked: Request, own: dict[str, str]) -> dict[str, str]:
    """The further options with those for mail, of which the header may have the other one."""
    if asked.mail == NONE:
        return own | {"mail-type": "NONE"}
    return with_mail(asked, own | ({"mail-user": asked.mail_user} if asked.mail_user else {}))


def _refuse_mixture(script: BatchScript, options: dict[str, str]) -> None:
    """Refuse an option that sbatch does not combine with another one of the header."""
    for name in options:
        for other in EXCLUDES.get(name, ()):
            if script.script.header.last(other):
                raise RequestError(
                    f"{script.file} has --{other}, which excludes --{name}", f"Use --sbatch {other}=VALUE."
                )


def _gpus(header: Header, asked: Request, file: str) -> dict[str, str]:
    """The option for GPUs, in the form that the header has."""
    if asked.gpus is None and asked.gpu_type is None:
        return {}
    if found := next((name for name in _BY_OTHERS if header.last(name)), None):
        raise RequestError(f"the GPUs of {file} follow from its --{found}", f"Use --sbatch {found}=VALUE.")
    shape, gres = header_shape(header), header.value("gres") or ""
    nodes, total = asked.nodes or shape.nodes, asked.gpus if asked.gpus is not None else shape.gpus
    kind = list(filter(None, [asked.gpu_type or shape.gpu_type]))
    if not total:
        raise RequestError(f"how many GPUs {file} would get is not known", "Give --gpus, of at least 1.")
    if header.last("gpus") or not (header.last("gpus-per-node") or _GRES.search(gres)):
        return {"gpus": ":".join([*kind, str(total)])}
    if not nodes or total % nodes:
        raise RequestError(
            f"{file} asks for GPUs per node: {total} on {nodes or 'some'} nodes is not possible",
            "Give --gpus and --nodes.",
        )
    each = ":".join([*kind, str(total // nodes)])
    if header.last("gpus-per-node"):
        return {"gpus-per-node": each}
    return {"gres": _GRES.sub(f"gpu:{each}", gres)}


def _words(options: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"--{name}={value}" if value else f"--{name}" for name, value in options.items())


def _overridden(script: BatchScript, options: dict[str, str]) -> str:
    """The text with the header that sbatch makes of it; no line moves if there is one already."""
    text, directives = script.text, script.script.header.directives
    own = {one.name for one in directives}
    new = " ".join(_directive(name, value) for name, value in options.items() if name not in own)
    edits = [(one.span, _directive(one.name, options[one.name])) for one in directives if one.name in options]
    if new and directives:
        end = max(one.span.end for one in directives)
        edits.append((Span(end, end), f" {new}"))
    elif new:
        start = script.script.source.line_starts[1:2] or [0]
        edits.append((Span(start[0], start[0]), f"#SBATCH {new}\n"))
    for span, word in sorted(edits, reverse=True):
        text = f"{text[: span.start]}{word}{text[span.end :]}"
    return text


def _directive(name: str, value: str) -> str:
    quoted = re.sub(r'(["\\])', r"\\\1", value)
    return f'--{name}="{quoted}"' if value else f"--{name}"


_NAMES = {
    **{field: (name,) for field, name in OPTIONS.items()},
    **{field: (name,) for name, field in FIELDS.items()},
}
"The options of sbatch that a field of the request may become, but those for GPUs."

_GPUS = ("gpus", "gpu_type")


def changed(earlier: Request, changes: Request) -> Request:
    """The earlier options with changes, which replace those that mean the same or exclude them.

    >>> earlier = Request(mem="4G", sbatch={"time": "1:00:00"})
    >>> new = changed(earlier, Request(time="2:00:00", sbatch={"mem-per-cpu": "1G"}))
    >>> new.mem, new.time, new.sbatch
    (None, '2:00:00', {'mem-per-cpu': '1G'})
    >>> changed(Request(sbatch={"gres": "tmp:5", "gpus": "1"}), Request(gpus=2)).sbatch
    {'gres': 'tmp:5'}
    """
    fields = [field for field in _NAMES if getattr(changes, field) is not None]
    new = {name for field in fields for name in _NAMES[field]} | {*changes.sbatch}
    if any(getattr(changes, field) is not None for field in _GPUS):
        new |= _counting_gpus(earlier)
    excluded = {name for one in new for name in EXCLUDES.get(one, ())}
    sbatch = {name: value for name, value in earlier.sbatch.items() if name not in new | excluded}
    gone = excluded | {*changes.sbatch}
    cleared = [field for field, names in _NAMES.items() if gone & {*names}]
    if _counting_gpus(changes):
        cleared += _GPUS
    return merge(structs.replace(earlier, **dict.fromkeys(cleared), sbatch=sbatch), changes)


def _counting_gpus(request: Request) -> set[str]:
    return {name for name, value in given(request.sbatch).items() if counts_gpus(name, value)}


def prepare_script(
    script: BatchScript,
    site: Site,
    route: Route,
    project_dir: Path,
    how: How,
    after: tuple[After, ...] = (),
    earlier: Record | None = None,
    key: str = "",
) -> Prepared:
    """`prepare` for a batch script that is submitted as it is; it must be a file of the project.

    Args:
        script: of an earlier job, as the snapshot of that job has it.
        earlier: a job whose files are run, which the cluster still has; then the project is not read.
        key: the idempotency key; default: a new one.

    Raises:
        RequestError: the project cannot be sent so, or the script is not among its files.
        TransferFailed: a file cannot be read.
    """
    if earlier:
        content = stored_content(earlier)
    else:
        logs = logs_in(project_dir, Ledger().with_logs_elsewhere())
        find = partial(project_files, project_dir, [of_batch_script(script.file)], how.send, logs)
        content = project_content(site, route, project_dir, how, find)
    resubmits = earlier.key if earlier else ""
    kept = Recorded(
        site=site.name,
        project=str(project_dir.resolve()),
        options=script.asked,
        batch_script=script.file,
        resubmits=resubmits,
    )
    again = ["resubmits", resubmits] if resubmits else []
    identity = "\0".join([script.file, script.text, *again, *script.options])
    return made(
        *(content, route, project_dir, how),
        Entry(identity=identity, request=text_of(kept), after=after, key=key),
        {"stderr": script.option("error")},
        refusals=site.refusals,
        name=script.name,
        script=script.text,
        output=script.output,
        comment=script.option("comment"),
        clusters=script.option("clusters"),
        sbatch_options=script.options,
        file=script.file,
    )


def refuse_new_faults(
    before: BatchScript, after: BatchScript, words: tuple[str, ...], site: Site, hint: str
) -> None:
    """Refuse options with which the linter finds a fault that the script does not have without them.

    Raises:
        RequestError: there is one.
    """
    known = {_named(one) for one in _faults(before, site)}
    for one in _faults(after, site):
        if _named(one) not in known:
            raise RequestError(
                f"{before.file} cannot run as it is with {' '.join(words)}: {one.finding.message} "
                f"({one.rule.code}, line {one.start.line})",
                hint,
            )


def left_in(script: BatchScript, found: tuple[Report, ...], site: Site) -> tuple[Report, ...]:
    """The findings in a script without those that its options correct."""
    if not script.options:
        return found
    left = {_named(one) for one in lint_text(script.script.source.text, site)}
    return tuple(one for one in found if _named(one) in left)


def _faults(script: BatchScript, site: Site) -> tuple[Report, ...]:
    found = lint_text(script.script.source.text, site)
    return tuple(one for one in script.without_made(found) if one.rule.severity != "note")


def _named(one: Report) -> tuple[str, str]:
    return one.rule.code, one.finding.message
