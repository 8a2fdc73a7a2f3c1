"""slurmgen.toml and personal.toml."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.config.project import Project, find_project, job_request, load_project, sites_of
from slurmgen.errors import ConfigError, RequestError
from tests.conftest import Run
from tests.support.examples import Example, examples
from tests.test_paths import OTHER_USER, as_root

PROJECT = """
site = "daic"

[defaults]
account = "ewi-insy"
time = "01:00:00"
env = { A = "1" }

[job.cifar]
framework = "lightning"
gpus = 2
script = "train.py"
script_args = ["--epochs", "5"]
env = { B = "2" }

[job.cifar.site.olivia]
gpus = 8
account = "nn1k"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "slurmgen.toml").write_text(PROJECT)
    for name in ("train.py", "pyproject.toml"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_job_overrules_the_defaults_and_its_site_overrules_the_job(project: Path) -> None:
    found = load_project(project / "slurmgen.toml")
    here, there = job_request(found, "cifar", "daic"), job_request(found, "cifar", "olivia")
    assert (here.gpus, here.account, here.time, here.name) == (2, "ewi-insy", "01:00:00", "cifar")
    assert (there.gpus, there.account, there.env) == (8, "nn1k", {"A": "1", "B": "2"})


def test_the_project_is_found_from_a_folder_below(project: Path) -> None:
    (project / "a" / "b").mkdir(parents=True)
    assert find_project(project / "a" / "b")[0] == project


def test_the_header_of_a_job_names_it_and_the_further_options(project: Path, slurmgen: Run) -> None:
    head = slurmgen("render", "cifar", "--site", "olivia", "--gpus", "4", cwd=project).stdout.splitlines()[:3]
    assert head[1] == "# cifar on olivia: lightning, 4 ranks on 1 node with 4 GPUs"
    assert head[2] == "# Made by: slurmgen render cifar --site olivia --gpus 4"


def test_options_overrule_the_job(project: Path, slurmgen: Run) -> None:
    text = slurmgen("render", "cifar", "--time", "2:00:00", cwd=project).stdout
    assert "#SBATCH --time=02:00:00\n" in text


JOBLESS = (["render"], ["explain"], ["submit", "--dry-run"], ["doctor", "--via", "local"])


@pytest.mark.parametrize("command", JOBLESS, ids=lambda words: words[0])
def test_a_command_without_a_job_uses_the_only_one(command: list[str], project: Path, slurmgen: Run) -> None:
    reply = slurmgen(*command, "--time", "2:00:00", cwd=project)
    assert "train_ddp" not in reply.stdout
    assert "cifar" in reply.stdout
    if command[0] in ("render", "submit"):
        head = "# Made by: slurmgen render cifar --site daic --time 2:00:00"
        assert reply.stdout.splitlines()[2] == head
        assert reply.stdout.endswith("train.py --epochs 5\n")


@pytest.mark.parametrize("command", JOBLESS, ids=lambda words: words[0])
def test_a_command_without_a_job_is_refused_if_there_are_several(
    command: list[str], project: Path, slurmgen: Run
) -> None:
    with (project / "slurmgen.toml").open("a") as file:
        file.write("[job.mnist]\n")
    reply = slurmgen(*command, cwd=project)
    assert (reply.returncode, reply.stdout) == (2, "")
    assert reply.stderr.startswith("error: slurmgen.toml has several jobs: cifar, mnist. Name one")


def test_a_script_without_a_job_uses_the_defaults(project: Path, slurmgen: Run) -> None:
    (project / "mine.py").touch()
    with (project / "slurmgen.toml").open("a") as file:
        file.write("[job.mnist]\n")
    text = slurmgen("render", "--script", "mine.py", cwd=project).stdout
    command = "slurmgen render --site daic --time 01:00:00 --account ewi-insy --env A=... --script mine.py"
    assert text.splitlines()[2] == f"# Made by: {command}"
    assert text.splitlines()[1].startswith("# mine on daic: ddp")
    assert text.endswith("mine.py\n")
    words = shlex.split(command.removeprefix("slurmgen ").replace("A=...", "A=1"))
    assert slurmgen(*words, cwd=project).stdout == text


@pytest.mark.parametrize("text", [None, "", "[defaults]\nqos = 'long'\n"])
def test_without_jobs_the_bundled_example_is_sent_by_its_name_only(
    text: str | None, tmp_path: Path, slurmgen: Run
) -> None:
    if text is not None:
        (tmp_path / "slurmgen.toml").write_text(text)
    words = ("submit", "--site", "daic", "--account", "a", "--dry-run")
    refused = slurmgen(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "slurmgen init" in refused.stderr
    reply = slurmgen(*words, "--script", "training/train_ddp.py")
    assert reply.returncode == 0, reply.stderr
    assert "training/train_ddp.py" in reply.stdout


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["--", "--epochs", "1"], "train.py --epochs 5 --epochs 1\n"),
        (["--replace-args", "--", "--epochs", "1"], "train.py --epochs 1\n"),
        (["--replace-args"], "train.py\n"),
        (["--"], "train.py --epochs 5\n"),
        ([], "train.py --epochs 5\n"),
    ],
)
def test_arguments_follow_those_of_the_job_or_replace_them(
    words: list[str], end: str, project: Path, slurmgen: Run
) -> None:
    text = slurmgen("render", "cifar", *words, cwd=project).stdout
    assert text.endswith(end)
    command = shlex.split(text.splitlines()[2].removeprefix("# Made by: slurmgen "))
    assert slurmgen(*command, cwd=project).stdout == text


