"""How one server of the page is set up."""

from dataclasses import dataclass, field
from secrets import token_urlsafe

from slurmgen.web.limits import Limits


@dataclass(frozen=True)
class Settings:
    """What differs between servers."""

    limits: Limits | None = None
    "What one client may use of a public server; None for a local one."
    hosts: tuple[str, ...] = ()
    """Names of the server, such as `127.0.0.1`; none: any, for a public one. Any port is accepted, because
    ssh and editors forward another one."""
    base_path: str = ""
    """The path before all addresses, such as `/slurmgen`, behind a proxy. The last part of a local one is
    secret: a browser sends the cookie to every port of a host, but only below this path."""
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    "A local server requires it once, in the first address; then a cookie has it."

    @property
    def public(self) -> bool:
        """Whether anyone may use the server. It has no jobs, no project and no login."""
        return self.limits is not None

    def url(self, path: str) -> str:
        """The address of a page on this server, such as `/lint`."""
        return f"{self.base_path}{path}"
