"""Options of sbatch that override the header of a batch script, whose text stays as it is.

sbatch prefers its command line to the #SBATCH lines of a script (seen on 22.05 and 24.11).
"""

import re
from collections.abc import Iterable

from msgspec import structs

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import flag, option
from slurmgen.jobs.batch_script import BatchScript, parsed
from slurmgen.jobs.script_faults import refuse_new_faults
from slurmgen.lint.reader.header import Header
from slurmgen.lint.reader.shape import header_shape
from slurmgen.lint.reader.source import Span
from slurmgen.plan.bad_nodes import with_bad_nodes
from slurmgen.plan.mail import with_mail
from slurmgen.request import NONE, Request, check_form, check_text
from slurmgen.sites.model import Site
from slurmgen.slurm.sbatch_options import given

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
_OVERRIDES = frozenset({*OPTIONS, "exclude", "gpus", "gpu_type", "mail", "mail_user", "sbatch"})
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

    Args:
        asked: the options of a command.
        replace_args: whether arguments of the program are replaced.
        file: the batch script.

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
        script: the batch script.
        asked: the options, as fields of a request.
        site: the cluster.
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