def test_the_command_in_the_header_does_not_repeat_arguments_of_the_defaults(
    tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "slurmgen.toml").write_text('[defaults]\nscript_args = ["--a"]')
    text = slurmgen("render", "--", "--b").stdout
    assert text.endswith("train_ddp.py --a --b\n")
    command = shlex.split(text.splitlines()[2].removeprefix("# Made by: slurmgen "))
    assert slurmgen(*command).stdout == text


def test_requeue_of_a_job_can_be_switched_off(project: Path, slurmgen: Run) -> None:
    path = project / "slurmgen.toml"
    path.write_text(path.read_text().replace("gpus = 2\n", "gpus = 2\nrequeue = true\n"))
    assert "scontrol requeue" in slurmgen("render", "cifar", cwd=project).stdout
    text = slurmgen("render", "cifar", "--no-requeue", cwd=project).stdout
    assert "# Made by: slurmgen render cifar --site daic --no-requeue\n" in text
    assert "scontrol requeue" not in text


def test_write_puts_the_script_into_the_script_folder(project: Path, slurmgen: Run) -> None:
    result = slurmgen("render", "cifar", "--write", cwd=project)
    written = project / "slurm" / "cifar.daic.sbatch"
    assert (result.stdout, result.stderr) == ("", "wrote slurm/cifar.daic.sbatch\n")
    text, _, mark = written.read_text().rpartition("# slurmgen: ")
    assert text == slurmgen("render", "cifar", cwd=project).stdout
    assert mark.startswith("sha256:")


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        ("[job.a]", ["generic"]),
        ("site = 'daic'\n[job.a]", ["daic"]),
        ("[job.a.site.olivia]", ["olivia"]),
        ("site = 'daic'\n[job.a.site.olivia]\n[job.a.site.daic]", ["daic", "olivia"]),
        ("sites = ['olivia', 'olivia']\nsite = 'daic'\n[job.a.site.daic]", ["olivia"]),
        ("sites = ['olivia']\n[job.a]\nsites = ['daic', 'generic']", ["daic", "generic"]),
        ("sites = ['olivia']\n[job.a]\nsites = []", []),
    ],
)
def test_the_sites_of_a_job_are_its_own_else_the_projects_else_those_of_its_tables(
    text: str, sites: list[str], tmp_path: Path
) -> None:
    (tmp_path / "slurmgen.toml").write_text(text)
    assert list(sites_of(load_project(tmp_path / "slurmgen.toml"), "a")) == sites


