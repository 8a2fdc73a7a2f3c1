"""The job step and what comes before it: modules, Python, container, launch."""

import shlex
from functools import lru_cache

from msgspec import Struct

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS, Geometry, Launcher, Options
from slurmgen.request import Request
from slurmgen.site import Container, Site
from slurmgen.slurm.shell import expandable, quote
from slurmgen.software import setup_lines


class Setup(Struct, frozen=True, gc=False):
    """Where the job's programs come from."""

    container: Container | None
    image: str
    "A shell word; empty without a container."
    python_env: str
    python_setup: tuple[str, ...]
    modules: tuple[str, ...]
    "Whole commands."
    why_container: str
    why_python: str


def find_setup(request: Request, site: Site, nodes: int) -> Setup:
    """Container or Python environment, and modules.

    Raises:
        RequestError: both a container and a Python environment are asked for.
    """
    container, image, why = _container(request, site)
    if container is None:
        python_env, source = _python_env(request, site)
        names = site.modules.load if request.modules is None else request.modules
        return Setup(
            None,
            "",
            python_env,
            setup_lines(python_env),
            _module_commands(site.modules.init, names),
            why,
            source,
        )
    if (request.python_env or "none") != "none":
        raise RequestError(
            f"--python-env {request.python_env} and the container {container.image} exclude each other",
            "Python comes from the image; leave one out, or add --container none.",
        )
    of_container = container.multi_node_modules if nodes > 1 else ()
    names = of_container if request.modules is None else request.modules
    return Setup(
        container,
        image,
        "none",
        (),
        _module_commands(site.modules.init, names),
        why,
        "Python comes from the image",
    )


def _python_env(request: Request, site: Site) -> tuple[str, str]:
    """Where Python comes from without a container, and why."""
    kind = request.python_env or site.python_env or "none"
    if kind == "none":
        return kind, "the python on PATH" + (" after the modules" if site.modules.load else "")
    if kind == "uv" and request.script is None:
        return "uv:training", "the bundled training has a pyproject.toml of its own"
    return kind, "as asked" if request.python_env else f"from the profile of {site.name}"


def _container(request: Request, site: Site) -> tuple[Container | None, str, str]:
    if request.container == "none":
        return None, "", "as asked"
    of_site = site.container or Container()
    if request.container:
        container, word, why = of_site, quote(request.container), "as asked"
    elif of_site.image:
        container, word, why = of_site, expandable(of_site.image), f"from the profile of {site.name}"
    else:
        return None, "", "nobody names an image"
    return container, word, why


@lru_cache(maxsize=256)
def _module_commands(init: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return (*init, f"module load {shlex.join(names)}") if names else ()


class Step(Struct, frozen=True, gc=False):
    """The job step."""

    lines: tuple[tuple[str, ...], ...]
    "Shell words by part: srun, the container, the launcher, the script with its arguments."
    expands_in_task: bool
    "Some variables are for each task to expand, not for the batch script."


def find_step(
    request: Request, setup: Setup, launcher: Launcher, geometry: Geometry, cpus_per_task: int, script: str
) -> Step:
    """How srun starts the ranks.

    `--cpus-per-task` is said again because srun does not inherit it since Slurm 22.05.

    Raises:
        RequestError: an option means nothing to this launcher, or a bind has no container.
    """
    several_nodes = geometry.nodes > 1
    container = setup.container
    if request.binds and container is None:
        raise RequestError("--bind without a container", "Add --container IMAGE, or leave --bind out.")
    folders = container.multi_node_library_path if container and several_nodes else ()
    head, in_task = _head(launcher.name, geometry, _options(request, launcher), folders)
    lines = (
        ("srun", f"--cpus-per-task={cpus_per_task}", "--kill-on-bad-exit=1"),
        _container_words(container, setup.image, several_nodes, request.binds or ()) if container else (),
        head,
        (quote(script), *map(quote, request.script_args or ())),
    )
    return Step(tuple(filter(None, lines)), in_task)


@lru_cache(maxsize=256)
def _container_words(
    container: Container, image: str, several_nodes: bool, own_binds: tuple[str, ...]
) -> tuple[str, ...]:
    of_site = (*container.binds, *(container.multi_node_binds if several_nodes else ()))
    binds = (*map(expandable, of_site), *map(quote, own_binds))
    return ENGINES[container.engine].command(image, binds)


@lru_cache(maxsize=256)
def _head(
    framework: str, geometry: Geometry, options: Options, folders: tuple[str, ...]
) -> tuple[tuple[str, ...], bool]:
    """The launcher's words, and whether they are a little script that each task runs.

    To such a script the training script and its arguments come as "$@".
    """
    head = LAUNCHERS[framework].command(geometry, options)
    if not folders and not head.expands_in_task:
        return head.words, False
    words = ["exec", *head.words, '"$@"']
    if folders:
        words.insert(0, f'export LD_LIBRARY_PATH="{":".join(folders)}:$LD_LIBRARY_PATH";')
    words[0], words[-1] = f"'{words[0]}", f"{words[-1]}'"
    return ("bash", "-c", *words, head.words[0]), True


def _options(request: Request, launcher: Launcher) -> Options:
    said = {name: value for name in Options._fields if (value := getattr(request, name)) is not None}
    for name in said:
        if name not in launcher.options:
            raise RequestError(
                f"--{name.replace('_', '-')} means nothing to {launcher.name}", "Leave it out."
            )
    return Options(**said)
