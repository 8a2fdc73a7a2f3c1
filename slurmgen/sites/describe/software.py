"""Variables, containers, modules, folders, and the settings of some jobs."""

from collections.abc import Iterator

from slurmgen.sites.describe.model import Row, Section, code, codes, pairs
from slurmgen.sites.model import Container, Site, When

_GROUPS = {
    "always": "all",
    "multi_gpu": "with several GPUs",
    "multi_node": "on several nodes",
    "container": "in a container",
    "task": "each task",
}
_INTERNET = {"yes": "yes", "no": "no", "proxy": "through a proxy", None: None}
_CONDITIONS: dict[str, dict[str | bool, str]] = {
    "nodes": {"one": "on one node", "several": "on several nodes"},
    "tasks": {"per-gpu": "with one task per GPU", "per-node": "with one task per node"},
    "whole_nodes": {True: "on whole nodes", False: "on parts of nodes"},
    "has_gpus": {True: "with GPUs", False: "without GPUs"},
    "several_gpus": {True: "with several GPUs", False: "with one GPU or none"},
    "container": {True: "in a container", False: "without a container"},
}
_NAMES = {"gpu_type": "GPU type", "partition": "partition", "qos": "QoS"}


def software(site: Site) -> Iterator[Section]:
    """What jobs run with."""
    yield Section("Variables", ("variable", "value", "jobs", "reason"), tuple(_variables(site)))
    yield pairs("Software", _software(site))
    yield pairs("Containers", _containers(site.container) if site.container else ())
    conditions = tuple(
        Row(f"when.{name}", (_meets(table), _sets(table))) for name, table in site.when.items()
    )
    yield Section("Settings of some jobs", ("jobs", "settings"), conditions)


def _variables(site: Site) -> Iterator[Row]:
    for group, jobs in _GROUPS.items():
        for name, value in getattr(site.env, group).items():
            cells = (f"`{name}`", f"`{value}`", jobs, site.env.notes.get(name, ""))
            yield Row(f"env.{group}.{name}", cells)


def _software(site: Site) -> Iterator[tuple[str, str, str | None]]:
    launch = site.launch
    yield "gpu.vendor", "GPUs", "AMD" if site.gpu.vendor == "amd" else None
    yield "architecture", "architecture", site.architecture
    yield "internet", "internet on compute nodes", _INTERNET[site.internet]
    yield "local_dir", "local storage of a node", f"`{site.local_dir}`" if site.local_dir else None
    yield "job_folders", "jobs start below", codes(site.job_folders)
    yield "modules.init", "before modules are loaded", code(*site.modules.init)
    yield "modules.load", "modules", codes(site.modules.load)
    yield "python_env", "Python", f"`{site.python_env}`" if site.python_env else None
    yield "launch.ddp", "ddp starts with", "`srun`, one task for each GPU" if launch.ddp == "srun" else None
    yield "launch.torchrun", "torchrun", f"`{' '.join(launch.torchrun)}`" if launch.torchrun else None
    yield "launch.torchrun_options", "torchrun options", code(*launch.torchrun_options)
    yield "launch.srun", "srun options", code(*launch.srun)
    yield "launch.mpi", "MPI", launch.mpi
    yield "launch.before", "before the step", code(*launch.before)
    yield "launch.before_on_each_node", "on each node before the step", code(*launch.before_on_each_node)


def _containers(container: Container) -> Iterator[tuple[str, str, str | None]]:
    yield "container.engine", "engine of a job that chooses none", f"`{container.engine}`"
    yield "container.engines", "further engines", codes(container.engines)
    yield "container.image", "image", f"`{container.image}`" if container.image else None
    for name, engine in container.engines.items():
        key = f"container.engines.{name}"
        yield f"{key}.image", f"image of {name}", f"`{engine.image}`" if engine.image else None
        yield f"{key}.options", f"options of {name}", code(*engine.options, *engine.gpu_options)
        yield f"{key}.modules", f"modules of {name}", codes(engine.modules)
    yield "container.options", "options", code(*container.options)
    yield "container.gpu_options", "options of jobs with GPUs", code(*container.gpu_options)
    yield "container.modules", "modules", codes(container.modules)
    yield "container.binds", "binds", codes(container.binds)
    yield "container.multi_node_binds", "binds on several nodes", codes(container.multi_node_binds)
    yield "container.multi_node_modules", "modules on several nodes", codes(container.multi_node_modules)


def _meets(table: When) -> str:
    words = [texts.get(getattr(table, name), "") for name, texts in _CONDITIONS.items()]
    named = {title: getattr(table, name) for name, title in _NAMES.items()}
    words += [f"{title} `{name}`" for title, name in named.items() if name]
    return ", ".join(filter(None, words)) or "all"


def _sets(table: When) -> str:
    words = [f"account suffix {table.account_suffix}"] if table.account_suffix else []
    words += [f"--{name}={value}" for name, value in table.sbatch.items()]
    words += [f"module load {name}" for name in table.modules.load] + [*table.modules.init]
    words += [f"{name}={value}" for name, value in (table.env | table.task_env).items()]
    words += [f"srun {option}" for option in table.launch.srun]
    words += [*table.launch.before, *table.launch.before_on_each_node]
    texts = [f"refused: {table.refuse}"] if table.refuse else []
    texts += [table.note] if table.note else []
    return " ".join([code(*words), *texts]).strip()
