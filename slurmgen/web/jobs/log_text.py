"""Lines of a log for a browser: colours as names of classes, everything else as visible text. Pure."""

import re

from slurmgen.text import visible

Run = tuple[str, str]
"A text and the classes of its style, such as `bold c1`."
_STYLE = re.compile("\x1b\\[([0-9;:]{0,64})m")
_ERASE = re.compile("\x1b\\[[0-9;]{0,8}K")
_BOLD, _NOT_BOLD, _DEFAULT = 1, 22, 39
_COLOURS = {base + number: f"c{number}" for base in (30, 90) for number in range(8)}
_MORE = {38, 48}
"They begin a colour of 256, or of all; it is left out."


def runs(line: bytes) -> list[Run]:
    r"""A line as texts of one style each. What a terminal would have overwritten is left out.

    >>> runs(b"10 %\r\x1b[1;31mbad\x1b[0m \x1b]0;title\x07<b>")
    [('bad', 'bold c1'), (' \\x1b]0;title\\x07<b>', '')]
    """
    text = _ERASE.sub("", line.decode(errors="backslashreplace")).rstrip("\r").rpartition("\r")[2]
    found, bold, colour, start = list[Run](), False, "", 0
    for match in [*_STYLE.finditer(text), None]:
        part = text[start : match.start() if match else None]
        if part:
            found.append((visible(part, keep="\t"), " ".join(filter(None, ["bold" * bold, colour]))))
        if match:
            bold, colour = _styled(match[1], bold, colour)
            start = match.end()
    return found


def _styled(codes: str, bold: bool, colour: str) -> tuple[bool, str]:
    """The style after some codes."""
    for code in (int(word or 0) for word in re.split("[;:]", codes)):
        if code in _MORE:
            break
        bold = code == _BOLD or (bold and code not in (0, _NOT_BOLD))
        colour = _COLOURS.get(code, "" if code in (0, _DEFAULT) else colour)
    return bold, colour
