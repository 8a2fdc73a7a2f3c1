"""A few inputs for each reader; `make fuzz` tries many more."""

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.fuzz.bounds import check
from tests.fuzz.targets import TARGETS

EXAMPLES = 25


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_refuses_or_reads_whatever_it_is_given(name: str) -> None:
    target = TARGETS[name]

    @given(target.inputs)
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def drawn(given: object) -> None:
        check(target, given)

    for found in target.known:
        drawn = example(found)(drawn)
    drawn()
