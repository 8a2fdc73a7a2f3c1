"""Turn a plan into the text of a batch script, and sign it.

Templates place values and compute nothing. A project may replace any of them by name. A project's templates
are untrusted programs: they are rendered in Jinja's sandbox, in a separate process with limits on time and
memory.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from slurmgen.errors import ConfigError
from slurmgen.files import MAX_TEXT, bundled, read_inside
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan import Plan
from slurmgen.plan.model import Ranks, Step
from slurmgen.plan.requeue import TRIES, excluded
from slurmgen.python_env import COMMENTS
from slurmgen.slurm.shell import on_each_node, quote
from slurmgen.text import counted
from slurmgen.worker import MEMORY, Stopped, call_once

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment, Template


def render(plan: Plan, template_dir: Path | None = None, cache_dir: Path | None = None) -> str:
    """The batch script of a plan, byte for byte the same for the same plan.

    Args:
        plan: the plan of the job.
        template_dir: a folder whose templates replace the bundled ones of the same name.
        cache_dir: a private folder for the bundled templates in compiled form, which saves 8 ms.

    Raises:
        ConfigError: a template of that folder fails.
    """
    return render_all([plan], template_dir, cache_dir)[0]


def render_all(
    plans: Sequence[Plan], template_dir: Path | None = None, cache_dir: Path | None = None
) -> list[str]:
    """The batch script of each plan; see `render`."""
    if template_dir is None or not plans:
        template = _main_template(cache_dir)
        return [template.render(values_of(plan)) for plan in plans]

    return render_own(plans, template_dir.absolute())


def render_setup(plan: Plan, *, software: bool = True) -> str:
    """The lines of the batch script that export its variables, without a project's own templates.

    Args:
        plan: the plan of the job.
        software: also the lines that load its modules and activate its Python.
    """
    environment, names = _main_template(None).environment, ("software.j2", "environment.j2")
    parts = [environment.get_template(name) for name in (names if software else names[1:])]
    return "\n".join(part.render(values_of(plan)).strip() for part in parts).strip()


@lru_cache(maxsize=1)
def _main_template(cache_dir: Path | None) -> "Template":
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader

    environment = environment_of(Environment, FileSystemLoader(bundled("templates")))
    environment.bytecode_cache = FileSystemBytecodeCache(str(cache_dir)) if cache_dir else None
    return environment.get_template(MAIN_TEMPLATE)


_SECONDS, _SECONDS_PER_SCRIPT = 0.7, 0.002
"CPU time for a project's templates. The first script takes 0.1 s, each further script 0.2 ms."
_TEMPLATE_HINT = "Correct the template; docs/templates.md lists the values that it may use."


def render_own(plans: Sequence[Plan], folder: Path) -> list[str]:
    """The batch script of each plan, by the templates of a folder.

    Raises:
        ConfigError: a template of that folder fails.
    """
    try:
        seconds = _SECONDS + _SECONDS_PER_SCRIPT * len(plans)
        reply = json.loads(call_once((_import_jinja,), _rendered, list(plans), folder, cpu_seconds=seconds))
    except Stopped as error:
        raise ConfigError(f"{_last_template(error.log, folder)}: it {error}", _TEMPLATE_HINT) from None
    if isinstance(reply, str):
        raise ConfigError(reply, _TEMPLATE_HINT)
    return list(reply)


class _Unreadable(Exception):
    """A template cannot be read, or is not allowed."""


def _import_jinja() -> bytes:
    # Python caches what it compiles in files, which cannot be written below the limits.
    import jinja2.debug
    import jinja2.sandbox  # noqa: F401

    return b""


def _rendered(plans: Sequence[Plan], folder: Path) -> bytes:
    return json.dumps(_scripts_or_error(plans, folder)).encode()


def _scripts_or_error(plans: Sequence[Plan], folder: Path) -> list[str] | str:
    """The scripts from a project's templates, or the error of one."""
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    read: list[Path] = []
    loader = ChoiceLoader([FunctionLoader(_source_in(folder, read)), FileSystemLoader(bundled("templates"))])
    try:
        template = environment_of(ImmutableSandboxedEnvironment, loader).get_template(MAIN_TEMPLATE)
        texts = [template.render(values_of(plan)) for plan in plans]
    except _Unreadable as error:
        return str(error)
    except MemoryError as error:
        return f"{_place(error, folder, read)}: it needs more than {MEMORY // 10**6} MB of memory"
    except Exception as error:  # a template may raise anything
        return f"{_place(error, folder, read)}: {error}"
    fault = next(filter(None, map(_fault, texts)), None)
    return f"{read[0] if len(read) == 1 else folder}: {fault}" if fault else texts


def _source_in(folder: Path, read: list[Path]) -> Callable[[str], tuple[str, str, None] | None]:
    def source(name: str) -> tuple[str, str, None] | None:
        path = folder / name
        if any(part.startswith((".", "/")) for part in PurePosixPath(name).parts):
            raise ValueError(f"{name!r} is not the name of a template")
        if not os.path.lexists(path):
            return None
        read.append(path)
        sys.stderr.write(_escaped(f'File "{path}", line 1\n'))  # for `_last_template`
        try:
            return read_inside(folder, name).decode(), str(path), None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise _Unreadable(f"{path} cannot be read: {reason}") from None

    return source


def _fault(text: str) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        return str(error)
    return f"the script has more than {MAX_TEXT:,} bytes" if size > MAX_TEXT else None


