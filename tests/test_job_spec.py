"""A job of slurmgen.toml from Python: the same job that the command line gets."""

from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import ConfigError, RequestError, load_job, render, resolve
from tests.conftest import Run

PROJECT = """
site = "daic"

[defaults]
time = "01:00:00"
env = { A = "1" }

[job.train]
framework = "lightning"
gpus = 2
script = "train.py"
script_args = ["--epochs", "5"]

[job.train.site.olivia]
gpus = 8
account = "nn1k"

[job.eval]
framework = "python"
script = "eval.py"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "slurmgen.toml").write_text(PROJECT)
    for name in ("train.py", "eval.py", "pyproject.toml"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_job_has_the_request_and_the_site_of_slurmgen_toml(project: Path) -> None:
    job = load_job("train", project_dir=project)
    assert (job.site.name, job.request.gpus, job.request.time) == ("daic", 2, "01:00:00")
    assert (job.name, job.request.name, job.request.env) == ("train", "train", {"A": "1"})


def test_a_job_has_what_differs_on_its_site(project: Path) -> None:
    request = load_job("train", "olivia", project).request
    assert (request.gpus, request.account) == (8, "nn1k")


def test_overrides_overrule_slurmgen_toml(project: Path) -> None:
    request = load_job("train", project_dir=project, gpus=4, env={"B": "2"}).request
    assert (request.gpus, request.env) == (4, {"A": "1", "B": "2"})


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, ("--epochs", "5")),
        ({"script_args": []}, ("--epochs", "5")),
        ({"script_args": ["--lr", "1"]}, ("--epochs", "5", "--lr", "1")),
        ({"script_args": ["--lr", "1"], "replace_args": True}, ("--lr", "1")),
        ({"replace_args": True}, ()),
    ],
)
def test_script_args_follow_those_of_slurmgen_toml_or_replace_them(
    project: Path, overrides: dict[str, object], expected: tuple[str, ...]
) -> None:
    assert load_job("train", None, project, **overrides).request.script_args == expected  # type: ignore[arg-type]


def test_lists_become_tuples_as_in_any_request(project: Path) -> None:
    assert load_job("train", project_dir=project, modules=["cuda"]).request.modules == ("cuda",)


def test_the_account_of_personal_toml_fills_in_what_is_unset(project: Path, config_dir: Path) -> None:
    (config_dir / "personal.toml").write_text('[daic]\naccount = "mine"\n[olivia]\naccount = "mine"\n')
    assert load_job("train", project_dir=project).request.account == "mine"
    assert load_job("train", "olivia", project).request.account == "nn1k"


def test_the_project_is_found_from_a_folder_below_it(project: Path) -> None:
    (project / "src").mkdir()
    assert load_job("eval", project_dir=str(project / "src")).project_dir == project


def test_the_script_is_the_same_as_that_of_the_command_line(project: Path, slurmgen: Run) -> None:
    job = load_job("train", project_dir=project, account="a", gpus=1)
    expected = slurmgen("render", "train", "--account", "a", "--gpus", "1", cwd=project).stdout
    assert job.render(job.plan()) == expected


def test_the_request_and_the_site_resolve_without_the_project(project: Path) -> None:
    job = load_job("eval", project_dir=project, account="a")
    assert "eval.py" in render(resolve(job.request, job.site))


def test_without_slurmgen_toml_the_overrides_are_the_request(tmp_path: Path) -> None:
    job = load_job(project_dir=tmp_path, script="x.py", gpus=3)
    assert (job.name, job.site.name, job.request.script, job.request.gpus) == (None, "generic", "x.py", 3)


def test_a_script_without_a_job_is_made_from_the_defaults(project: Path) -> None:
    job = load_job(project_dir=project, script="x.py")
    assert (job.name, job.request.time, job.request.gpus) == (None, "01:00:00", None)


@pytest.mark.parametrize(
    ("name", "overrides", "fact", "hint"),
    [
        (None, {}, "slurmgen.toml has several jobs: train, eval", "Name one, such as train"),
        ("trian", {}, "there is no job 'trian' in slurmgen.toml", "Did you mean train?"),
        ("train", {"gpu": 4}, "a request has no 'gpu'", "Did you mean gpus?"),
        ("train", {"gpus": "4"}, "gpus: expected a whole number, got a string", "Correct that value."),
        ("train", {"gpus": -1}, "--gpus is -1", "at most 100,000"),
        ("train", {"account": ""}, "--account is empty", "Leave it out"),
    ],
)
def test_an_invalid_job_is_refused(
    project: Path, name: str | None, overrides: dict[str, object], fact: str, hint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        load_job(name, None, project, **overrides)  # type: ignore[arg-type]
    assert fact in caught.value.fact
    assert hint in caught.value.hint


def test_a_job_without_slurmgen_toml_is_refused_with_the_folder(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=rf"no job 'train': {tmp_path} has no slurmgen.toml with jobs"):
        load_job("train", project_dir=tmp_path)


def test_a_template_folder_that_does_not_exist_is_refused(project: Path, slurmgen: Run) -> None:
    path = project / "slurmgen.toml"
    path.write_text(
        'template_dir = "nowhere"\n' + path.read_text().replace("[defaults]", '[defaults]\naccount = "a"')
    )
    with pytest.raises(ConfigError, match="there is no folder 'nowhere'"):
        load_job("train", project_dir=project)
    for command in (["check"], ["render", "--all", "--write"]):
        result = slurmgen(*command, cwd=project)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert "template_dir: there is no folder 'nowhere'" in result.stderr


def test_render_all_refuses_a_misspelt_site(project: Path, slurmgen: Run) -> None:
    path = project / "slurmgen.toml"
    path.write_text(path.read_text().replace("olivia", "olvia") + 'sites = ["daic"]\n')
    result = slurmgen("render", "--all", "--write", cwd=project)
    assert result.returncode == 2
    assert "there is no site 'olvia'. Did you mean olivia?" in result.stderr


ENGINE = """
site = "generic"