@pytest.mark.parametrize("example", examples(Path(__file__).with_name("invalid_projects.txt")))
def test_a_wrong_project_is_refused_with_its_file_and_key(example: Example, tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text(example.text)
    with pytest.raises(ConfigError, match=example.expected):
        find_project(tmp_path)


def test_an_unknown_job_is_refused(project: Path) -> None:
    with pytest.raises(RequestError, match=r"no job 'cifr' in slurmgen\.toml\. Did you mean cifar\?"):
        job_request(load_project(project / "slurmgen.toml"), "cifr", "daic")


LAYERS = """
[defaults]
account = "all"
qos = "all"
time = "1:00:00"
mem = "1G"
[defaults.site.generic]
account = "there"
qos = "there"
time = "2:00:00"
[job.a]
account = "job"
qos = "job"
[job.a.site.generic]
account = "job-there"
"""


def test_explain_names_the_table_whose_value_counts(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(LAYERS)
    plan = json.loads(slurmgen("explain", "a", "--cpus", "3", "--json").stdout)
    shown = {key: (plan[key], plan["reasons"][key]) for key in ("account", "qos", "time", "mem")}
    assert shown == {
        "account": ("job-there", "from slurmgen.toml [job.a.site.generic]"),
        "qos": ("job", "from slurmgen.toml [job.a]"),
        "time": ("02:00:00", "from slurmgen.toml [defaults.site.generic]"),
        "mem": ("1G", "from slurmgen.toml [defaults]"),
    }
    without_a_job = slurmgen("render", "--script", "x.py").stdout
    assert "--account=there" in without_a_job


def test_a_wrong_value_of_a_site_is_reported_with_its_line(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text('[defaults.site.generic]\ntime = "9"\nmem = "8"\n[job.a]')
    assert "slurmgen.toml:3: --mem 8 is 8M" in slurmgen("render", "a").stderr


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('site = "dacia"', "site"),
        ('sites = ["dacia"]', "sites"),
        ("[defaults.site.dacia]", "defaults.site"),
        ('[job.a]\nsites = ["dacia"]', "job.a.sites"),
        ("[job.a.site.dacia]", "job.a.site"),
    ],
)
def test_an_unknown_site_in_slurmgen_toml_is_refused(
    text: str, key: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "slurmgen.toml").write_text(text)
    result = slurmgen("render", "--site", "generic", "--script", "x.py")
    assert result.returncode == 2
    assert f": {key}: there is no site 'dacia'. Did you mean daic?" in result.stderr


@pytest.mark.parametrize(("name", "is_reported"), [("dacia", True), ("of-another-project", False)])
def test_a_misspelt_site_in_personal_toml_is_a_warning(
    name: str, is_reported: bool, config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text(f'[{name}]\naccount = "x"')
    result = slurmgen("render")
    message = "warning: personal.toml: there is no site 'dacia'. Did you mean daic?"
    assert (result.returncode, message in result.stderr) == (0, is_reported)


@pytest.mark.parametrize(
    ("project", "option", "account"),
    [
        ('[defaults]\naccount = "general"', [], None),
        ('[job.x]\naccount = "general"', [], None),
        ('[defaults]\naccount = "general"', ["--account", "asked"], "asked"),
        ('[defaults]\naccount = "mine"', [], "mine"),
        ('site = "olivia"\n[defaults]\naccount = "general"', [], "general"),
        ('[defaults]\naccount = "general"\n[defaults.site.olivia]\naccount = "there"', [], "there"),
        ('[defaults]\naccount = "general"\n[job.x.site.olivia]\naccount = "there"', [], "there"),
    ],
)
def test_an_account_for_all_sites_against_that_of_the_user_for_one_is_an_error(
    project: str, option: list[str], account: str | None, tmp_path: Path, config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text('[olivia]\naccount = "mine"')
    (tmp_path / "slurmgen.toml").write_text(project)
    result = slurmgen("render", "--site", "olivia", *option)
    if account:
        assert f"--account={account}\n" in result.stdout
    else:
        assert "'general' for every site, and personal.toml has 'mine' for olivia" in result.stderr
        assert "[defaults.site.olivia]" in result.stderr


PERSONAL = (
    '[daic]\naccount = "my-own"\nimage = "/images/mine.sif"\n[olivia]\naccount = "nn1k"\nimage = "/no"\n'
)


def test_personal_settings_fill_a_script_on_stdout(config_dir: Path, slurmgen: Run) -> None:
    (config_dir / "personal.toml").write_text(PERSONAL)
    text = slurmgen("render", "--site", "daic").stdout
    assert "#SBATCH --account=my-own\n" in text
    assert "/images/mine.sif" in text


def test_the_image_of_the_site_precedes_the_personal_one(config_dir: Path, slurmgen: Run) -> None:
    (config_dir / "personal.toml").write_text(PERSONAL)
    assert "/no" not in slurmgen("render", "--site", "olivia").stdout.split()


@pytest.mark.parametrize("how", [["-o", "x.sbatch"], ["--write"]])
def test_personal_settings_are_not_used_for_a_script_in_a_file(
    how: list[str], config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text(PERSONAL)
    result = slurmgen("render", "--site", "daic", *how)
    assert result.returncode == 2
    assert result.stderr.startswith("error: daic needs an account. Add --account NAME.")
    assert "personal.toml has one, which a script in a file does not use" in result.stderr


def test_checked_in_scripts_name_a_personal_account_that_they_do_not_use(
    config_dir: Path, tmp_path: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text(PERSONAL)
    (tmp_path / "slurmgen.toml").write_text('site = "daic"\n[job.a]')
    assert "personal.toml has one" in slurmgen("render", "--all", "--write").stderr


def test_a_personal_image_that_a_file_does_not_use_is_named(config_dir: Path, slurmgen: Run) -> None:
    (config_dir / "personal.toml").write_text('[generic]\nimage = "/x.sif"')
    assert "image of personal.toml is not used" in slurmgen("render", "-o", "x.sbatch").stderr
    assert "not used" not in slurmgen("render").stderr


@pytest.mark.parametrize(("how", "returncode"), [([], 0), (["-o", "x.sbatch"], 2), (["--write"], 2)])
def test_a_personal_profile_is_not_used_for_a_script_in_a_file(
    how: list[str], returncode: int, config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "site_profiles").mkdir()
    (config_dir / "site_profiles" / "mine.toml").write_text('name = "mine"')
    result = slurmgen("render", "--site", "mine", *how)
    assert result.returncode == returncode
    assert not how or "site 'mine' is one of your own" in result.stderr


def test_a_personal_profile_does_not_change_a_bundled_site_in_a_file(
    config_dir: Path, tmp_path: Path, slurmgen: Run
) -> None:
    (config_dir / "site_profiles").mkdir()
    (config_dir / "site_profiles" / "generic.toml").write_text('name = "generic"\ntime = "00:09:00"')
    assert "--time=00:09:00" in slurmgen("render").stdout
    slurmgen("render", "-o", "x.sbatch")
    assert "--time=00:09:00" not in (tmp_path / "x.sbatch").read_text()


def test_an_invalid_personal_file_is_named(config_dir: Path, slurmgen: Run) -> None:
    (config_dir / "personal.toml").write_text("[daic]\npassword = 'x'")
    result = slurmgen("render", "--site", "daic")
    assert (result.returncode, "personal.toml:2: unknown key" in result.stderr) == (2, True)


def test_explain_names_the_file_that_a_value_comes_from(
    tmp_path: Path, config_dir: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text('[generic]\naccount = "mine"\nimage = "/x.sif"')
    (tmp_path / "slurmgen.toml").write_text(
        "[job.a]\ngpus = 4\nnodes = 2\ncpus_per_gpu = 3\nmodules = ['m']\n"
        "env = { A = '1', B = '1' }\nsbatch = { nice = '5' }"
    )
    plan = json.loads(slurmgen("explain", "a", "--env", "B=2", "--sbatch", "hold", "--json").stdout)
    wanted = {
        "nodes": ("slurmgen.toml", "2 nodes from slurmgen.toml [job.a], so 2 GPUs on each: 4 in all"),
        "cpus_per_task": ("slurmgen.toml", "3 CPUs per GPU (from slurmgen.toml [job.a]) x 2 ranks per task"),
        "modules": ("derived", "the modules that the container's binds need, and those of the request"),
        "account": ("personal.toml", "from personal.toml"),
        "container": ("personal.toml", "from personal.toml"),
        "env.A": ("slurmgen.toml", "from slurmgen.toml [job.a]"),
        "env.B": ("request", "as requested"),
        "directives.nice": ("slurmgen.toml", "from slurmgen.toml [job.a]"),
        "directives.hold": ("request", "as requested"),
    }
    assert {key: (plan["sources"][key], plan["reasons"][key]) for key in wanted} == wanted


@pytest.mark.parametrize(
    "option", ["--account", "--qos", "--mem", "--time", "--site", "--name", "--container"]
)
def test_an_empty_value_is_an_error_in_every_file_and_option(
    option: str, config_dir: Path, tmp_path: Path, slurmgen: Run
) -> None:
    (config_dir / "personal.toml").write_text('[generic]\naccount = "mine"\nimage = "/x.sif"')
    result = slurmgen("render", option, "")
    assert (result.returncode, result.stdout) == (2, "")
    assert option in result.stderr
    assert "empty. Leave it out, or give it a value." in result.stderr


def test_an_sbatch_option_without_a_value_is_true_and_false_removes_it(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(
        "[defaults.sbatch]\nexclusive = true\nhold = true\n[job.a.sbatch]\nhold = false"
    )
    lines = slurmgen("render", "a").stdout.splitlines()
    assert "#SBATCH --exclusive" in lines
    assert "#SBATCH --hold" not in lines
    assert "#SBATCH --exclusive" in slurmgen("render", "--sbatch", "exclusive").stdout.splitlines()
    assert "#SBATCH --exclusive=user" in slurmgen("render", "--sbatch", "exclusive=user").stdout.splitlines()


@pytest.mark.parametrize(
    "line", ["gpus = -4", "gpus = 99999999999", "nodes = 999999999999999999", "time = '-5'"]
)
def test_an_absurd_number_in_slurmgen_toml_is_refused(line: str, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(f"[job.a]\n{line}")
    result = slurmgen("render", "a")
    key, _, value = line.replace("'", "").partition(" = ")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"--{key}" in result.stderr
    assert value in result.stderr


@as_root
@pytest.mark.parametrize("theirs", ["shared", "shared/slurmgen.toml"])
def test_a_project_of_another_user_is_refused_with_its_owner(theirs: str, tmp_path: Path) -> None:
    work = tmp_path / "shared" / "mine"
    work.mkdir(parents=True)
    (tmp_path / "shared" / "slurmgen.toml").write_text(PROJECT)
    assert find_project(work)[1].job
    os.chown(tmp_path / theirs, OTHER_USER, OTHER_USER)
    with pytest.raises(ConfigError, match=rf"shared/slurmgen\.toml is not used: \S*{theirs} belongs to user"):
        find_project(work)


@as_root
@pytest.mark.parametrize("name", ["slurmgen.toml", "templates", "site_profiles"])
def test_a_start_folder_of_another_user_is_refused_if_it_has_parts_of_a_project(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, OTHER_USER, OTHER_USER)
    assert find_project(folder) == (folder, Project())
    (folder / name).touch()
    with pytest.raises(ConfigError, match=rf"theirs/{name} is not used: \S*theirs belongs to user"):
        find_project(folder)


@pytest.mark.parametrize("name", [".", "slurmgen.toml"])
def test_a_project_that_every_user_may_write_to_is_refused(project: Path, name: str) -> None:
    (project / name).chmod((project / name).stat().st_mode | 0o002)
    with pytest.raises(ConfigError, match=r"slurmgen\.toml is not used: every user may write to "):
        find_project(project)


def test_a_project_that_a_group_shares_is_used(project: Path) -> None:
    project.chmod(0o2775)
    (project / "slurmgen.toml").chmod(0o664)
    assert find_project(project)[1].job


@as_root
def test_a_link_to_another_users_project_file_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "slurmgen.toml").rename(tmp_path / "theirs")
    os.chown(tmp_path / "theirs", OTHER_USER, OTHER_USER)
    (project / "slurmgen.toml").symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="theirs belongs to user"):
        find_project(project)


@as_root
def test_a_project_of_another_user_is_used_if_the_user_trusts_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(project / "slurmgen.toml", OTHER_USER, OTHER_USER)
    with pytest.raises(ConfigError, match=f"set SLURMGEN_SAFE_DIRECTORY={project}"):
        find_project(project)
    monkeypatch.setenv("SLURMGEN_SAFE_DIRECTORY", f"/nowhere:{project}")
    assert find_project(project)[1].job
    monkeypatch.setenv("SLURMGEN_SAFE_DIRECTORY", str(project.parent))
    assert find_project(project)[1].job
    monkeypatch.setenv("SLURMGEN_SAFE_DIRECTORY", f"{project}/a:")
    with pytest.raises(ConfigError):
        find_project(project)


def test_a_project_in_the_home_folder_is_used_there_and_not_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a").mkdir()
    assert find_project(project / "a")[0] == project
    monkeypatch.setenv("HOME", str(project))
    assert find_project(project)[0] == project
    assert find_project(project / "a") == (project / "a", Project())


def test_the_search_ends_at_the_home_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "home" / "a").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(project / "home"))
    assert find_project(project / "home" / "a")[1] == find_project(project / "home")[1] == Project()


@as_root
def test_the_search_ends_at_the_file_system(project: Path) -> None:
    (project / "other").mkdir()
    program = "from slurmgen.config.project import *; print(find_project(Path('other'))[0].name)"
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none other; "$@"', "sh"]
    result = subprocess.run([*command, sys.executable, "-c", program], cwd=project, capture_output=True)
    assert result.stdout == b"other\n", result.stderr


@pytest.mark.parametrize("key", ["script_dir", "template_dir"])
@pytest.mark.parametrize("folder", ["/tmp", "..", "a/../../b", ".git", "a/.git/b", "a\\n", "a\\u001b[2J"])
def test_a_folder_outside_the_project_is_refused(key: str, folder: str, tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text(f'site = "daic"\n{key} = "{folder}"')
    with pytest.raises(ConfigError, match=rf"slurmgen\.toml:2: {key}: '.*' is not a folder of the project"):
        find_project(tmp_path)


@pytest.mark.parametrize("name", ["personal.toml", "site_profiles/mine.toml"])
@pytest.mark.parametrize("place", ["", "..", "file"])
def test_files_of_the_user_are_refused_if_others_may_change_them(
    name: str, place: str, config_dir: Path, slurmgen: Run
) -> None:
    path = config_dir / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('name = "mine"' if "site" in name else "[generic]\naccount = 'a'")
    ask = ["render", "--site", "mine" if "site" in name else "generic"]
    assert slurmgen(*ask).returncode == 0
    changed = {"": path.parent, "..": config_dir, "file": path}[place]
    changed.chmod(changed.stat().st_mode | 0o022)
    result = slurmgen(*ask)
    assert result.returncode == 2
    assert f"is not safe to use: other users may write to {changed}. Make it yours alone" in result.stderr


def test_a_pipe_is_refused_without_waiting(config_dir: Path, tmp_path: Path, slurmgen: Run) -> None:
    for path in (config_dir / "personal.toml", tmp_path / "site_profiles" / "generic.toml"):
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
        result = slurmgen("render")
        assert (result.returncode, f"{path} cannot be read: it is not a regular" in result.stderr) == (
            2,
            True,
        )
        path.unlink()