def _place(error: BaseException, folder: Path, read: Sequence[Path]) -> str:
    """The project's template that an error comes from, with the line if it is known."""
    from traceback import extract_tb  # only an error needs it

    if (path := getattr(error, "filename", None)) and hasattr(error, "lineno"):
        return f"{path}:{error.lineno}"
    frames = [f"{frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)]
    own = [frame for frame in frames if frame.startswith(f"{folder}/")]
    return str([folder, *read, *own][-1])


def _last_template(log: str, folder: Path) -> Path:
    """The innermost template on the stack that faulthandler wrote; else the last one read."""
    read, _, stack = log.partition("(most recent call first)")
    own = rf'File "{re.escape(_escaped(str(folder)))}/(.*)", line'
    names = re.findall(own, stack)[:1] or re.findall(own, read)[-1:]
    return folder.joinpath(*names)


def _escaped(text: str) -> str:
    """The text as faulthandler writes it."""
    return text.encode("ascii", "backslashreplace").decode()


MAIN_TEMPLATE = "job.sbatch.j2"


def environment_of(kind: "type[Environment]", loader: "BaseLoader") -> "Environment":
    """An environment of Jinja, which refuses undefined names, with the filter `quote`."""
    from jinja2 import StrictUndefined

    environment = kind(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters["quote"] = quote
    return environment


_COLUMNS = 96


def values_of(plan: Plan) -> dict[str, Any]:
    """The values for templates; docs/templates.md documents them."""
    return {
        "plan": plan,
        "title": _title(plan),
        "command": plan.command,
        "directives": plan.directives,
        "excluded": excluded(plan.request),
        "tries": TRIES,
        "modules": plan.setup.modules,
        "module_checks": _module_checks(plan.setup.needs),
        "python_setup": plan.setup.python_setup,
        "python_comment": COMMENTS.get(plan.setup.python_env.partition(":")[0]),
        "variables": plan.variables,
        "sweep": plan.sweep,
        "rendezvous": plan.rendezvous,
        "needs_workers": plan.nodes > 1 and any(launcher.needs_workers for launcher in _launchers(plan)),
        "stage_step": plan.staging.step if plan.staging else "",
        "prepare": _prepare(plan),
        "before_login": plan.request.before_login or (),
        "before": plan.request.before or (),
        "after": plan.request.after or (),
        "unstage_step": plan.staging.removal if plan.staging else "",
        "segments": plan.segments,
        "goes_on": plan.goes_on,
        "then": [_next_step(one) for one in plan.then],
        "rendezvous_suffix": quote(plan.rendezvous.suffix) if plan.rendezvous else "",
        "preflight_lines": [wrapped(words) for words in plan.preflight],
        "step_comment": _step_comment(plan.ranks),
        "expands_in_task": plan.step.expands_in_task,
        "step_lines": [wrapped(words) for words in plan.step.lines],
    }


def _launchers(plan: Plan) -> list[Launcher]:
    return [ranks.launcher for ranks in (plan.ranks, *(one.ranks for one in plan.then))]


def _next_step(one: Step) -> dict[str, Any]:
    return {
        "comment": _step_comment(one.ranks),
        "lines": [wrapped(words) for words in one.lines],
        "expands_in_task": one.expands_in_task,
    }


def _module_checks(needs: tuple[str, ...]) -> list[str]:
    return [f': "${{{name}:?is not set; a module should set it}}"' for name in needs]


def _prepare(plan: Plan) -> list[str]:
    """The first lines; those for each node run in a step with one task per node."""
    launch, nodes = plan.ranks.settings.launch, plan.nodes
    of_launchers = dict.fromkeys(line for launcher in _launchers(plan) for line in launcher.before)
    first = [*plan.setup.fetch, *of_launchers, *launch.before]
    if not launch.before_on_each_node:
        return first
    step = on_each_node("\n".join(launch.before_on_each_node), nodes)
    return [*first, "# Once on each node.", *step]


def _title(plan: Plan) -> str:
    each = f"a sweep of {counted(len(plan.sweep.runs), 'run')}, each with " if plan.sweep else ""
    return f"{plan.name} on {plan.site}: {plan.framework}, {each}{_where(plan.world_size, plan.ranks.layout)}"


def _where(world_size: int, layout: Layout) -> str:
    each = " each" if layout.nodes > 1 and layout.gpus else ""
    gpus = f"with {counted(layout.gpus_per_node, 'GPU')}" if layout.gpus else "without GPUs"
    return f"{counted(world_size, 'rank')} on {counted(layout.nodes, 'node')} {gpus}{each}"


def _step_comment(ranks: Ranks) -> str:
    tasks, procs = counted(ranks.ntasks_per_node, "task"), counted(ranks.procs_per_task, "rank")
    return f"{tasks} per node, {procs} per task: {ranks.launcher.why}."


def wrapped(words: tuple[str, ...]) -> str:
    """The words in lines of at most 100 columns, unless a single word is longer."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word.partition("\n")[0]) < _COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return " \\\n    ".join(lines)


_MARK = b"# slurmgen: sha256:"
_SIGNED = re.compile(rb"(?s)(.*\n)" + _MARK + rb"([0-9a-f]{64})\n")


def signed(text: str) -> bytes:
    """The script as written to a file: with its hash on the last line."""
    body = (text if text.endswith("\n") else f"{text}\n").encode()
    return body + _MARK + _hash(body) + b"\n"


def as_written(data: bytes) -> bool:
    """Whether a file is unchanged since `signed` made it."""
    match = _SIGNED.fullmatch(data)
    return match is not None and match[2] == _hash(match[1])


def has_mark(data: bytes) -> bool:
    """Whether a file comes from `signed`, edited or not."""
    return _MARK in data


def unsigned(text: str) -> str:
    """The text of a script without the last line that `signed` added, if it has one."""
    body, mark, end = text.rpartition(_MARK.decode())
    return body if mark and end.count("\n") <= 1 else text


def _hash(body: bytes) -> bytes:
    return sha256(body).hexdigest().encode()
