from pathlib import Path

import pytest

from slurmgen.errors import ConfigError, RequestError
from slurmgen.remote import ssh_config
from slurmgen.remote.ssh_config import Destination, destination


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "me")
    monkeypatch.setattr(ssh_config, "SYSTEM_CONFIG", tmp_path / "system")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def said(home: Path, text: str, name: str = "far") -> Destination:
    (home / ".ssh/config").write_text(text)
    return destination(name)


def test_without_a_config_a_name_is_a_host() -> None:
    to = destination("login.site.org")
    assert (to.host, to.port, to.user, to.host_key_name) == ("login.site.org", 22, "me", "login.site.org")


def test_host_port_user_and_keys_come_from_the_config(home: Path) -> None:
    to = said(
        home,
        "Host far\n HostName Login.Site.org\n Port 2222\n User you\n IdentityFile ~/.ssh/a\n"
        ' IdentityFile "~/.ssh/b c"\n IdentitiesOnly yes\n UserKnownHostsFile ~/one ~/two\n',
    )
    assert (to.host, to.port, to.user) == ("login.site.org", 2222, "you")
    assert to.identity_files == (home / ".ssh/a", home / ".ssh/b c")
    assert to.identities_only
    assert to.known_hosts[:2] == (home / "one", home / "two")
    assert to.host_key_name == "[login.site.org]:2222"


def test_a_user_before_the_host_overrules_the_config(home: Path) -> None:
    assert said(home, "Host far\n User you\n", "other@far").user == "other"


def test_the_first_value_counts_as_in_openssh(home: Path) -> None:
    assert said(home, "Host far\n Port 1\nHost *\n Port 2\n User late\n").port == 1


def test_an_include_is_read_where_it_stands(home: Path) -> None:
    (home / ".ssh/conf.d").mkdir()
    (home / ".ssh/conf.d/a").write_text("Host far\n Port 7\n")
    to = said(home, "Include conf.d/*\nHost far\n Port 8\n")
    assert to.port == 7


def test_after_an_include_the_block_around_it_goes_on(home: Path) -> None:
    (home / ".ssh/extra").write_text("Host other\n User wrong\n")
    to = said(home, "Host far\n Include extra\n Port 9\n User right\nHost other\n Port 1\n")
    assert (to.port, to.user) == (9, "right")


def test_a_file_that_includes_itself_comes_to_an_end(home: Path) -> None:
    assert said(home, "Include config\nHost far\n Port 5\n").port == 5


def test_a_host_key_alias_is_the_name_in_known_hosts(home: Path) -> None:
    assert said(home, "Host far\n Port 99\n HostKeyAlias cluster\n").host_key_name == "cluster"


def test_a_named_config_is_read_alone(home: Path) -> None:
    (home / ".ssh/config").write_text("Host far\n User you\n")
    (home / "mine").write_text("Host far\n Port 4\n")
    to = destination("far", str(home / "mine"))
    assert (to.port, to.user) == (4, "me")


def test_a_proxy_command_is_filled_in(home: Path) -> None:
    to = said(home, "Host far\n HostName h\n Port 3\n ProxyCommand nc %h %p\n")
    assert to.proxy_command == "nc h 3"


def test_a_jump_is_refused_with_what_to_write_instead(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"not support yet.*ProxyCommand ssh -W %h:%p gate"):
        said(home, "Host far\n ProxyJump gate\n")


def test_proxy_jump_none_is_no_jump(home: Path) -> None:
    assert said(home, "Host far\n ProxyJump none\n").proxy_command is None


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=x", "a b", "a;b", "$(a)", "a@b@-c", "-x@host", "`a`@host", "", "a\nb"]
)
def test_what_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is no host name"):
        destination(name)


@pytest.mark.parametrize("text", ["nonsense\n", "Host far\n Port many\n"])
def test_a_broken_config_is_told_as_one(home: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        said(home, text)


def test_a_missing_config_is_told(home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        destination("far", str(home / "none"))
