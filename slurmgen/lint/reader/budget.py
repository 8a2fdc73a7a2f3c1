"""A limit on the work for one script.

A short script can cause endless work: strings that run strings, nested arrays, recursive functions. All
work is charged to one budget, in steps of about a microsecond; the result does not depend on the machine.
"""

STEPS = 800_000
"Enough for about 20,000 plain commands."

CHARACTERS = 8
"Characters that are copied, compared or searched in one step."


class TooLarge(Exception):
    """The script exceeds its budget."""


class Budget:
    """The remaining budget of one script."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    @property
    def left(self) -> int:
        """The remaining steps; negative if the budget is exhausted."""
        return self._left

    @property
    def exhausted(self) -> bool:
        """Whether a part of the script was skipped."""
        return self._left < 0

    def spend(self, steps: int) -> None:
        """Charge some work before it is done.

        Raises:
            TooLarge: the budget is exhausted.
        """
        self._left -= steps
        if self._left < 0:
            raise TooLarge

    def exhaust(self) -> None:
        """Record that a part of the script cannot be read."""
        self._left = -1
