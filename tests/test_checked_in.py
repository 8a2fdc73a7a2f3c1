"""Scripts in a repository and slurmgen.toml: `render --all --write` and `check`."""

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen.checked_in import MESSAGES, compare, expected, found
from slurmgen.config.project import Defaults, Job, Project
from slurmgen.launchers import LAUNCHERS
from tests.config.test_project import PERSONAL
from tests.conftest import REPOSITORY, Run

PROJECT = """\
site = "daic"

[defaults]
account = "ewi-insy"

[job.cifar]
gpus = 2

[job.cifar.site.olivia]
gpus = 8

[job.mnist]
framework = "lightning"
sites = ["generic"]
"""
NAMES = ["cifar.daic.sbatch", "cifar.olivia.sbatch", "mnist.generic.sbatch"]


@pytest.fixture
def project(tmp_path: Path, slurmgen: Run) -> Path:
    """A project whose scripts are checked in."""
    (tmp_path / "slurmgen.toml").write_text(PROJECT)
    assert slurmgen("render", "--all", "--write").returncode == 0
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def kinds(slurmgen: Run) -> dict[str, str]:
    """The findings of `check` by file; also checks its exit code."""
    result = slurmgen("check", "--format", "json")
    said = json.loads(result.stdout)
    assert result.returncode == bool(said["findings"])
    return {finding["path"]: finding["kind"] for finding in said["findings"]}


def test_each_job_has_a_script_for_each_of_its_sites(project: Path) -> None:
    assert sorted(path.name for path in (project / "slurm").iterdir()) == NAMES


def test_written_scripts_pass_check_with_one_line_of_output(project: Path, slurmgen: Run) -> None:
    result = slurmgen("check")
    assert (result.returncode, result.stdout, result.stderr) == (
        0,
        "3 scripts match slurmgen.toml\n",
        "",
    )


def test_one_job_can_be_written_alone(project: Path, slurmgen: Run) -> None:
    before = (project / "slurm" / "cifar.olivia.sbatch").read_bytes()
    result = slurmgen("render", "cifar", "--site", "olivia", "--write")
    assert result.stderr == "slurm/cifar.olivia.sbatch is up to date\n"
    assert (project / "slurm" / "cifar.olivia.sbatch").read_bytes() == before


def test_scripts_of_a_changed_job_are_outdated_until_written_again(project: Path, slurmgen: Run) -> None:
    change(project / "slurmgen.toml", "gpus = 8", "gpus = 4")
    assert kinds(slurmgen) == {"slurm/cifar.olivia.sbatch": "outdated"}
    assert slurmgen("render", "--all", "--write").stderr.count("wrote ") == 1
    assert kinds(slurmgen) == {}


def test_the_diff_can_be_applied_with_patch(project: Path, slurmgen: Run) -> None:
    change(project / "slurmgen.toml", "gpus = 8", "gpus = 4")
    lines = slurmgen("check").stdout.splitlines()
    assert lines[:3] == [
        "slurm/cifar.olivia.sbatch: out of date",
        "--- slurm/cifar.olivia.sbatch\tas it is",
        "+++ slurm/cifar.olivia.sbatch\tas slurmgen.toml says",
    ]
    assert "-#SBATCH --nodes=2" in lines
    assert "+#SBATCH --nodes=1" in lines
    assert lines[-1].startswith("1 script does not match slurmgen.toml. `slurmgen render --all --write`")


def test_a_missing_script_is_reported(project: Path, slurmgen: Run) -> None:
    (project / "slurm" / NAMES[0]).unlink()
    assert kinds(slurmgen) == {f"slurm/{NAMES[0]}": "missing"}


def test_a_script_without_a_job_is_reported_unless_it_is_foreign(project: Path, slurmgen: Run) -> None:
    (project / "slurm" / "theirs.sbatch").write_text("#!/bin/bash\nsrun hostname\n")
    change(project / "slurmgen.toml", "[job.mnist]", "[job.digits]")
    assert kinds(slurmgen) == {
        "slurm/digits.generic.sbatch": "missing",
        "slurm/mnist.generic.sbatch": "no-job",
    }


