"""The option --exclude-bad-nodes, and what a command prints about the nodes that a job excludes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import say

if TYPE_CHECKING:
    from slurmgen.job_spec import JobSpec


def bad_nodes_option(*, default: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, with the default of the command."""
    return click.option(
        "--exclude-bad-nodes/--no-exclude-bad-nodes",
        default=default,
        show_default=True,
        help="Exclude the nodes that `slurmgen nodes` lists.",
    )


def without_bad_nodes(job: "JobSpec", *, twin: bool = False) -> "JobSpec":
    """The job without the nodes that are remembered as bad; names them on stderr."""
    from slurmgen.jobs.bad_nodes import MOST_EXCLUDED, Place
    from slurmgen.jobs.reported_nodes import excluding, nodes_to_exclude

    nodes = nodes_to_exclude(job, Place(job.site.name, twin))
    if nodes:
        newest = f", the newest {MOST_EXCLUDED} of {len(nodes)}" if len(nodes) > MOST_EXCLUDED else ""
        names = ", ".join(node.node for node in nodes[:MOST_EXCLUDED])
        say(f"excluding bad nodes{newest}: {names}; `slurmgen nodes` says why, and clears them")
    return excluding(job, nodes)
