"""The slurmgen.toml of a new project, and the site that the user is logged in to."""

import re
from collections.abc import Iterable, Mapping
from string import Template

from slurmgen.launchers import LAUNCHERS
from slurmgen.sites.model import Site
from slurmgen.text import toml_key, toml_value

_STARTER = Template("""\
# The jobs of this project. `slurmgen render --all --write` writes a batch script for each, to be checked in;
# `slurmgen check` reports those that are out of date.
site = "$site"  # `slurmgen sites` lists all sites

[defaults]  # for every job
$account
time = "01:00:00"

$jobs
# What differs on another site. The job then has a script for that site too.
# [job.$first.site.OTHER]
# gpus = 4
# account = "..."
""")


_EXAMPLE = """\
[job.cifar]  # `slurmgen submit cifar`
framework = "ddp"  # or {others}
gpus = 1  # total of the job, as in Slurm
script = "training/train_ddp.py"  # an example of slurmgen; replace it by your own
script_args = ["--data", "synthetic", "--model", "cnn", "--limit", "512", "--epochs", "2"]
"""


_NOTHING = """\
# No program was found: a Python file that imports a framework, and parses arguments or runs as a program.
# [job.train]  # `slurmgen submit train`
# script = "train.py"
# framework = "ddp"  # or {others}
# gpus = 1  # total of the job, as in Slurm
"""


_OTHERS = ", ".join(name for name in LAUNCHERS if name != "ddp")
_CLUSTER_NAME = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)


def starter(site: Site, tables: Mapping[str, str] | None = None, account: str = "") -> str:
    """A slurmgen.toml for a site, with comments on what to change.

    Args:
        tables: the table of each job of the project; unset: a bundled job that runs unchanged.
        account: the account to charge, if it is known.
    """
    example = _EXAMPLE if tables is None else _NOTHING
    jobs = "\n".join((tables or {}).values()) or example.format(others=_OTHERS)
    first = next(iter(tables or {}), "cifar" if tables is None else "train")
    hint = site.account.hint or "the account to charge, if the site needs one"
    line = f"account = {toml_value(account)}" if account else f'# account = "..."  # {hint}'
    return _STARTER.substitute(site=site.name, account=line, jobs=jobs, first=toml_key(first))


def site_here(host: str, slurm_config: str, sites: Iterable[Site]) -> str | None:
    """The site of a host, by its full name or by the output of `scontrol show config`."""
    cluster = _CLUSTER_NAME.search(slurm_config)
    for site in sites:
        if _is_of(host.lower(), site) or (cluster and cluster[1].lower() == site.name.lower()):
            return site.name
    return None


def _is_of(host: str, site: Site) -> bool:
    """Whether a host is in the domain of a site's login host.

    The domain begins with the site's own name, since neighbouring sites share what follows:
    login-1.olivia.sigma2.no is Olivia, login-1.saga.sigma2.no is not.
    """
    if not site.login.host:
        return False
    labels = site.login.host.lower().split(".")
    name = site.name.lower()
    domain = ".".join(labels[labels.index(name) :] if name in labels else labels)
    return host == domain or host.endswith(f".{domain}")