def test_an_edited_script_is_distinguished_from_an_outdated_one(project: Path, slurmgen: Run) -> None:
    change(project / "slurmgen.toml", "gpus = 8", "gpus = 4")
    change(project / "slurm" / "cifar.olivia.sbatch", "--mem=440G", "--mem=100G")
    change(project / "slurm" / "cifar.daic.sbatch", "gpu:2", "gpu:3")
    assert set(kinds(slurmgen).values()) == {"edited"}


def test_a_missing_final_newline_is_shown(project: Path, slurmgen: Run) -> None:
    path = project / "slurm" / NAMES[0]
    path.write_text(path.read_text().removesuffix("\n"))
    assert "\\ No newline at end of file\n+# slurmgen: sha256:" in slurmgen("check").stdout


def test_a_script_redirected_from_stdout_lacks_its_hash(project: Path, slurmgen: Run) -> None:
    (project / "slurm" / NAMES[0]).write_text(slurmgen("render", "cifar").stdout)
    assert kinds(slurmgen) == {f"slurm/{NAMES[0]}": "edited"}


@pytest.mark.parametrize(
    "how", [["--all", "--write"], ["cifar", "--write"], ["cifar", "-o", f"slurm/{NAMES[0]}"]]
)
def test_an_edited_script_is_overwritten_only_with_force(
    how: list[str], project: Path, slurmgen: Run
) -> None:
    path = project / "slurm" / NAMES[0]
    change(path, "set -e", "set -x -e")
    change(project / "slurmgen.toml", "gpus = 2", "gpus = 3")
    before = {path: path.read_bytes() for path in (project / "slurm").iterdir()}
    refused = slurmgen("render", *how)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        f"error: edited by hand, or not written by slurmgen: slurm/{NAMES[0]}. Put what you changed"
    )
    assert "--force" in refused.stderr
    assert before == {path: path.read_bytes() for path in (project / "slurm").iterdir()}
    assert slurmgen("render", *how, "--force").returncode == 0
    assert "set -x" not in path.read_text()


def test_a_foreign_file_is_kept_and_an_empty_one_overwritten(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "empty").touch()
    assert slurmgen("render", "-o", "mine").returncode == 2
    assert (tmp_path / "mine").read_text() == "precious"
    assert slurmgen("render", "-o", "empty").returncode == 0


def test_a_script_can_be_written_to_a_special_file(slurmgen: Run) -> None:
    assert slurmgen("render", "-o", "/dev/stdout").stdout.startswith("#!/bin/bash\n")


def test_a_folder_with_the_name_of_a_script_is_an_error(project: Path, slurmgen: Run) -> None:
    (project / "slurm" / NAMES[0]).unlink()
    (project / "slurm" / NAMES[0]).mkdir()
    assert kinds(slurmgen) == {f"slurm/{NAMES[0]}": "missing"}
    result = slurmgen("render", "--all", "--write")
    assert (result.returncode, result.stderr) == (
        2,
        f"error: slurm/{NAMES[0]} cannot be written: Is a directory.\n",
    )


