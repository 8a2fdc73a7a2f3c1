"""Commands that end too early: a comment, a blank line, or blanks behind a backslash end them."""

import re

_MOST = 50
"Lines of comments, or blank lines, that are searched."
_CUT = re.compile(
    rf"[ \t]*\\(?:\n(?:(?P<comments>(?:[ \t]*#[^\n]*\n){{1,{_MOST}}})|(?:[ \t]*\n){{1,{_MOST}}})"
    r"|(?P<blanks>[ \t]+)(?P<comment>#[^\n]*)?\n)(?P<next>[^\n]*)"
)
_CONTINUED = re.compile(r"[ \t]*--?[A-Za-z]")
"The beginning of a line that its author meant as a part of the command before it: an option."


def find_cut(text: str, end: int) -> tuple[int, int, str] | None:
    """What ends a command before its options end: the start, the end and the kind; None if nothing does.

    Args:
        text: the script.
        end: the offset of the end of the command.
    """
    found = _CUT.match(text, end)
    if found is None or not _CONTINUED.match(found["next"]):
        return None
    backslash = text.index("\\", end)
    if found["comment"]:
        return found.start("comment"), found.end("comment"), "a comment after the backslash"
    if found["blanks"]:
        return backslash, found.end("blanks"), "blanks after the backslash"
    if not found["comments"]:
        return backslash, backslash + 1, "a blank line"
    start = text.index("#", backslash)
    return start, text.index("\n", start), "a comment"
