import pytest

from slurmgen.config.user import Personal
from slurmgen.errors import ConfigError
from slurmgen.remote.route import Route, find_route
from slurmgen.sites.model import Login, Site

AT_HOST = Site(name="s", login=Login(host="login.s.org"))
NOWHERE = Site(name="s")


@pytest.mark.parametrize(
    ("site", "personal", "options", "expected"),
    [
        (AT_HOST, Personal(), {}, ("ssh", "login.s.org")),
        (NOWHERE, Personal(), {}, ("local", None)),
        (AT_HOST, Personal(), {"via": "local"}, ("local", None)),
        (AT_HOST, Personal(), {"via": "twin"}, ("twin", None)),
        (AT_HOST, Personal(host="mine"), {}, ("ssh", "mine")),
        (NOWHERE, Personal(host="mine"), {}, ("ssh", "mine")),
        (AT_HOST, Personal(host="mine"), {"host": "now"}, ("ssh", "now")),
        (AT_HOST, Personal(user="me"), {}, ("ssh", "me@login.s.org")),
        (AT_HOST, Personal(user="me"), {"host": "you@now"}, ("ssh", "you@now")),
    ],
)
def test_options_override_the_personal_file_and_that_the_profile(
    site: Site, personal: Personal, options: dict[str, str], expected: tuple[str, str | None]
) -> None:
    route = find_route(site, personal, **options)  # type: ignore[arg-type]
    assert (route.via, route.host) == expected


def test_an_option_overrides_the_ssh_config_of_the_personal_file() -> None:
    own = Personal(ssh_config="/own")
    assert find_route(AT_HOST, own) == Route(site="s", via="ssh", host="login.s.org", ssh_config="/own")
    assert find_route(AT_HOST, own, ssh_config="/now").ssh_config == "/now"


def test_ssh_without_a_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="--host"):
        find_route(NOWHERE, Personal(), via="ssh")
