"""Words for people."""


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "file"), counted(0, "file")
    ('1 file', '0 files')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
