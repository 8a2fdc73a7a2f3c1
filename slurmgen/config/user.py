"""Personal: what is yours and not the site's, in a file of your own.

`personal.toml` in the config folder has one table a site. It fills what is unset when
you submit, or render to stdout; a script that is checked in never depends on it.
"""

import os
from typing import Literal

from msgspec import Struct, structs

from slurmgen.paths import config_folder
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.toml_structs import convert, read_own

FILE_NAME = "personal.toml"


class Personal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Your own facts about one site."""

    user: str | None = None
    "Login name."
    host: str | None = None
    "Login host, or its alias in ssh_config, instead of the profile's."
    account: str | None = None
    remote_dir: str | None = None
    "Folder on the site that submissions go to."
    image: str | None = None
    "Container image, where the site has none of its own."
    ssh_config: str | None = None
    ssh_client: Literal["paramiko", "openssh"] | None = None
    "Whose SSH: paramiko, or OpenSSH's own client, which can share one login."


def load_personal(site: str) -> Personal:
    """Your facts about a site; all unset if you wrote none down.

    Raises:
        ConfigError: the file is wrong, or another user may change it.
    """
    path = config_folder() / FILE_NAME
    if not os.path.lexists(path):
        return Personal()
    return convert(read_own(path), dict[str, Personal], path).get(site, Personal())


def fill(request: Request, personal: Personal, site: Site) -> Request:
    """The request with what is unset filled from your own facts."""
    image = site.container.image if site.container else None
    wants_python = (request.python_env or "none") != "none"
    own_image = None if image or wants_python else personal.image
    return structs.replace(
        request,
        account=personal.account if request.account is None else request.account,
        container=own_image if request.container is None else request.container,
    )