def test_personal_settings_do_not_affect_checked_in_scripts(
    project: Path, config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text(PERSONAL)
    (config_dir / "site_profiles").mkdir()
    (config_dir / "site_profiles" / "daic.toml").write_text('name = "daic"\nextends = "daic"\ntime = "9"')
    assert kinds(slurmgen) == {}


def test_a_template_of_the_project_is_used(project: Path, slurmgen: Run) -> None:
    (project / "templates").mkdir()
    (project / "templates" / "environment.j2").write_text("echo mine")
    assert set(kinds(slurmgen).values()) == {"outdated"}
    assert len(kinds(slurmgen)) == 3


def test_check_works_from_another_folder(project: Path, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    change(project / "slurm" / NAMES[0], "set -e", "set +e")
    assert slurmgen("check", cwd=tmp_path / "deep" / "er").stdout.startswith(f"../../slurm/{NAMES[0]}: ")
    assert slurmgen("check", str(project), cwd=tmp_path.parent).stdout.startswith(
        f"{tmp_path.name}/slurm/{NAMES[0]}: "
    )


def test_annotations_name_the_file_and_are_escaped(project: Path, slurmgen: Run) -> None:
    change(project / "slurmgen.toml", "job.mnist", "job.digits")
    change(project / "slurmgen.toml", "[defaults]", 'script_dir = "a,b%"\n[defaults]')
    lines = [line for line in slurmgen("check", "--format", "github").stdout.splitlines() if "::" in line]
    assert len(lines) == 3
    assert lines[0].startswith(
        "::error file=a%2Cb%25/cifar.daic.sbatch,title=slurmgen check::missing. `slurmgen"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[job.a]\n\n[job.b]\ngpus = -1", "slurmgen.toml:3: job b on generic: --gpus is -1."),
        (
            "[job.a]\n[job.a.site.dapc]",
            "slurmgen.toml:2: job.a.site: there is no site 'dapc'. Did you mean",
        ),
        ("sites = ['daic']\n[job.a]", "slurmgen.toml:2: job a on daic: daic needs an account. Add --account"),
        (
            "sites = ['c', 'b.c']\n[job.a]\n[job.'a.b']",
            "slurmgen.toml:1: sites: there is no site 'c'.",
        ),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["render", "--all", "--write"]])
def test_an_impossible_job_is_reported_with_its_line(
    text: str, message: str, command: list[str], tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "slurmgen.toml").write_text(text)
    result = slurmgen(*command)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_two_jobs_with_the_same_file_are_rejected(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "site_profiles").mkdir()
    for name in ("c", "b.c"):
        (tmp_path / "site_profiles" / f"{name}.toml").write_text(f"name = '{name}'")
    (tmp_path / "slurmgen.toml").write_text("[job.a]\nsites = ['b.c']\n[job.'a.b']\nsites = ['c']")
    assert "job a.b on c: another job makes a.b.c.sbatch too" in slurmgen("check").stderr


@pytest.mark.parametrize("command", [["check"], ["render", "--all", "--write"]])
def test_without_a_project_the_error_suggests_init(command: list[str], slurmgen: Run) -> None:
    result = slurmgen(*command)
    assert result.returncode == 2
    assert result.stderr.endswith("or above it. `slurmgen init` writes one to start from.\n")


@pytest.mark.parametrize("more", [["cifar"], ["--gpus", "2"], ["--site", "daic"], ["--", "--epochs", "1"]])
def test_all_rejects_request_options(more: list[str], project: Path, slurmgen: Run) -> None:
    result = slurmgen("render", "--all", "--write", *more)
    assert result.returncode == 2
    assert result.stderr.startswith("error: --all takes no JOB and no other options")


def test_all_needs_write(project: Path, slurmgen: Run) -> None:
    assert slurmgen("render", "--all").stderr.startswith("error: --all needs --write.")


def test_the_page_on_ci_lists_every_state() -> None:
    page = (REPOSITORY / "docs" / "ci.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(MESSAGES)


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
jobs = st.builds(
    Job,
    framework=st.sampled_from(
        sorted(name for name, one in LAUNCHERS.items() if one.bundled_script and name != "python")
    ),
    gpus=st.integers(1, 2),
    script_args=st.lists(words, max_size=3).map(tuple),
    env=st.dictionaries(st.from_regex(r"[A-Z]{1,5}", fullmatch=True), words, max_size=2),
    sites=st.sets(st.sampled_from(["generic", "daic"])).map(tuple),
)
projects = st.builds(
    Project,
    defaults=st.just(Defaults(account="ewi-insy")),
    job=st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), jobs, max_size=3),
)


@given(projects, st.data())
@settings(max_examples=60, deadline=None)
def test_any_edit_of_a_written_script_is_found(project: Project, data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        wanted = expected(folder, project)
        (folder / project.script_dir).mkdir()
        for path, script in wanted.items():
            path.write_bytes(script)
        assert compare(wanted, found(folder / project.script_dir, wanted)) == []
        if wanted:
            path = data.draw(st.sampled_from(sorted(wanted)))
            at = data.draw(st.integers(0, len(wanted[path]) - 1))
            byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != wanted[path][at]))
            path.write_bytes(wanted[path][:at] + bytes([byte]) + wanted[path][at + 1 :])
            findings = compare(wanted, found(folder / project.script_dir, wanted))
            assert [(finding.path, finding.kind) for finding in findings] == [(path, "edited")]


