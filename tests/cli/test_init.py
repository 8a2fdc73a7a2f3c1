"""`slurmgen init`: the site of this machine, and the slurmgen.toml of a new project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen import load_site
from slurmgen.cli.init import site_here, starter
from slurmgen.launchers import LAUNCHERS
from tests.conftest import REPOSITORY, Run
from tests.support.programs import write_programs

SITES = [load_site(name) for name in ("daic", "generic", "olivia")]


@pytest.fixture(autouse=True)
def no_slurm(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `scontrol` without a controller, whatever this machine runs."""
    folder = tmp_path_factory.mktemp("bin")
    return fake_scontrol(folder, "exit 1", monkeypatch)


def fake_scontrol(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_programs(folder, {"scontrol": line})
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("login.daic.tudelft.nl", "daic"),
        ("login1.DAIC.tudelft.nl", "daic"),
        ("olivia.sigma2.no", "olivia"),
        ("login-3.olivia.sigma2.no", "olivia"),
        ("login-1.saga.sigma2.no", None),
        ("pc.tudelft.nl", None),
        ("notdaic.tudelft.nl", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_a_host_belongs_to_the_site_of_its_domain(host: str, site: str | None) -> None:
    assert site_here(host, "", SITES) == site


def test_the_cluster_name_of_slurm_is_the_site() -> None:
    config = "AuthType = auth/munge\nClusterName             = Olivia\nx = daic\n"
    assert site_here("login1", config, SITES) == "olivia"


def test_the_starter_names_every_launcher() -> None:
    comment = next(line for line in starter(SITES[0]).splitlines() if line.startswith("framework"))
    assert set(re.findall(r"[a-z-]+", comment.replace("framework", ""))) == {"or", *LAUNCHERS}


def test_init_queries_the_slurm_of_this_machine(
    no_slurm: Path, tmp_path: Path, slurmgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_scontrol(no_slurm, 'echo "ClusterName = daic"', monkeypatch)
    result = slurmgen("init")
    assert 'site = "daic"' in (tmp_path / "slurmgen.toml").read_text()
    assert "daic needs your account" in result.stderr


def test_the_site_is_generic_without_a_terminal(tmp_path: Path, slurmgen: Run) -> None:
    result = slurmgen("init", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith("wrote slurmgen.toml\nNext:\n  $EDITOR slurmgen.toml ")
    assert 'site = "generic"' in (tmp_path / "slurmgen.toml").read_text()


def test_on_a_terminal_init_prompts_for_the_site(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"oliva\nolivia\n")
    command = [sys.executable, "-m", "slurmgen", "init"]
    result = subprocess.run(command, cwd=tmp_path, stdin=theirs, capture_output=True, timeout=60, check=False)
    os.close(ours)
    os.close(theirs)
    assert result.returncode == 0, result.stderr
    assert b"error: there is no site 'oliva'. Did you mean olivia?" in result.stderr
    assert re.search(rb"Which site\? \(.*daic.*generic.*olivia.*\) \[generic\]: ", result.stderr)
    assert 'site = "olivia"' in (tmp_path / "slurmgen.toml").read_text()


@pytest.mark.parametrize("name", ["daic", "generic", "olivia"])
def test_the_file_that_init_writes_can_be_rendered_and_checked(
    name: str, tmp_path: Path, slurmgen: Run
) -> None:
    assert slurmgen("init", "--site", name, "--training").returncode == 0
    path = tmp_path / "slurmgen.toml"
    path.write_text(path.read_text().replace('# account = "..."', 'account = "nn1k"', 1))
    assert slurmgen("render", "--all", "--write").stderr == f"wrote slurm/cifar.{name}.sbatch\n"
    assert slurmgen("check").returncode == 0


def test_every_commented_key_is_valid_once_uncommented(tmp_path: Path, slurmgen: Run) -> None:
    text = starter(load_site("daic")).replace("OTHER", "olivia").replace('"..."', '"nn1k"')
    lines = [line.removeprefix("# ") if "=" in line or "[" in line else line for line in text.splitlines()]
    (tmp_path / "slurmgen.toml").write_text("\n".join(lines))
    assert slurmgen("render", "--all", "--write").stderr.count("wrote ") == 2


@pytest.mark.parametrize(
    ("name", "args"), [("slurmgen.toml", []), ("slurmgen.toml", ["--training"]), ("training", ["--training"])]
)
def test_init_overwrites_no_existing_file(name: str, args: list[str], tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / name).write_text("mine")
    result = slurmgen("init", "--site", "generic", *args)
    assert (result.returncode, result.stderr) == (
        2,
        f"error: {name} exists already. It is not overwritten; remove it to start again.\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_training_examples_are_copied_on_request(tmp_path: Path, slurmgen: Run) -> None:
    slurmgen("init", "--site", "generic", "--training")
    tracked = subprocess.run(
        ["git", "ls-files", "training"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    copied = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("training/**/*.*")}
    assert set(tracked) <= copied
    assert not [name for name in copied if "__pycache__" in name]


def test_an_unknown_site_is_refused_before_anything_is_written(tmp_path: Path, slurmgen: Run) -> None:
    assert "Did you mean daic?" in slurmgen("init", "--site", "dapc").stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["slurmgen.toml", "training"])
def test_init_writes_through_no_link(name: str, tmp_path: Path, slurmgen: Run) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "elsewhere")
    result = slurmgen("init", "--site", "generic", "--training", cwd=folder)
    assert (result.returncode, f"{name} exists already" in result.stderr) == (2, True)
    assert [path.name for path in folder.iterdir()] == [name]
    assert not (tmp_path / "elsewhere").exists()
