"""How Jinja reads the templates of a batch script."""

from typing import TYPE_CHECKING

from slurmgen.slurm.shell import quote

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment

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
