"""The generator: the same script as the command line, refusals at their fields, jobs in addresses."""

import re
import shlex
from html import unescape
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from slurmgen.cli import cli
from slurmgen.errors import SlurmgenError, worded
from slurmgen.files import config_folder
from slurmgen.request.text import FIELDS
from slurmgen.text import visible
from slurmgen.web.generator import LABELS
from tests.support.form_requests import form_requests, words_of


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _script(html: str) -> str:
    """The script on the page; empty if there is none."""
    return "".join(
        f"{unescape(line)}\n" for line in re.findall(r"<li[^>]*><code>(.*?)</code>", html, re.DOTALL)
    )


def _block(html: str, name: str) -> str:
    found = re.search(rf'<pre id="{name}"[^>]*>(.*?)</pre>', html, re.DOTALL)
    assert found
    return unescape(found[1])


def _rendered(words: list[str]) -> tuple[str, str]:
    """What `slurmgen render` prints to stdout, and its error with the labels of the form."""
    result = CliRunner().invoke(cli, ["render", *words], standalone_mode=False)
    match result.exception:
        case SlurmgenError() as error:
            return "", visible(worded(error.marked[0], LABELS.__getitem__))
        case click.UsageError() as error:
            return "", visible(error.message)
        case None:
            return result.stdout, ""
    raise AssertionError(words) from result.exception


@pytest.mark.parametrize("seed", range(5))
def test_the_page_and_the_command_line_give_the_same_bytes_or_the_same_refusal(
    public: TestClient, seed: int
) -> None:
    """500 random requests in all, some with hostile text."""
    made = 0
    for texts in form_requests(100, seed):
        reply = public.post("/generator", data=texts)
        assert reply.status_code == 200, texts
        try:
            expected, fact = _rendered(words_of(texts))
        except ValueError:  # no command line says the same
            expected = fact = ""
        assert _script(reply.text) == expected, texts
        assert fact in _visible_text(reply.text), texts
        made += bool(expected)
    assert made >= 20


def _visible_text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


_MADE = [
    {"site": "generic"},
    {
        "site": "generic",
        "name": "a.b",
        "script": "train.py",
        "script_args": "--note 'it''s' \"$HOME\"",
        "gpus": "2",
    },
    {
        "site": "olivia",
        "account": "nn1234k",
        "gpus": "8",
        "env": "A=x y\nB='\"$HOME",
        "modules": "none",
        "container": "none",
        "requeue": "yes",
    },
    {
        "site": "lumi-g",
        "account": "project_1",
        "sweep": "lr=1e-3,1e-4\nseed=1,2",
        "sweep_limit": "2",
        "mail": "end",
    },
    {
        "site": "daic",
        "account": "abc",
        "command": "./run --x 'a b'",
        "framework": "mpi",
        "sbatch": "comment=a b\nexclusive",
    },
]


@pytest.mark.parametrize("texts", _MADE, ids=[f"{one['site']}-{len(one)}" for one in _MADE])
def test_the_command_and_the_toml_on_the_page_make_the_same_script(
    public: TestClient, tmp_path: Path, texts: dict[str, str]
) -> None:
    html = public.post("/generator", data=texts).text
    script = _script(html)
    assert script, _visible_text(html)
    program, command, *words = shlex.split(_block(html, "as-command"))
    assert (program, command) == ("slurmgen", "render")
    assert _rendered(words)[0] == script
    (tmp_path / "slurmgen.toml").write_text(_block(html, "as-toml"))
    assert _without_command(_rendered([])[0]) == _without_command(script)


def _without_command(script: str) -> str:
    return re.sub("^# Made by: .*$", "", script, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (
            {"gpus": "8", "nodes": "2"},
            ["2 nodes each with 1 task of 4 ranks, 4 GPUs, 288 CPUs", "at most 8 GPU-hours"],
        ),
        ({"gpus": "24"}, ["+ 2 nodes"]),
        ({"gpus": "4", "framework": "srun"}, ["1 node with 4 tasks of 1 rank, 4 GPUs"]),
        ({"gpus": "0"}, ["1 node with 1 task of 1 rank, no GPU"]),
        ({}, ["Compute nodes reach the internet over HTTP only"]),
    ],
)
def test_the_page_shows_the_layout_and_the_notes(
    public: TestClient, texts: dict[str, str], shown: list[str]
) -> None:
    html = public.post("/generator", data={"site": "olivia", "account": "nn1234k", **texts}).text
    for text in shown:
        assert text in _visible_text(html)


