"""How users reach a cluster and what jobs cost there, and the sources of a profile."""

from typing import Annotated, Literal

from msgspec import Meta

from slurmgen.sites.facts import MOST, Address, Count, Date, Fact, Host, JumpHost, PartitionName

LoginMethod = Literal["password", "key", "otp", "certificate"]
Mark = Literal["documentation", "configuration", "users", "inferred", "discovered"]


Rate = Annotated[float, Meta(ge=0, le=MOST)]


class Account(Fact, frozen=True):
    """Whether a job must name the account it is charged to."""

    required: bool = False
    "Whether a job must name an account."
    hint: str | None = None
    "How users find their account; printed when it is missing."


class Login(Fact, frozen=True):
    """The login nodes and the methods of authentication."""

    host: Host | None = None
    "The login host."
    other_hosts: tuple[Host, ...] = ()
    "Further login hosts."
    jump_host: JumpHost | None = None
    "The host that connections go through, unless ssh_config has ProxyJump or ProxyCommand for the host."
    automation_host: Host | None = None
    "The host for unattended logins with a restricted key."
    transfer_hosts: tuple[Host, ...] = ()
    "Hosts for copying large files; for readers."
    methods: tuple[LoginMethod, ...] = ()
    "What a login needs."
    certificate_hours: Count | None = None
    "The lifetime of an SSH certificate."
    certificate_command: str | None = None
    "The command that gets a certificate, such as `clifton auth`."
    note: str | None = None
    "What else users must know."


class Charge(Fact, frozen=True):
    """What a job costs in the site's own unit."""

    unit: str = "GPU hours"
    "The unit of the site."
    per: Literal["gpu", "node"] = "gpu"
    "What is charged."
    rate: Rate = 1.0
    "Units for an hour of one GPU or node."
    rates: dict[PartitionName, Rate] = {}
    "Other rates by QoS, partition or GPU type, of which the first that has one counts."


class Source(Fact, frozen=True):
    """Where facts of a profile come from."""

    mark: Mark
    "The site's documentation, a configuration in production elsewhere, users' scripts, or a conclusion."
    title: str
    "The title of the page, repository or notes."
    url: Address | None = None
    "Its address."
    date: Date | None = None
    "The date of its version: YYYY-MM-DD, or YYYY-MM or YYYY if no more is known."
    facts: tuple[str, ...] = ()
    "The keys that it supports, such as `gpu.request`, or tables; if unset, all that no other source names."

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"{self.mark}: {self.title}", self.date, self.url]))
