"""How much work the linter puts into one script.

A script of a few lines can cause endless work: strings that run strings, arrays of arrays, calls of calls.
All of it is paid from one budget, in steps of about a microsecond; the result does not depend on the machine.
"""

STEPS = 800_000
"Enough for about 20,000 plain commands."

CHARACTERS = 8
"So many are copied, compared or searched in one step."


class TooLarge(Exception):
    """The script needs more work than its budget allows."""


class Budget:
    """The work that is left for one script."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    @property
    def exhausted(self) -> bool:
        """Whether something was left unread."""
        return self._left < 0

    def spend(self, steps: int) -> None:
        """Pay for some work before it is done.

        Raises:
            TooLarge: the budget does not allow it.
        """
        self._left -= steps
        if self._left < 0:
            raise TooLarge

    def exhaust(self) -> None:
        """Note that something cannot be read, whatever is left."""
        self._left = -1