@pytest.mark.parametrize("before", [None, "", "mine"])
@pytest.mark.parametrize(
    "how", [["--all", "--write"], ["--all", "--write", "--force"], ["-o", "slurm/a.generic.sbatch"]]
)
def test_a_link_is_not_written_through(
    how: list[str], before: str | None, tmp_path: Path, slurmgen: Run
) -> None:
    project, target = tmp_path / "project", tmp_path / "target"
    (project / "slurm").mkdir(parents=True)
    (project / "slurmgen.toml").write_text("[job.a]")
    (project / "slurm" / "a.generic.sbatch").symlink_to(target)
    if before is not None:
        target.write_text(before)
    result = slurmgen("render", *how, cwd=project)
    assert result.returncode == 2
    assert "slurm/a.generic.sbatch" in result.stderr
    assert (target.read_text() if target.exists() else None) == before


@pytest.mark.parametrize("target", ["..", "other"])
def test_folders_behind_a_link_are_not_read_or_written(target: str, tmp_path: Path, slurmgen: Run) -> None:
    project = tmp_path / "project"
    (project / "other").mkdir(parents=True)
    (project / "slurmgen.toml").write_text("[job.a]")
    (project / "slurm").symlink_to(target)
    for command in (["render", "--all", "--write"], ["render", "a", "--write"], ["check"]):
        result = slurmgen(*command, cwd=project)
        assert (result.returncode, result.stdout) == (2, "")
        assert "it is a link, or below one" in result.stderr
    assert not list(tmp_path.rglob("*.sbatch"))


def test_check_does_not_show_the_target_of_a_link(project: Path, slurmgen: Run) -> None:
    (project / "secret").write_text("token\n# slurmgen: sha256:0\n")
    (project / "slurm" / "link.sbatch").symlink_to("../secret")
    assert kinds(slurmgen) == {}
    (project / "slurm" / NAMES[0]).unlink()
    (project / "slurm" / NAMES[0]).symlink_to("../secret")
    result = slurmgen("check")
    assert (result.returncode, "token" in result.stdout + result.stderr) == (2, False)
    assert f"slurm/{NAMES[0]} cannot be read: it is a link" in result.stderr


def test_a_pipe_instead_of_a_script_does_not_block(project: Path, slurmgen: Run) -> None:
    os.mkfifo(project / "slurm" / "foreign.sbatch")
    assert kinds(slurmgen) == {}
    (project / "slurm" / NAMES[0]).unlink()
    os.mkfifo(project / "slurm" / NAMES[0])
    for command in (["check"], ["render", "--all", "--write"]):
        result = slurmgen(*command)
        assert result.returncode == 2
        assert f"slurm/{NAMES[0]} cannot be read: it is not a regular file" in result.stderr


def test_an_invalid_template_is_reported_once_for_all_scripts(project: Path, slurmgen: Run) -> None:
    (project / "templates").mkdir()
    (project / "templates" / "step.j2").write_text("{{ plan.nodes }}\n{{ plan.no_such_value }}\n")
    result = slurmgen("check")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"error: {project}/templates/step.j2:2: " in result.stderr
    assert "has no attribute 'no_such_value'" in result.stderr


@pytest.mark.parametrize("how", [["render"], ["render", "--all", "--write"], ["check"]])
def test_a_missing_file_that_submit_rejects_is_a_warning(
    how: list[str], tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "slurmgen.toml").write_text('[job.a]\nscript = "no.py"\npython_env = "uv:env"\n')
    assert slurmgen("render", "--all", "--write").returncode == 0
    reply = slurmgen(*how)
    assert reply.returncode == 0
    assert f"there is no no.py in {tmp_path}, which the job runs\n" in reply.stderr
    assert f"there is no env/pyproject.toml in {tmp_path}, which the Python environment needs" in reply.stderr
    for name in ("no.py", "env/pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert "warning" not in slurmgen(*how).stderr


def test_a_script_is_printed_although_its_training_script_is_missing(slurmgen: Run) -> None:
    reply = slurmgen("render", "--script", "missing.py")
    assert reply.returncode == 0
    assert reply.stdout.endswith("missing.py\n")
    assert reply.stderr.startswith("warning: there is no missing.py in ")


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["--script", "training/train_lightning.py", "--python-env", "uv:training"],
        ["--script", "/on/the/cluster.py"],
        ["--python-env", "venv:~/envs/torch"],
    ],
)
def test_bundled_and_remote_files_are_not_missing(how: list[str], slurmgen: Run) -> None:
    reply = slurmgen("render", *how)
    assert (reply.returncode, reply.stderr) == (0, "")
