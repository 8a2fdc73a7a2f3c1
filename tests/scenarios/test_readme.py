"""Every command of the README, in order, in one folder."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY
from tests.scenarios.conftest import BIN
from tests.support.fork_server import warm
from tests.support.twins import environment, twin

README = (REPOSITORY / "README.md").read_text()
IN_CHECKOUT = ("make ", "uvx ")

# The login host of DAIC is a twin here, and Python comes from this checkout instead of `uv sync`.
PERSONAL = '[daic]\naccount = "ewi-insy-prb"\nremote_dir = "{folder}/remote"\nssh_config = "{ssh_config}"\n'
PROFILE = 'name = "daic"\nextends = "daic"\npython_env = "venv:{venv}"\n'


PROGRAM = "import lightning as L\n" + "\n" * 10 + "trainer = L.Trainer(devices=4, num_nodes=2)\n"


class Step(NamedTuple):
    """A command, the output that the README shows, and the files that it shows before."""

    command: str
    shown: str
    files: dict[str, str]


def steps() -> Iterator[Step]:
    files: dict[str, str] = {}
    for kind, block in re.findall(r"```(console|toml)\n(.*?)```", README, re.DOTALL):
        if kind == "toml":
            name, text = block.removeprefix("# ").split("\n", 1)
            files = files | {name: text}
        else:
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                yield Step(command, shown, files)


STEPS = list(steps())


class Newcomer(NamedTuple):
    """The folder and environment of a new user, and the files of the configuration folder."""

    folder: Path
    environ: dict[str, str]
    config: dict[str, str]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    base = tmp_path_factory.mktemp("newcomer")
    folder = base / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    environ = environment(base / "home") | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    warm()
    with twin("daic", ssh=True) as cluster:
        config = {
            "personal.toml": PERSONAL.format(folder=base, ssh_config=cluster.twin.ssh_config),
            "site_profiles/daic.toml": PROFILE.format(venv=BIN.parent),
        }
        yield Newcomer(folder, environ, config)
        subprocess.run(
            [BIN / "slurmgen", "twin", "down", "--all"], env=environ, capture_output=True, check=False
        )


def lay_out(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("step", STEPS, ids=[step.command for step in STEPS])
def test_a_command_of_the_readme_succeeds_with_the_shown_output(step: Step, newcomer: Newcomer) -> None:
    if step.files:
        lay_out(step.files, newcomer.folder)
        lay_out(newcomer.config, Path(newcomer.environ["XDG_CONFIG_HOME"], "slurmgen"))
    result = subprocess.run(
        ["bash", "-c", step.command],
        cwd=REPOSITORY if step.command.startswith(IN_CHECKOUT) else newcomer.folder,
        env=newcomer.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == (2 if step.shown.startswith("error: ") else 0), result.stdout
    assert not step.shown or result.stdout == step.shown


def test_every_command_of_the_readme_is_run() -> None:
    """Blocks of text are recorded."""
    console = re.sub(r"```text\n.*?```", "", README, flags=re.DOTALL)
    assert len(STEPS) == len(re.findall(r"^\$ ", console, re.MULTILINE))
