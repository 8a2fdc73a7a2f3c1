"""How one server of the page is set up."""

from dataclasses import dataclass, field
from secrets import token_urlsafe


@dataclass(frozen=True)
class Settings:
    """What differs between servers. A public one has no jobs, no project and no login."""

    public: bool = False
    hosts: tuple[str, ...] = ()
    "Accepted values of the Host header, such as `127.0.0.1:8000`; none: any, for a public server."
    base_path: str = ""
    "The path before all addresses, such as `/slurmgen`, behind a proxy."
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    "A local server requires it once, in the first address; then a cookie has it."

    @property
    def cookie(self) -> str:
        """The name of the cookie, which differs by port: cookies do not."""
        return f"slurmgen-{self.hosts[0].rpartition(':')[2]}" if self.hosts else "slurmgen"

    def url(self, path: str) -> str:
        """The address of a page on this server, such as `/lint`."""
        return f"{self.base_path}{path}"
