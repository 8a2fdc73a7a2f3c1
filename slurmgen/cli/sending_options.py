"""The options for sending the project and submitting its job: of `submit`, `resubmit` and `run`."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from slurmgen.cli.bad_nodes_option import bad_nodes_option, without_bad_nodes
from slurmgen.cli.size_option import max_size_option
from slurmgen.job_spec import JobSpec

if TYPE_CHECKING:
    from slurmgen.jobs.project_content import Upload

project_size_option = max_size_option("1G", "Refuse to send a project that is larger than this.")
send_option = click.option(
    "--send",
    multiple=True,
    metavar="PATH",
    help="Send this file even if it is ignored or may hold secrets; repeatable.",
)


class Sending(Struct, frozen=True, kw_only=True):
    """What these options say."""

    remote_dir: str | None
    max_size: int
    send: tuple[str, ...]
    exclude_bad_nodes: bool

    def upload(self, default_folder: str | None = None) -> "Upload":
        """What is sent of the project, and where to if no folder is named."""
        from slurmgen.jobs.project_content import Upload  # slow to import

        return Upload(self.remote_dir or default_folder, self.max_size, self.send)

    def on_good_nodes(self, job: JobSpec, via: str) -> JobSpec:
        """The job without the nodes that are remembered as bad, if it is not to use them."""
        return without_bad_nodes(job, twin=via == "twin") if self.exclude_bad_nodes else job


def sending_options(condition: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these options; it receives them as `sending`.

    Args:
        condition: when --remote-dir counts, at the start of its help.
    """
    folder = f"{condition}folder on the cluster for submissions; default: ~/slurmgen."
    remote_dir_option = click.option("--remote-dir", metavar="FOLDER", help=folder[0].upper() + folder[1:])
    options = (remote_dir_option, project_size_option, send_option, bad_nodes_option(default=True))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **params: Any) -> Any:
            sending = Sending(**{key: params.pop(key) for key in Sending.__struct_fields__})
            return function(*args, sending=sending, **params)

        for option in reversed(options):
            call = option(call)
        return call

    return decorate
