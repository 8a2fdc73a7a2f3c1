"""A file made by an attacker is refused by the commands that read it, and does nothing else.

As in test_hostile_repository.py, but with one trap at a time, since each of these ends a command.
"""

import pytest

from tests.security.commands import case
from tests.security.place import Place, problems
from tests.security.stopping import STOPPING, Trap


@pytest.mark.parametrize(
    ("trap", "words"),
    [pytest.param(trap, words, id=f"{words}: {trap.name}") for trap in STOPPING for words in trap.commands],
)
def test_a_trap_does_no_more_than_stop_a_command(trap: Trap, words: str, place: Place) -> None:
    trap.build(place.ground)
    ran = place.run(case(words))
    assert not [*problems(ran, case(words), place)], (ran.out + ran.err).decode(errors="replace")[-2000:]
