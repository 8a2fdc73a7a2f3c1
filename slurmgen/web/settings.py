"""How one server of the page is set up."""

from dataclasses import dataclass, field
from secrets import token_urlsafe

from slurmgen.web.limits import Limits


@dataclass(frozen=True)
class Settings:
    """What differs between servers. A public one has no jobs, no project and no login."""

    public: bool = False
    hosts: tuple[str, ...] = ()
    """Hosts in the address, such as `127.0.0.1:8000`; none: any, for a public server. Any port is accepted,
    because ssh and editors forward another one; the first port is part of the cookie's name."""
    base_path: str = ""
    "The path before all addresses, such as `/slurmgen`, behind a proxy."
    limits: Limits | None = None
    "For a public server: what one client may use."
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    "A local server requires it once, in the first address; then a cookie has it."

    @property
    def cookie(self) -> str:
        """The name of the cookie, which differs by port: cookies do not."""
        return f"slurmgen-{self.hosts[0].rpartition(':')[2]}" if self.hosts else "slurmgen"

    def url(self, path: str) -> str:
        """The address of a page on this server, such as `/lint`."""
        return f"{self.base_path}{path}"
