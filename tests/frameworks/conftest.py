"""One twin for all jobs of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.twins import Testbed, twin

from .jobs import SITE


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    with twin(SITE, nodes=2) as started:
        yield started
