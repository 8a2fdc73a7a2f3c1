"""`slurmgen sites new`: a commented profile from answers, from options or from discovery."""

import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmgen.sites.new import QUESTIONS
from slurmgen.sites.profiles import load_profile, profile_warnings
from tests.conftest import Run

ANSWERS = {
    "title": "The Lab",
    "login-host": "login.lab.example.org",
    "partition": "gpu, gpu-long",
    "max-time": "2-00:00:00",
    "gpus-per-node": "8",
    "cpus-per-node": "128",
    "mem-per-node": "1000G",
    "gpu-request": "gpus-per-node",
    "gpu-type": "a100, h100",
    "memory-form": "optional",
    "account-required": "yes",
    "modules": "python/3.11, cuda",
    "engine": "pyxis",
    "internet": "proxy",
    "network": "ib0",
    "remark": "Jobs on the weekend need a reservation",
    "page": "https://lab.example.org/docs",
}
FACTS = {
    "title": "The Lab",
    "internet": "proxy",
    "login": {"host": "login.lab.example.org"},
    "account": {"required": True},
    "partitions": {"gpu": {"default": True, "max_time": "2-00:00:00"}, "gpu-long": {}},
    "node": {"gpus": 8, "cpus": 128, "memory": "1000G"},
    "gpu": {"request": "gpus-per-node", "default_type": "a100", "types": {"a100": {}, "h100": {}}},
    "memory": {"form": "optional"},
    "modules": {"load": ["python/3.11", "cuda"]},
    "env": {"multi_node": {"NCCL_SOCKET_IFNAME": "ib0"}},
    "container": {"engine": "pyxis"},
}
GPUS = ("--gpus-per-node", "4")


