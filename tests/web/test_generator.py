"""The generator: the same script as the command line, refusals at their fields, jobs in addresses."""

import re
from html import unescape
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from slurmgen.cli import cli
from slurmgen.errors import SlurmgenError
from slurmgen.request_text import FIELDS
from slurmgen.text import visible
from slurmgen.web import Settings, create_app
from slurmgen.web.generator.form import LABELS
from tests.support.form_requests import form_requests, words_of

HEADERS = {"origin": "http://testserver"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    """A client of a public server."""
    return TestClient(create_app(Settings(public=True)), headers=HEADERS)


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
    """What `slurmgen render` prints to stdout, and its error."""
    result = CliRunner().invoke(cli, ["render", *words], standalone_mode=False)
    match result.exception:
        case SlurmgenError() as error:
            return "", visible(error.fact)
        case click.UsageError() as error:
            return "", visible(error.message)
        case None:
            return result.stdout, ""
    raise AssertionError(words) from result.exception


@pytest.mark.parametrize("seed", range(5))
def test_the_page_and_the_command_line_give_the_same_bytes_or_the_same_refusal(
    client: TestClient, seed: int
) -> None:
    """500 random requests in all, some with hostile text."""
    made = 0
    for texts in form_requests(100, seed):
        reply = client.post("/generator", data=texts)
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


def test_the_form_has_every_option_of_a_request() -> None:
    assert set(FIELDS) == set(LABELS) - {"site"}


def test_the_first_page_has_the_script_of_the_default_request(client: TestClient) -> None:
    assert _script(client.get("/").text) == _rendered([])[0]
