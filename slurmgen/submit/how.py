"""How a job is submitted, whichever job it is."""

from pathlib import Path
from typing import Any

from msgspec import Struct, structs

MAX_SIZE = 1 << 30
"Bytes of a project, above which it is not sent unless the user allows it."


class How(Struct, frozen=True, kw_only=True):
    """The options of a submission."""

    via: str | None = None
    "How to reach the site; default: ssh if it has a login host, else local."
    host: str | None = None
    "Login host, as `[USER@]HOST`; default: from personal.toml, else from the profile."
    ssh_config: str | None = None
    ssh_client: str | None = None
    remote_dir: str | None = None
    "The remote folder for submissions; default: from personal.toml, else ~/slurmgen."
    max_size: int = MAX_SIZE
    "Bytes of the project, above which it is refused."
    send: tuple[str, ...] = ()
    "Files to send although they may hold secrets or are ignored."
    exclude_bad_nodes: bool = True
    "Exclude the nodes that are remembered as bad."
    after: tuple[str, ...] = ()
    "The jobs that must end first, each `[TYPE:]JOB`; default: those that the job itself names."
    again: bool = False
    "Submit a new job even if an earlier submission is unsettled."
    command: str = ""
    "The command line that makes the same submission, for the ledger."
    directory: str = ""
    "Where that command line is run."
    cache_dir: Path | None = None
    "A private folder for compiled templates."

    @property
    def route_values(self) -> dict[str, Any]:
        """What chooses the route, for `route_of`."""
        return {name: getattr(self, name) for name in ("via", "host", "ssh_config", "ssh_client")}

    def by_default_to(self, remote_dir: str | None) -> "How":
        """The same, with this folder if none is named."""
        return structs.replace(self, remote_dir=self.remote_dir or remote_dir)


DEFAULT = How()