@pytest.fixture
def new(slurmgen: Run, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `slurmgen sites new lab` with answers on stdin."""

    def run(*args: str, answers: str = "") -> "subprocess.CompletedProcess[str]":
        return slurmgen("sites", "new", "lab", *args, input=answers)

    return run


New = Callable[..., "subprocess.CompletedProcess[str]"]


def written(folder: Path) -> dict[str, Any]:
    """The facts of the new profile."""
    data = tomllib.loads((folder / "site_profiles" / "lab.toml").read_text())
    return {key: value for key, value in data.items() if key not in ("name", "sources")}


def options(answers: dict[str, str]) -> list[str]:
    return [word for name, text in answers.items() for word in (f"--{name}", text)]


def test_the_answers_cover_every_question() -> None:
    assert [*ANSWERS] == [*(question.name for question in QUESTIONS), "remark", "page"]


def test_answers_on_stdin_make_a_profile_that_passes_the_strict_checks(tmp_path: Path, new: New) -> None:
    done = new(answers="\n".join(ANSWERS.values()))
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == FACTS
    path = tmp_path / "site_profiles" / "lab.toml"
    assert profile_warnings(path) == []
    text = path.read_text()
    assert "# Scheduler: Jobs on the weekend need a reservation\n" in text
    assert "# GPUs of the node.\ngpus = 8\n" in text
    source = load_profile(path).sources["answers"]
    assert (source.mark, source.url) == ("documentation", "https://lab.example.org/docs")
    assert source.date


def test_options_make_the_same_profile_as_answers(tmp_path: Path, new: New) -> None:
    done = new(*options(ANSWERS))
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == FACTS


def test_the_next_commands_are_printed_and_work(new: New, slurmgen: Run) -> None:
    steps = new(*GPUS).stderr.partition("Next:")[2]
    assert "slurmgen sites validate --strict site_profiles/lab.toml" in steps
    assert "slurmgen sites test lab --twin" in steps
    assert slurmgen("sites", "validate", "--strict", "site_profiles/lab.toml").returncode == 0
    assert slurmgen("sites", "test", "lab", "--no-twin").returncode == 0


def test_an_unknown_fact_is_a_comment_with_its_question(tmp_path: Path, new: New) -> None:
    new(*GPUS)
    assert written(tmp_path) == {"node": {"gpus": 4}}
    text = (tmp_path / "site_profiles" / "lab.toml").read_text()
    assert '# ? Do compute nodes reach the internet: yes, no or proxy?\n# internet = "no"\n' in text
    assert "# [login]\n# ? Login host?\n# host = " in text


def test_each_further_partition_has_the_questions_about_its_nodes(tmp_path: Path, new: New) -> None:
    new(*GPUS, "--partition", "a, b, c")
    text = (tmp_path / "site_profiles" / "lab.toml").read_text()
    assert text.count('# node = { gpus = 4, cpus = 64, memory = "500G" }\n') == 2
    assert "[partitions.b]\n# ? Longest time limit of a job here?\n" in text


def test_every_commented_fact_is_valid_once_it_is_a_fact(tmp_path: Path, new: New) -> None:
    new(*GPUS)
    path = tmp_path / "site_profiles" / "lab.toml"
    path.write_text(re.sub(r"^# (?=\[|\w+ = )", "", path.read_text(), flags=re.MULTILINE))
    assert load_profile(path).partitions["gpu"].default
    assert [str(warning) for warning in profile_warnings(path) if "no source" in str(warning)] == []


def test_a_missing_answer_that_is_required_names_its_option(tmp_path: Path, new: New) -> None:
    done = new()
    assert done.returncode == 2
    assert "--gpus-per-node" in done.stderr
    assert not (tmp_path / "site_profiles").exists()


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("gpus-per-node", "four", "expected a whole number, got a string: 'four'"),
        ("gpus-per-node", "0", "expected a whole number >= 1: 0"),
        ("gpus-per-node", "", "an answer is required"),
        ("max-time", "soon", "'soon' is not a Slurm time"),
        ("mem-per-node", "much", "'much' is not a size"),
        ("gpu-request", "tres", "'tres' is none of gres, gpus-per-node, gpus, none"),
        ("account-required", "maybe", "'maybe' is neither yes nor no"),
        ("partition", "../../etc", "'../../etc' is not valid"),
        ("gpu-type", "a100;x", "'a100;x' is not valid"),
        ("title", "a\x1b[2Jb", "has a control character"),
        ("modules", "a\x07b", "has a control character"),
        ("title", "a" * 2000, "longer than 1000 characters"),
        ("page", "us", "'us' is not an address that begins with https://"),
        ("page", "a\x1bb", "has a control character"),
    ],
)
def test_a_bad_answer_is_refused_with_the_reason(
    option: str, value: str, reason: str, tmp_path: Path, new: New
) -> None:
    done = new(*GPUS, f"--{option}", value)
    assert (done.returncode, "\x1b" in done.stderr) == (2, False)
    assert reason in done.stderr
    assert f"--{option}" in done.stderr
    assert not (tmp_path / "site_profiles").exists()


def test_a_bad_line_of_stdin_ends_the_command_and_names_the_option(new: New) -> None:
    done = new(answers="The Lab\n\n\nsoon\n4\n")
    assert done.returncode == 2
    assert "--max-time" in done.stderr
    assert "'soon' is not a Slurm time" in done.stderr


def test_text_that_is_not_utf8_is_accepted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slurmgen", "sites", "new", "lab", *GPUS]
    done = subprocess.run(command, cwd=tmp_path, input=b"\xff\xfe\n", capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["../lab", "a/b", "", ".", "-x", "a b", "a\x1bb", "a\n"])
def test_a_name_that_is_not_a_site_name_is_refused(name: str, tmp_path: Path, slurmgen: Run) -> None:
    done = slurmgen("sites", "new", *GPUS, "--", name, input="")
    assert (done.returncode, "\x1b" in done.stderr) == (2, False)
    assert [*tmp_path.iterdir()] == []


def test_an_existing_profile_is_not_overwritten(tmp_path: Path, new: New) -> None:
    new(*GPUS)
    path = tmp_path / "site_profiles" / "lab.toml"
    before = path.read_bytes()
    done = new("--gpus-per-node", "8")
    assert done.returncode == 2
    assert "exists already: site_profiles/lab.toml" in done.stderr
    assert path.read_bytes() == before


def test_the_name_of_a_bundled_site_is_refused_with_extends_as_the_hint(slurmgen: Run) -> None:
    done = slurmgen("sites", "new", "daic", *GPUS, input="")
    assert done.returncode == 2
    assert 'extends = "daic"' in done.stderr


def test_output_names_another_folder_but_not_another_name(tmp_path: Path, new: New) -> None:
    done = new(*GPUS, "--output", "other.toml")
    assert done.returncode == 2
    assert "call it lab.toml" in done.stderr
    assert new(*GPUS, "--output", "deep/er/lab.toml").returncode == 0
    assert load_profile(tmp_path / "deep" / "er" / "lab.toml").node.gpus == 4


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, slurmgen: Run) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "slurmgen.toml").touch()
    (project / "site_profiles").symlink_to(outside)
    done = slurmgen("sites", "new", "lab", *GPUS, cwd=project, input="")
    assert done.returncode == 2
    assert [*outside.iterdir()] == []


def test_on_a_terminal_a_bad_answer_is_asked_for_again(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "slurmgen", "sites", "new", "lab"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=follower, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        os.write(leader, b"\n\n\n\nfour\n\n4\n" + b"\n" * 12)
        assert process.stderr is not None
        shown = process.stderr.read()
    os.close(leader)
    os.close(follower)
    assert process.returncode == 0, shown
    assert "error: node.gpus: expected a whole number, got a string: 'four'" in shown
    assert "error: an answer is required" in shown
    assert written(tmp_path) == {"node": {"gpus": 4}}


def test_the_end_of_input_on_a_terminal_interrupts(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "slurmgen", "sites", "new", "lab"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=follower, stderr=subprocess.DEVNULL) as process:
        os.write(leader, b"\x04")
    os.close(leader)
    os.close(follower)
    assert process.returncode == 130
    assert not (tmp_path / "site_profiles").exists()


def test_discovered_facts_are_not_asked_for_and_name_their_command(tmp_path: Path, slurmgen: Run) -> None:
    profile = tmp_path / "site_profiles" / "lab.toml"
    profile.parent.mkdir()
    profile.write_text(
        "[node]\ngpus = 2\ncpus = 8\nmemory = '32G'\n[partitions.'gpu:a']\ndefault = true\nmax_time = '1-0'\n"
    )
    assert slurmgen("twin", "up", "--site", "lab").returncode == 0
    try:
        profile.unlink()
        options = ("--from-discover", "--via", "twin", "--internet", "yes", "--max-time", "2:00:00")
        done = slurmgen("sites", "new", "lab", *options, input="")
    finally:
        slurmgen("twin", "down", "--site", "lab")
    assert done.returncode == 0, done.stderr
    facts = written(tmp_path)
    assert facts["node"] == {"gpus": 2, "cpus": 8, "memory": "32G"}
    assert facts["partitions"]["gpu:a"]["max_time"] == "2:00:00"
    assert "gpus = 2  # seen 2" in profile.read_text()
    site = load_profile(profile)
    assert (site.source_of("node.gpus"), site.source_of("internet")) == ("discover", "answers")
    assert site.source_of("partitions.gpu:a.max_time") == "answers"
    assert profile_warnings(profile) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--via", "local"], "--via needs --from-discover"),
        (["--from-discover", "a", "--host", "b"], "name the login host twice"),
    ],
)
def test_options_of_the_route_must_fit_discovery(words: list[str], message: str, new: New) -> None:
    done = new(*words)
    assert (done.returncode, message in done.stderr) == (2, True)


def test_help_lists_the_questions_in_the_order_of_the_answers(slurmgen: Run) -> None:
    text = " ".join(slurmgen("sites", "new", "--help").stdout.split())
    names = [*(question.name for question in QUESTIONS), "remark", "page"]
    assert ", ".join(f"{number} {name}" for number, name in enumerate(names, 1)) in text