def test_the_charge_is_shown_where_the_site_states_a_rate(public: TestClient) -> None:
    html = public.post("/generator", data={"site": "lumi-g", "account": "project_1", "gpus": "8"}).text
    assert "costs at most 4 GPU hours" in _visible_text(html)


def test_a_command_in_a_hint_is_code(public: TestClient) -> None:
    html = public.post("/generator", data={"site": "leonardo"}).text
    assert re.search(r'<span id="hint-account"[^>]*>Required. <code>saldo -b</code> lists yours.', html)


def test_hints_are_sent_only_when_what_they_depend_on_has_changed(public: TestClient) -> None:
    texts = {"site": "olivia", "account": "nn1234k", "shown": "olivia|||||"}
    assert "hint-gpus" not in public.post("/generator", data=texts).text
    assert "hint-gpus" in public.post("/generator", data={**texts, "partition": "small"}).text


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        ({}, "Default: standard-g or small-g; others:"),
        ({"partition": "dev-g"}, "Default: standard-g or small-g; others:"),
        ({}, "at most 3 days"),
        ({"partition": "standard-g"}, "at most 2 days"),
        ({"partition": "nope"}, "Default: standard-g or small-g; others:"),
    ],
)
def test_hints_are_those_of_the_places_that_the_job_may_take(
    public: TestClient, texts: dict[str, str], hint: str
) -> None:
    html = public.post("/generator", data={"site": "lumi-g", "account": "project_1", **texts}).text
    assert hint in _visible_text(html)


@pytest.mark.parametrize(
    ("texts", "fact"),
    [
        ({"name": "a" * 20_001}, "the form has 20,"),
        ({"x" * 900_000: ""}, "the form has 900,"),
        ({"sweep": "\n".join(f"parameter{n}=1,2" for n in range(13))}, "the table of the sweep has about"),
        ({"sweep": "lr=" + "1," * 9_000}, None),
        ({"sweep": "\n".join(f"a{n}=" + "1," * 99 for n in range(60))}, "the table of the sweep has about"),
        ({"secrets": "\n".join(f"S{n}" for n in range(2_000))}, None),
    ],
    ids=range(6),
)
def test_a_request_that_is_too_large_for_a_page_is_refused(
    public: TestClient, texts: dict[str, str], fact: str | None
) -> None:
    text = _visible_text(public.post("/generator", data=texts).text)
    assert (fact or "#!/bin/bash") in text
    assert len(text) < 3_000_000


def test_a_local_server_shows_the_profiles_of_the_project(
    public: TestClient, user: TestClient, tmp_path: Path
) -> None:
    (tmp_path / "slurmgen.toml").write_text("")
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles" / "mine.toml").write_text('name = "mine"\nextends = "generic"\n')
    assert "mine.sbatch" in user.post("/generator", data={"site": "mine"}).text
    assert "there is no site" in public.post("/generator", data={"site": "mine"}).text


def test_the_users_own_settings_count_as_on_the_command_line(public: TestClient, user: TestClient) -> None:
    config_folder().mkdir(mode=0o700, parents=True)
    own = '[olivia]\naccount = "nn1234k"\nmail_user = "me@example.org"\nimage = "/mine.sif"\n'
    (config_folder() / "personal.toml").write_text(own)
    texts = {"site": "olivia", "mail": "end"}
    html = user.post("/generator", data=texts).text
    assert "#SBATCH --account=nn1234k" in _script(html)
    assert _script(html) == _rendered(shlex.split(_block(html, "as-command"))[2:])[0]
    assert "Default: nn1234k, from personal.toml." in _visible_text(html)
    assert "personal.toml" not in public.post("/generator", data=texts).text


def test_the_form_has_every_option_of_a_request() -> None:
    assert set(FIELDS) == set(LABELS) - {"site", "job"}


def test_the_first_page_has_the_script_of_the_default_request(public: TestClient) -> None:
    assert _script(public.get("/").text) == _rendered([])[0]
