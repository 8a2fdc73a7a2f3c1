"""Twins that many tests share. Tests only query them, or submit to them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.support.twins import Testbed, twin


@pytest.fixture(scope="session")
def twin_of() -> Iterator[Callable[[str], Testbed]]:
    """The shared twin of a site, started on first use."""
    with ExitStack() as running:
        yield cache(lambda name: running.enter_context(twin(name, ssh=name == "daic")))


@pytest.fixture(scope="session")
def daic(twin_of: Callable[[str], Testbed]) -> Testbed:
    return twin_of("daic")


@pytest.fixture(scope="session")
def olivia(twin_of: Callable[[str], Testbed]) -> Testbed:
    return twin_of("olivia")
