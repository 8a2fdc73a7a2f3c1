"""One browser and one public server for the tests of a worker, and clients and servers of a user."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.testclient import TestClient

from slurmgen.ledger.ledger import Ledger
from slurmgen.web import linter
from slurmgen.web.jobs import log, poller
from tests.support.stepping import Stepping, stepping
from tests.support.twins import Testbed
from tests.support.web import Served, chromium, local_client, opened, public_client, served

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """A linter that is patient on a busy machine, and queries of jobs that follow each other soon."""
    with (
        patch.multiple(linter, _SECONDS=30.0, _PATIENCE=30.0),
        patch.multiple(log, FIRST_PAUSE=0.1, LONGEST_PAUSE=0.5),
        patch.object(poller, "Poller", partial(poller.Poller, interval=0.5)),
    ):
        yield


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """Where a public server answers."""
    with served(public=True) as running:
        yield running.origin


@pytest.fixture(scope="session")
def public() -> Iterator[TestClient]:
    """A client of a public server."""
    with public_client() as client:
        yield client


@pytest.fixture
def ledger(clean_environment: None) -> Ledger:
    """An empty ledger."""
    return Ledger()


@pytest.fixture
def user(clean_environment: None) -> Iterator[TestClient]:
    """A client with the cookie of a local server."""
    with local_client() as client:
        yield client


@pytest.fixture
def server(clean_environment: None) -> Iterator[Served]:
    """A local server."""
    with served() as running:
        yield running


@pytest.fixture
def project(testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, in which servers are started, of a user of the twin."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", testbed.environ["XDG_STATE_HOME"])
    return folder


@pytest.fixture
def job(testbed: Testbed, project: Path) -> Iterator[Stepping]:
    running = stepping(testbed, project, "train", "--gpus", "1")
    yield running
    running.end()


@pytest.fixture
def page(browser: Browser, server: Served) -> Iterator[Page]:
    """The first page of a local server."""
    with opened(browser, server.entry) as shown:
        yield shown
