"""One browser for the tests of a worker, and a linter that is patient on a busy machine."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, expect

from slurmgen.web import linter
from tests.support.web import chromium

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def patient_linter() -> Iterator[None]:
    with patch.multiple(linter, _SECONDS=30.0, _PATIENCE=30.0):
        yield
