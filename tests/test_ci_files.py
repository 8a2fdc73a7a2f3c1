"""The pre-commit hooks, the GitHub Action and the examples on docs/ci.md, as other repositories use them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurmgen.cli import COMMANDS
from tests.conftest import REPOSITORY, Run

HOOKS: list[dict[str, Any]] = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text())
PAGE = (REPOSITORY / "docs" / "ci.md").read_text()
SNIPPETS: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
]
HERE = f"{sys.executable} -m slurmgen"
FAULTY = "#!/bin/bash\nsrun hostname\n#SBATCH --nodes=2\n"


@pytest.fixture
def repository(tmp_path: Path, slurmgen: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Git repository with a project, its scripts, and hooks that use the Python of the tests."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / ".git" / "pre-commit"))
    (tmp_path / "slurmgen.toml").write_text('site = "generic"\n[job.cifar]\n')
    slurmgen("render", "--all", "--write")
    hooks = [
        {**hook, "language": "system", "entry": hook["entry"].replace("slurmgen", HERE)} for hook in HOOKS
    ]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run("git", "init", "--quiet", cwd=tmp_path)
    return tmp_path


def run(*command: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def hook(name: str, repository: Path) -> "subprocess.CompletedProcess[str]":
    run("git", "add", "--all", cwd=repository)
    return run(sys.executable, "-m", "pre_commit", "run", name, cwd=repository)


def test_the_check_hook_passes_until_a_script_is_edited(repository: Path) -> None:
    passed = hook("slurmgen-check", repository)
    assert (passed.returncode, "Passed" in passed.stdout) == (0, True), passed.stdout
    with (repository / "slurm" / "cifar.generic.sbatch").open("a") as script:
        script.write("echo done\n")
    failed = hook("slurmgen-check", repository)
    assert failed.returncode == 1
    assert "slurm/cifar.generic.sbatch: edited by hand" in failed.stdout
    assert "\n-echo done\n" in failed.stdout


def test_the_check_hook_reports_a_deleted_script(repository: Path) -> None:
    hook("slurmgen-check", repository)
    (repository / "slurm" / "cifar.generic.sbatch").unlink()
    assert "slurm/cifar.generic.sbatch: missing" in hook("slurmgen-check", repository).stdout


def test_the_lint_hook_passes_until_a_script_has_a_fault(repository: Path) -> None:
    assert hook("slurmgen-lint", repository).returncode == 0
    (repository / "faulty.slurm").write_text(FAULTY)
    failed = hook("slurmgen-lint", repository)
    assert failed.returncode == 1
    assert "faulty.slurm" in failed.stdout


def act(folder: Path, files: str, check: str) -> "subprocess.CompletedProcess[str]":
    """Run the last step of the action as its runner does, with the slurmgen of this checkout."""
    installed = folder / ".git" / "slurmgen" / "bin" / "python"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    installed.chmod(0o755)
    step = ACTION["runs"]["steps"][-1]
    assert step["env"].keys() == {"FILES", "CHECK", "FOLDER"}
    return run_step(step, folder, FILES=files, CHECK=check, FOLDER=".", RUNNER_TEMP=str(folder / ".git"))


def run_step(step: dict[str, Any], folder: Path, **values: str) -> "subprocess.CompletedProcess[str]":
    said = [f"{name}={value}" for name, value in values.items()]
    return run(
        "env", *said, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"], cwd=folder
    )


def set_traps(folder: Path) -> Path:
    """Adds modules to the checkout that write a file if they are imported; returns that file."""
    mark = folder / ".git" / "imported"
    for name in ("venv", "logging", "pip", "click", "json", "slurmgen", "sitecustomize", "hatchling"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    return mark


def test_the_action_passes_for_correct_scripts(repository: Path) -> None:
    result = act(repository, "", "true")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_action_annotates_a_script_that_is_out_of_date(repository: Path) -> None:
    (repository / "slurm" / "cifar.generic.sbatch").unlink()
    result = act(repository, "", "true")
    assert result.returncode == 1
    assert result.stdout.startswith("::error file=slurm/cifar.generic.sbatch,title=slurmgen check::missing.")


def test_the_action_annotates_a_fault(repository: Path) -> None:
    (repository / "a b").mkdir()
    (repository / "a b" / "faulty.sbatch").write_text(FAULTY)
    result = act(repository, "**/*.sbatch", "false")
    assert result.returncode == 1
    assert re.search(r"^::\w+ file=a b/faulty\.sbatch,line=3", result.stdout, re.MULTILINE), result


def test_the_action_lints_without_importing_from_the_checkout(repository: Path) -> None:
    mark = set_traps(repository)
    result = act(repository, "**/*.sbatch", "true")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not mark.exists()


def test_the_action_installs_without_importing_from_the_checkout(repository: Path) -> None:
    mark = set_traps(repository)
    (install,) = (step for step in ACTION["runs"]["steps"] if step.get("name") == "Install slurmgen")
    values = {"PYTHON": sys.executable, "RUNNER_TEMP": str(repository / ".git")}
    # pip stops before it downloads the first package: tests have no network.
    result = run_step(install, repository, GITHUB_ACTION_PATH=str(REPOSITORY), PIP_NO_INDEX="1", **values)
    assert "No matching distribution found" in result.stderr
    assert not mark.exists()


def test_the_lint_hook_does_not_parse_file_names_as_options(repository: Path) -> None:
    (repository / "--site=nowhere.sbatch").write_text(FAULTY)
    failed = hook("slurmgen-lint", repository)
    assert failed.returncode == 1
    assert "--site=nowhere.sbatch:3:1: error SG103" in failed.stdout


def uses() -> list[tuple[str, str]]:
    """Every action that is used, with its version."""
    paths = [REPOSITORY / "action.yml", *(REPOSITORY / ".github" / "workflows").iterdir()]
    text = PAGE + "".join(path.read_text() for path in paths)
    return re.findall(r"uses: ([\w/-]+)@(.*)", text.replace("OWNER/", "./"))


def test_every_action_is_pinned_to_one_version_everywhere() -> None:
    assert all(re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version) for _, version in uses())
    assert len(dict(uses())) == len(set(uses())) >= 5


def test_the_scripts_of_the_action_pass_shellcheck() -> None:
    for step in ACTION["runs"]["steps"]:
        if "run" in step:
            checked = subprocess.run(
                ["shellcheck", "--shell=bash", "-"], input=step["run"], text=True, check=False
            )
            assert checked.returncode == 0


def test_the_action_reads_its_inputs_from_the_environment_only() -> None:
    """An input that is inserted into the text of a script could be run as code."""
    assert not [step for step in ACTION["runs"]["steps"] if "${{" in step.get("run", "")]


def test_every_command_named_in_these_files_exists() -> None:
    texts = [(REPOSITORY / name).read_text() for name in (".pre-commit-hooks.yaml", "action.yml")]
    named = re.findall(r"^\s*(?:- |entry: )?slurmgen ([a-z]+)", "\n".join([*texts, PAGE]), re.MULTILINE)
    assert set(named) == {"lint", "check"} <= set(COMMANDS)


def test_the_snippets_name_hooks_and_inputs_that_exist() -> None:
    pre_commit, github, gitlab = SNIPPETS
    assert [hook["id"] for hook in pre_commit["repos"][0]["hooks"]] == [hook["id"] for hook in HOOKS]
    steps = github["jobs"]["scripts"]["steps"]
    assert steps[-1]["with"].keys() <= ACTION["inputs"].keys()
    assert [line.split()[0] for line in gitlab["slurm-scripts"]["script"]] == ["slurmgen", "slurmgen"]


def test_pre_commit_accepts_the_hooks() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"]
    result = run(*command, cwd=REPOSITORY)
    assert (result.returncode, result.stdout) == (0, "")
