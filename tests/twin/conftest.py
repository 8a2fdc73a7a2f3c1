"""Twins that many tests share; they only ask them, or submit to them."""

from collections.abc import Iterator

import pytest

from tests.support.twins import Testbed, twin


@pytest.fixture(scope="session")
def daic() -> Iterator[Testbed]:
    with twin("daic", ssh=True) as testbed:
        yield testbed


@pytest.fixture(scope="session")
def olivia() -> Iterator[Testbed]:
    with twin("olivia") as testbed:
        yield testbed


@pytest.fixture(scope="session")
def generic() -> Iterator[Testbed]:
    with twin("generic") as testbed:
        yield testbed
