"""The settings of one job: what a profile sets for every job, and for the jobs that meet its conditions.

The plan and the linter read them here.
"""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct

from slurmgen.sites.model import LaunchOptions, Modules, Site, When
from slurmgen.sites.nodes import Place
from slurmgen.slurm.sbatch_options import SbatchOptions

T = TypeVar("T")


class Shape(Struct, frozen=True):
    """The facts of a job that the conditions of a profile depend on."""

    nodes: int
    gpus_per_node: int
    task_per_gpu: bool
    container: bool = False


class Settings(Struct, frozen=True):
    """All that a profile sets for one job."""

    sbatch: SbatchOptions
    modules: Modules
    env: dict[str, str]
    task_env: dict[str, str]
    launch: LaunchOptions
    account_suffix: str
    refusals: dict[str, str] = {}
    "Why the site refuses the job, by the name of the table."
    notes: dict[str, str] = {}
    "What users should know about the job, by the name of the table."


def settings_of(site: Site, place: Place, shape: Shape) -> Settings:
    """The settings of a job; of several values of one key, the last table's counts."""
    named = {name: table for name, table in site.when.items() if _applies(table, place, shape)}
    tables = tuple(named.values())
    kind = site.gpu.types.get(place.gpu_type or "")
    return Settings(
        sbatch=_merged(site.sbatch, kind.sbatch if kind else {}, *(table.sbatch for table in tables)),
        modules=Modules(
            init=_joined(site.modules.init, *(table.modules.init for table in tables)),
            load=_joined(site.modules.load, *(table.modules.load for table in tables)),
        ),
        env=_merged(*_groups(site, shape), *(table.env for table in tables)),
        task_env=_merged(site.env.task, *(table.task_env for table in tables)),
        launch=_launch(site.launch, *(table.launch for table in tables)),
        account_suffix="".join(table.account_suffix for table in tables),
        refusals={name: table.refuse for name, table in named.items() if table.refuse},
        notes={name: table.note for name, table in named.items() if table.note},
    )


def _applies(table: When, place: Place, shape: Shape) -> bool:
    """Whether a job meets all conditions of a table; a fact that the profile lacks meets none."""
    facts = {
        "nodes": "one" if shape.nodes == 1 else "several",
        "tasks": "per-gpu" if shape.task_per_gpu else "per-node",
        "whole_nodes": None if place.node.gpus is None else shape.gpus_per_node == place.node.gpus,
        "has_gpus": shape.gpus_per_node > 0,
        "several_gpus": shape.nodes * shape.gpus_per_node > 1,
        "gpu_type": place.gpu_type,
        "qos": place.qos,
        "container": shape.container,
    }
    return all(getattr(table, name) in (None, value) for name, value in facts.items()) and (
        table.partition is None or set(place.partitions) == {table.partition}
    )


def _groups(site: Site, shape: Shape) -> Iterator[dict[str, str]]:
    yield site.env.always
    if shape.nodes * shape.gpus_per_node > 1:
        yield site.env.multi_gpu
    if shape.nodes > 1 and shape.gpus_per_node:
        yield site.env.multi_node


def _launch(*tables: LaunchOptions) -> LaunchOptions:
    return LaunchOptions(
        srun=_joined(*(table.srun for table in tables)),
        torchrun=next((table.torchrun for table in reversed(tables) if table.torchrun), ()),
        torchrun_options=_joined(*(table.torchrun_options for table in tables)),
        mpi=next((table.mpi for table in reversed(tables) if table.mpi), None),
        before=_joined(*(table.before for table in tables)),
        before_on_each_node=_joined(*(table.before_on_each_node for table in tables)),
    )


def _merged(*tables: dict[str, T]) -> dict[str, T]:
    return {key: value for table in tables for key, value in table.items()}


def _joined(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for part in parts for word in part)
