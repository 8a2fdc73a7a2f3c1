"""The generator in a project: its jobs, its defaults, and the bytes of the command line there."""

import re
import shlex
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from slurmgen.files import config_folder
from slurmgen.launchers import LAUNCHERS
from tests.support.web import DESKTOP, PHONE, Served, opened
from tests.web.test_generator import (
    _block,
    _rendered,
    _script,
    _visible_text,
    _without_command,
)

SITES = ("daic", "olivia", "generic", "lumi-g", "perlmutter", "jean-zay")
PROJECT = """site = "daic"
[defaults]
time = "00:20:00"
python_env = "none"
env = { SEED = "1" }
[defaults.site.jean-zay]
account = "abc@v100"
[defaults.site.lumi-g]
account = "project_465000001"
gpus = 8
"""
JOB = """[job.{name}]
framework = "{name}"
script = "train.py"
script_args = ["--epochs", "20"]
gpus = 2
[job.{name}.site.olivia]
time = "00:30:00"
"""
PERSONAL = (
    '[daic]\naccount = "ewi-insy-prb"\n[olivia]\naccount = "nn1234k"\n[perlmutter]\naccount = "m1234"\n'
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a job of each framework, and a user with accounts of their own."""
    (tmp_path / "slurmgen.toml").write_text(PROJECT + "".join(JOB.format(name=name) for name in LAUNCHERS))
    (tmp_path / "train.py").write_text("print(1)\n")
    config_folder().mkdir(mode=0o700, parents=True)
    (config_folder() / "personal.toml").write_text(PERSONAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _same(user: TestClient, words: list[str], **texts: str) -> str:
    """The script of a form, which is the one of these words and of the command that the page shows."""
    html = user.post("/generator", data=texts).text
    script = _script(html)
    assert script, _visible_text(html)
    assert script == _rendered(words)[0]
    assert script == _rendered(shlex.split(_block(html, "as-command"))[2:])[0]
    return html


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("job", LAUNCHERS)
def test_a_job_of_the_project_has_the_bytes_of_the_command_line(
    user: TestClient, job: str, site: str
) -> None:
    html = _same(user, [job, "--site", site], job=job, site=site)
    assert _block(html, "as-command") == f"slurmgen render {job} --site {site}"


CHANGED = [
    (["ddp", "--time", "1:00:00"], {"job": "ddp", "time": "1:00:00"}, "time"),
    (["ddp", "--env", "A=b c"], {"job": "ddp", "env": "A=b c"}, "env"),
    (["ddp", "--replace-args", "--", "-x", "a b"], {"job": "ddp", "script_args": "-x 'a b'"}, "script_args"),
    (["ddp", "--sweep", "lr=1,2"], {"job": "ddp", "sweep": "lr=1,2"}, "sweep"),
    (["--command", "./a b"], {"job": "", "command": "./a b"}, "command"),
    (["--", "python", "-c", "1"], {"job": "", "script_args": "python -c 1"}, "command"),
]


@pytest.mark.parametrize(("words", "texts", "field"), CHANGED, ids=range(len(CHANGED)))
@pytest.mark.parametrize("site", ["daic", "olivia"])
def test_a_change_is_an_option_and_its_toml_makes_the_same_script(
    user: TestClient, project: Path, words: list[str], texts: dict[str, str], field: str, site: str
) -> None:
    at = words.index("--") if "--" in words else len(words)
    html = _same(user, [*words[:at], "--site", site, *words[at:]], site=site, **texts)
    toml, script, path = _block(html, "as-toml"), _script(html), project / "slurmgen.toml"
    assert field in toml
    replaced = '[job.ddp.site.olivia]\ntime = "00:30:00"\n'
    path.write_text(path.read_text().replace(replaced, "" if toml.startswith(replaced[:21]) else replaced))
    path.write_text(f"{path.read_text()}\n{toml}")
    name = toml.removeprefix("[job.").partition("]")[0].partition(".site.")[0].strip('"')
    again = _rendered([name, "--site", site])[0]
    assert _without_command(again) == _without_command(script)


def test_each_value_of_the_files_is_shown_with_its_source(user: TestClient, project: Path) -> None:
    text = (project / "slurmgen.toml").read_text()
    more = 'modules = ["gcc/12", "cuda"]\nsweep = { grid = { lr = [1, 2], seed = [0] } }\n'
    (project / "slurmgen.toml").write_text(text.replace("[defaults]\n", f"[defaults]\n{more}"))
    html = user.post("/generator", data={"job": "ddp", "site": "olivia"}).text
    for name, value, source in (
        ("time", "00:30:00", "slurmgen.toml [job.ddp.site.olivia]"),
        ("python_env", "none", "slurmgen.toml [defaults]"),
        ("script_args", "--epochs 20", "slurmgen.toml [job.ddp]"),
        ("account", "nn1234k", "personal.toml"),
        ("modules", "gcc/12\ncuda", "slurmgen.toml [defaults]"),
        ("sweep", "lr=1,2\nseed=0", "slurmgen.toml [defaults]"),
    ):
        hint = re.search(f'<span id="hint-{name}" data-written="{value}"[^>]*>([^<]*)<', html)
        assert hint
        in_line = value.replace("\n", ", ")
        assert hint[1].startswith(f"Default: {in_line}, from {source}")
    assert ">SEED: from slurmgen.toml [defaults].<" in html
    assert (
        'id="hint-gpus" data-written="8"' in user.post("/generator", data={"job": "", "site": "lumi-g"}).text
    )


def test_the_framework_of_the_program_is_shown_with_its_line(user: TestClient, project: Path) -> None:
    (project / "train.py").write_text("import lightning as L\n\nL.Trainer()\n")
    (project / "slurmgen.toml").write_text('[job.a]\nscript = "train.py"\ngpus = 2\n')
    html = _same(user, ["a", "--site", "generic"], job="a", site="generic")
    assert "Default: lightning, from train.py:3" in html
    assert "framework: lightning, from train.py:3" in _visible_text(html)


@pytest.mark.parametrize(
    ("texts", "fact"),
    [
        ({"job": "ddpp"}, "there is no job 'ddpp' in slurmgen.toml"),
        ({"job": "/etc/passwd"}, "there is no job '/etc/passwd' in slurmgen.toml"),
        ({"job": ""}, "a job that is not in slurmgen.toml needs a program"),
        ({"job": "ddp", "gpus": "x"}, "'x' is not a valid integer"),
        ({"job": "ddp", "site": "nowhere"}, "there is no site 'nowhere'"),
    ],
)
def test_what_is_wrong_is_refused(user: TestClient, texts: dict[str, str], fact: str) -> None:
    assert fact in _visible_text(user.post("/generator", data=texts).text)


def test_templates_and_files_that_are_missing_count_as_on_the_command_line(
    user: TestClient, project: Path
) -> None:
    (project / "templates").mkdir()
    (project / "templates" / "header.j2").write_text("# ours\n")
    (project / "train.py").unlink()
    html = user.post("/generator", data={"job": "ddp", "site": "daic"}).text
    assert _script(html) == _rendered(["ddp"])[0]
    assert re.search("Warning:.*train.py", html)


def test_a_public_server_reads_nothing_of_the_project(user: TestClient, public: TestClient) -> None:
    first = public.get("/").text
    assert 'id="job"' not in first
    assert "slurmgen.toml [" not in first
    assert _script(first) != _script(user.get("/").text)
    html = public.post("/generator", data={"site": "daic", "account": "a", "script": "train.py"}).text
    assert "--time=00:20:00" not in _script(html)
    assert "there is no job 'ddp'" in _visible_text(public.post("/generator", data={"job": "ddp"}).text)


def test_a_first_job_that_is_refused_does_not_hide_the_form(user: TestClient, project: Path) -> None:
    (project / "slurmgen.toml").write_text('site = "daic"\n[job.a]\naccount = "a b"\nscript = "train.py"\n')
    reply = user.get("/")
    assert (reply.status_code, _script(reply.text)) == (200, "")
    assert 'id="answer" hidden' in reply.text


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_filled_form_is_accessible_and_fits(
    browser: Browser, server: Served, size: tuple[int, int], theme: Literal["light", "dark"]
) -> None:
    with opened(browser, server.entry, size, theme) as page:
        expect(page.get_by_label("Time limit")).to_have_attribute("placeholder", "00:20:00")
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_job_is_chosen_and_changed(browser: Browser, server: Served) -> None:
    with opened(browser, server.entry) as page:
        script = page.locator("#lines code")
        limit = page.get_by_label("Time limit")
        expect(page.locator("#request label").first).to_have_text("Job")
        expect(page.get_by_label("Site", exact=True)).to_have_value("daic")
        expect(limit).to_have_attribute("placeholder", "00:20:00")
        page.get_by_label("Job", exact=True).select_option("lightning")
        page.get_by_label("Site", exact=True).select_option("olivia")
        expect(limit).to_have_attribute("placeholder", "00:30:00")
        expect(page.locator("#framework option").first).to_have_text("default: lightning")
        expect(script.get_by_text("#SBATCH --time=00:30:00", exact=True)).to_be_attached()
        limit.fill("00:40:00")
        expect(script.get_by_text("#SBATCH --time=00:40:00", exact=True)).to_be_attached()
        expect(page.locator("#as-command")).to_have_text(
            "slurmgen render lightning --site olivia --time 00:40:00"
        )
        page.wait_for_url(re.compile("job=lightning.*time=00%3A40%3A00"))
        page.reload()
        expect(script.get_by_text("#SBATCH --time=00:40:00", exact=True)).to_be_attached()
        page.get_by_label("Job", exact=True).select_option("")
        expect(page.locator("#problem-script")).to_contain_text("needs a program")
        expect(page.locator("#framework option").first).to_have_text("default")