[job.train]
framework = "python"
script = "train.py"
container = "/images/a.sif"
container_engine = "apptainer"
binds = ["/data"]

[job.off]
framework = "python"
script = "train.py"
container = "none"
container_engine = "apptainer"
"""


def test_container_none_overrules_the_engine_and_the_binds_of_slurmgen_toml(
    project: Path, slurmgen: Run
) -> None:
    (project / "slurmgen.toml").write_text(ENGINE)
    for options in (("train", "--container", "none"), ("off",)):
        reply = slurmgen("render", *options)
        assert (reply.returncode, "apptainer" in reply.stdout) == (0, False), reply.stderr
    reply = slurmgen("render", "train", "--container", "none", "--container-engine", "apptainer")
    assert (reply.returncode, "--container-engine has no effect" in reply.stderr) == (2, True)


def test_an_engine_that_a_site_lacks_is_reported_with_its_line(project: Path, slurmgen: Run) -> None:
    text = ENGINE.replace('container_engine = "apptainer"', 'container_engine = "shifter"')
    (project / "slurmgen.toml").write_text(text)
    reply = slurmgen("render", "train", "--site", "olivia", "--account", "nn1k")
    assert reply.returncode == 2
    assert "slurmgen.toml:8: olivia has no container engine 'shifter'" in reply.stderr
    assert "[job.train.site.olivia] may have another `container_engine`" in reply.stderr
    own = text + '[job.train.site.olivia]\ncontainer_engine = "edf"\n'
    (project / "slurmgen.toml").write_text(own)
    line = len(own.splitlines())
    assert (
        f"slurmgen.toml:{line}: " in slurmgen("render", "train", "--site", "olivia", "--account", "a").stderr
    )


@pytest.mark.parametrize(
    ("field", "value"), [("partition", "nowhere"), ("qos", "nowhere"), ("gpu_type", "nothing")]
)
def test_a_name_that_a_site_lacks_is_reported_with_its_line(
    field: str, value: str, project: Path, slurmgen: Run
) -> None:
    (project / "slurmgen.toml").write_text(f'{PROJECT}{field} = "{value}"\n')
    (project / "site_profiles").mkdir()
    tables = 'complete = ["partitions", "qos", "gpu.types"]\n'
    tables += "[node]\ngpus = 4\n[partitions.gpu]\ndefault = true\n[qos.long]\n[gpu.types.h100]\n"
    (project / "site_profiles" / "lab.toml").write_text(tables)
    reply = slurmgen("render", "eval", "--site", "lab")
    line = len(PROJECT.splitlines()) + 1
    assert f"slurmgen.toml:{line}: " in reply.stderr, reply.stderr


def test_a_name_of_the_command_line_has_no_line(project: Path, slurmgen: Run) -> None:
    reply = slurmgen("render", "train", "--partition", "nowhere")
    assert "slurmgen.toml" not in reply.stderr


def test_a_contradiction_with_the_command_line_has_the_line_of_the_other_value(
    project: Path, slurmgen: Run
) -> None:
    (project / "slurmgen.toml").write_text(f'{PROJECT}gpu_type = "a40"\n')
    reply = slurmgen("render", "eval", "--gpus", "0", "--account", "a")
    line = len(PROJECT.splitlines()) + 1
    assert f"slurmgen.toml:{line}: --gpus 0 and --gpu-type exclude each other." in reply.stderr


def test_a_job_that_excludes_nodes_keeps_what_python_changed(project: Path) -> None:
    job = load_job("train", project_dir=project, exclude=("n1",))
    changed = structs.replace(job, request=structs.replace(job.request, time="02:00:00"))
    other = changed.excluding(["n2=slow"])
    assert (other.request.time, other.request.exclude) == ("02:00:00", ("n1", "n2=slow"))
    assert "--exclude n2=slow" in other.command
