"""One browser for the tests of a worker."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.web import chromium

expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
