"""Adopting a hand-written batch script: its job as a request for slurmgen.toml.

>>> from slurmgen.adopt import adopt
>>> from slurmgen.sites.profiles import load_site
>>> script = "#!/bin/bash\\n#SBATCH -N 2 --gres=gpu:4 -t 60\\nsrun torchrun --nproc-per-node=4 train.py\\n"
>>> made = adopt(script, "train.sbatch", load_site("generic"))
>>> made.request.framework, made.request.gpus, made.request.time, made.differences
('ddp', 8, '01:00:00', ())

Nothing is lost silently: each option and each command is in the request, or in `replaced`, `lost` or
`secrets` with its line. A script that slurmgen rendered becomes the request that made it.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from msgspec import structs

from slurmgen.adopt.body import Body, from_body
from slurmgen.adopt.facts import Difference, differences, facts, shape_of
from slurmgen.adopt.header import from_header, may_leave_out_nodes
from slurmgen.adopt.own import from_rendered, site_of
from slurmgen.adopt.program import Adopted
from slurmgen.errors import RequestError
from slurmgen.lint.reader import Script, read
from slurmgen.plan import resolve
from slurmgen.render import render
from slurmgen.request.model import NONE, Request, merge
from slurmgen.request.text import command_line
from slurmgen.secret_names import Line, without_secrets
from slurmgen.sites.model import Site

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BASH = re.compile(r"#!\s*(\S*/)?(env\s+)?(ba)?sh(\s+-e)?\s*")
_STOPS = "the script of slurmgen ends at the first line that fails, because it has `set -e -o pipefail`"


def adopt(
    text: str, file: str, site: Site, defaults: Request | None = None, name: str | None = None
) -> Adopted:
    """The request that a batch script makes.

    Args:
        file: its path, for the name of the job.
        defaults: `[defaults]` of slurmgen.toml, which counts for the job too.
        name: the name of the job in slurmgen.toml; default: that of the file.

    Raises:
        RequestError: the script is for another scheduler.
    """
    text, secrets, left_out = without_secrets(text)
    script, defaults = read(text), defaults or Request()
    if script.other_scheduler:
        fact = f"{file} is a script for {script.other_scheduler[0]}: it has no #SBATCH line"
        raise RequestError(fact, "Write its directives for Slurm first.")
    own = from_rendered(text, lambda one: _rendered(one, site)) if site_of(text) == site.name else None
    if own:
        return _compared(structs.replace(_own(own, name, site), source=text), script, site, defaults)
    name = name or _job_name(file)
    values, lost = from_header(script)
    body = from_body(script)
    request, problems = _request(values, body, script, site, defaults)
    request = _with_secrets(request, secrets, site, defaults)
    made = Adopted(
        name=name,
        request=request,
        replaced=tuple(sorted(body.replaced, key=lambda one: one.line)),
        lost=tuple(sorted([*lost, *body.lost, *problems], key=lambda one: one.line)),
        secrets=left_out,
        source=text,
        notes=tuple(_notes(script, request)),
    )
    return _compared(made, script, site, defaults)


def _own(request: Request, name: str | None, site: Site) -> Adopted:
    """The request of a script that slurmgen rendered, with the name of its job."""
    own = resolve(request, site).name
    name = name or _job_name(own)
    return Adopted(name=name, request=request if name == own else structs.replace(request, name=own))


def _with_secrets(request: Request, names: tuple[str, ...], site: Site, defaults: Request) -> Request:
    """The request with these secrets, without those that it cannot have."""
    for name in names:
        more = structs.replace(request, secrets=(*(request.secrets or ()), name))
        request = request if _error(more, site, defaults) else more
    return request


def _notes(script: Script, request: Request) -> Iterator[str]:
    """How the script of slurmgen runs differently as a whole."""
    if request.before and not any("errexit" in command.settings for command in script.commands):
        yield _STOPS
    if not _BASH.fullmatch(script.first_line):
        yield f"the script of slurmgen begins with `#!/bin/bash`, not with `{script.first_line}`"


def _job_name(file: str) -> str:
    """A name that needs no quotes in TOML."""
    path = PurePosixPath(file)
    return "-".join(_NAME.findall(path.stem)) or "job"


def _request(
    values: dict[str, Any], body: Body, script: Script, site: Site, defaults: Request
) -> tuple[Request, list[Line]]:
    """The request of header and commands, without what the site or slurmgen refuses, and that."""
    request, refused = _accepted(Request(**{**values, **body.fields}), script, site, defaults)
    try:
        reserved = resolve(merge(defaults, request), site).ranks.reserved
    except RequestError:
        return request, refused
    tasks = shape_of(script).ntasks_per_node
    if may_leave_out_nodes(script):
        tasks = int(script.header.value("ntasks") or 1)
    if request.gpus and tasks and tasks != reserved:
        request = structs.replace(request, ntasks_per_node=tasks)
    return _without_software_of_site(request, site, defaults), refused


def _without_software_of_site(request: Request, site: Site, defaults: Request) -> Request:
    """The request without what the profile adds to a job that names no software, as the script had none."""
    for key, none in {"container": NONE, "python_env": NONE, "modules": ()}.items():
        asked = merge(defaults, request)
        bare = structs.replace(request, **{key: none})
        if getattr(asked, key) is None and _software(asked, site) != _software(merge(defaults, bare), site):
            request = bare
    return request


def _software(request: Request, site: Site) -> tuple[object, ...]:
    """What a job uses; nothing if the site cannot run it."""
    try:
        setup = resolve(request, site).setup
    except RequestError:
        return ()
    return setup.container and setup.image, setup.python_env, setup.modules


_MAY_GO = ("name", "launcher_args", "launcher_config", "env", "python_env", "modules", "sbatch", "gpu_type")
"Fields without which a job can be made if they are refused, in the order in which they are tried."


def _accepted(request: Request, script: Script, site: Site, defaults: Request) -> tuple[Request, list[Line]]:
    refused: list[Line] = []
    while error := _error(request, site, defaults):
        parts = (
            (part, text) for part, text in _without_one(request) if _error(part, site, defaults) != error
        )
        found = next(parts, None)
        if found is None:
            break
        request, text = found
        refused.append(Line(_line_of(script, text), text, error))
    return request, refused


def _error(request: Request, site: Site, defaults: Request) -> str:
    """Why a request is refused; empty if it is not."""
    try:
        resolve(merge(defaults, request), site)
    except RequestError as error:
        return error.fact
    return ""


def _without_one(request: Request) -> Iterator[tuple[Request, str]]:
    """The request without one value that may go, and that value."""
    for key in _MAY_GO:
        value = getattr(request, key)
        if isinstance(value, dict):
            for name in value:
                rest = {one: text for one, text in value.items() if one != name}
                yield structs.replace(request, **{key: rest}), f"{name}={value[name]}"
        elif value is not None:
            yield structs.replace(request, **{key: None}), f"{key}: {value}"


def _line_of(script: Script, text: str) -> int:
    """The first line that has the name of a value."""
    name = re.split("[=:]", text)[0].replace("_", "-")
    found = script.header.last({"name": "job-name", "gpu-type": "gres"}.get(name, name))
    if found:
        return script.source.position(found.span.start).line
    lines = enumerate(script.source.text.splitlines(), start=1)
    return next((number for number, line in lines if re.split("[=:]", text)[0] in line), 1)


def _compared(made: Adopted, script: Script, site: Site, defaults: Request) -> Adopted:
    """With the script that slurmgen makes, and how its header differs."""
    named = structs.replace(made.request, name=made.request.name or made.name)
    command = command_line(site.name, Request(), made.name)
    try:
        text = render(resolve(merge(defaults, named), site, command))
    except RequestError as error:
        old = tuple(Difference(name, value, None) for name, value in facts(script).items())
        return structs.replace(made, error=error.fact, differences=old)
    return structs.replace(made, rendered=text, differences=differences(facts(script), facts(read(text))))


def _rendered(request: Request, site: Site) -> str:
    return render(resolve(request, site))


__all__ = ["Adopted", "Difference", "Line", "adopt"]
