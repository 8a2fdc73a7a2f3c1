"""Personal: the user's own settings for each site, in personal.toml.

`personal.toml` in the config folder has one table per site. It fills in what is unset when a job is
submitted or rendered to stdout. A script that is written to a file never depends on it.
"""

import os
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from slurmgen.errors import ConfigError, SlurmgenError
from slurmgen.files import config_folder
from slurmgen.request.model import Request
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import VariableName
from slurmgen.toml import convert, read_own

FILE_NAME = "personal.toml"


class Personal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own settings for one site."""

    user: str | None = None
    "Login name."
    host: str | None = None
    "Login host, or its alias in ssh_config, instead of the profile's."
    account: str | None = None
    remote_dir: str | None = None
    "Remote folder for submissions."
    image: str | None = None
    "Container image, where the site has none of its own."
    ssh_config: str | None = None
    ssh_client: Literal["paramiko", "openssh"] | None = None
    "SSH client: paramiko, or openssh, which can share a login between commands."
    secrets: tuple[VariableName, ...] | None = None
    "Variables that every project may send into its jobs there, without asking."
    mail_user: str | None = None
    "Address for the mail of jobs with `mail`."
    bad_node_days: Annotated[float, Meta(ge=0, le=3650)] | None = None
    "Days for which new jobs exclude a bad node; default: 7."


def load_personal(site: str) -> Personal:
    """The user's settings for a site; all unset if personal.toml has none.

    Raises:
        ConfigError: the file is wrong, or another user may change it.
    """
    return _settings().get(site, Personal())


def personal_sites() -> tuple[str, ...]:
    """The sites that personal.toml has settings for; it raises the same errors."""
    return tuple(_settings())


def _settings() -> dict[str, Personal]:
    path = config_folder() / FILE_NAME
    return convert(read_own(path), dict[str, Personal], path) if os.path.lexists(path) else {}


def fill(request: Request, personal: Personal, site: Site) -> Request:
    """The request, with the user's own account, image and address where they are unset."""
    image = site.container.image if site.container else None
    wants_python = (request.python_env or "none") != "none"
    own_image = None if image or wants_python else personal.image
    return structs.replace(
        request,
        account=personal.account if request.account is None else request.account,
        mail_user=personal.mail_user if request.mail and request.mail_user is None else request.mail_user,
        container=own_image if request.container is None else request.container,
    )


def left_out(request: Request, site: Site) -> tuple[str, ...]:
    """The settings of the user that a script in a file does not use, and one on stdout would.

    None if personal.toml is wrong: such a script does not depend on it.
    """
    with suppress(ConfigError):
        filled = fill(request, load_personal(site.name), site)
        keys = {"account": "account", "container": "image", "mail_user": "mail_user"}
        return tuple(keys[key] for key in keys if getattr(filled, key) != getattr(request, key))
    return ()


def account_hint(error: SlurmgenError, request: Request, site: Site) -> str:
    """The hint at the user's account for an error about a missing one, in a script in a file."""
    if error.field != "account" or "account" not in left_out(request, site):
        return ""
    return f" {FILE_NAME} has one, which a script in a file does not use: write it into slurmgen.toml."
