"""The Slurm that a twin runs: of this machine, or another release from Debian's packages."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError, TwinError
from slurmgen.sites.model import Site
from slurmgen.twin import daemons
from slurmgen.twin.configuration import slurm_conf, sshd_config, task_prolog
from slurmgen.twin.installation import Installation, find, installed
from tests.support.programs import write_programs
from tests.support.twins import Testbed, slurm
from tests.twin.test_twin_config import layout

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OTHER = Installation((24, 11), Path("/cache/slurm/bin"), Path("/cache/slurm/lib/slurm-wlm"))
RELEASES = ["22.05", "24.11"]


@pytest.fixture
def other() -> str:
    """A release of Debian that this machine does not have."""
    return next(release for release in RELEASES if release != str(installed()))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/slurmgen/slurm"


def test_daemons_commands_jobs_and_ssh_sessions_have_one_release(daic: Testbed) -> None:
    release = str(slurm())
    config = daic.run("scontrol", "show", "config")
    assert re.findall(r"^SLURM_VERSION += (\d+\.\d+)", config, re.MULTILINE) == [release]
    nodes = daic.run("scontrol", "--oneliner", "show", "nodes")
    assert re.findall(r" Version=(\d+\.\d+)", nodes) == [release] * 2
    log = daic.batch("#!/bin/bash\nscontrol --version\nsrun scontrol --version\n", "--export=NONE")
    ssh = daic.run("ssh", "-F", str(daic.twin.ssh_config), "daic", "sbatch --version")
    assert re.findall(r"^\D+(\d+\.\d+)", log + ssh, re.MULTILINE) == [release] * 3


def test_the_release_of_this_machine_is_not_installed_again(cache: Path) -> None:
    assert find(str(installed())) == find() == Installation(installed().version)
    assert not cache.exists()


def test_another_release_in_path_is_not_that_of_this_machine(
    cache: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`twin up --slurm` has the user put it there."""
    mine = installed()
    folder = cache / f"{other}-{os.uname().machine}/bin"
    write_programs(folder, {"slurmctld": f"echo slurm-wlm {other}.5"})
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert installed() == mine


def test_an_unknown_release_is_rejected_with_the_known_ones(slurmgen: Run) -> None:
    up = slurmgen("twin", "up", "--site", "daic", "--slurm", "24.12")
    assert up.returncode == 3
    assert up.stderr == "error: a twin cannot run Slurm 24.12. Give one of 22.05, 24.11.\n"


def test_an_installed_release_is_used_without_packages(
    cache: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache / f"{other}-{os.uname().machine}"
    write_programs(folder / "bin", {"slurmctld": f"echo slurm-wlm {other}.5"})
    monkeypatch.setenv("PATH", "/nonexistent")
    found = find(other)
    assert (str(found), found.bin, found.plugins) == (other, folder / "bin", folder / "lib/slurm-wlm")


def test_an_installation_of_another_release_is_rejected(cache: Path, other: str) -> None:
    write_programs(cache / f"{other}-{os.uname().machine}/bin", {"slurmctld": "echo slurm-wlm 25.05.1"})
    with pytest.raises(TwinError, match=rf"has Slurm 25\.05, not {re.escape(other)}"):
        find(other)


def test_an_installation_that_another_user_may_change_is_not_used(cache: Path, other: str) -> None:
    write_programs(cache / f"{other}-{os.uname().machine}/bin", {"slurmctld": f"echo slurm-wlm {other}.5"})
    cache.chmod(0o777)
    with pytest.raises(ConfigError, match="other users may write"):
        find(other)


@pytest.mark.parametrize(
    ("missing", "fact"),
    [
        ("apt-get", r"without apt-get, dpkg-deb"),
        ("source", r"apt has no package source of Debian"),
    ],
)
def test_a_machine_without_debians_packages_cannot_install(
    missing: str, fact: str, cache: Path, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    if missing == "source":
        write_programs(tools, {"apt-get": "echo 'Docker|Docker CE|file:/linux/debian'", "dpkg-deb": ""})
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(TwinError, match=fact):
        find(other)


def test_a_failed_installation_leaves_nothing(
    cache: Path, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists, fails = (
        "*indextargets*) echo 'Debian|Debian|file:/mirror/debian/';;",
        '*) echo "E: no network" >&2; exit 100;;',
    )
    script = f'case "$*" in {lists} {fails} esac'
    write_programs(tmp_path / "tools", {"apt-get": script})
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:{os.environ['PATH']}")
    lines: list[str] = []
    with pytest.raises(TwinError, match=r"apt-get failed:\n  E: no network\. Check the network"):
        find(other, lines.append)
    assert len(lines) == 1
    assert f"installing Slurm {other} from Debian's packages" in lines[0]
    assert list(cache.iterdir()) == []


def test_the_configuration_names_the_folders_of_another_release() -> None:
    here = layout(Site(name="x"), slurm=OTHER)
    assert '\nPluginDir="/cache/slurm/lib/slurm-wlm"\n' in slurm_conf(here)
    assert "PATH=/cache/slurm/bin:${PATH:-" in task_prolog(here)
    assert " PATH=/cache/slurm/bin:/usr/local/sbin:" in sshd_config(here)
    slurmd = daemons.slurm(here, "slurmctld", "slurmd")[1]
    assert slurmd.argv[slurmd.argv.index("-d") + 1] == "/cache/slurm/bin/slurmstepd"
