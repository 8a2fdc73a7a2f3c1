"""Run the rules over a script: choose them, leave out what a comment allows, sort."""

import re
from bisect import bisect, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.lint.finding import Edit, Finding, Report, Rule
from slurmgen.lint.reader import Script, read
from slurmgen.lint.rules import TOO_LARGE, all_rules

if TYPE_CHECKING:
    from slurmgen.sites.model import Site

_MOST = 1000
"Findings of one rule in one script."
_PASSES = 5
"A change may bring another finding, but not for ever."

_IGNORE = r"#\s*slurmgen:\s*ignore\s*=\s*([A-Za-z0-9_, ]+)"


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[str, ...]:
    """The rules whose codes begin with one that is selected and with none that is ignored.

    That not all of a script is checked is reported whatever is selected.

    Raises:
        RequestError: no rule begins like that.
    """
    select, ignore = tuple(map(str.upper, select)), tuple(map(str.upper, ignore))
    for code in (*select, *ignore):
        if not any(known.startswith(code) for known in all_rules()):
            raise RequestError(f"there is no lint rule {code!r}", did_you_mean(code, all_rules()))
    codes = [code for code in all_rules() if not select or code.startswith((*select, TOO_LARGE))]
    return tuple(code for code in codes if not (ignore and code.startswith(ignore)))


def lint_text(
    text: str, site: "Site | None" = None, path: Path | None = None, codes: Iterable[str] | None = None
) -> tuple[Report, ...]:
    """Every fault of a batch script, in the order of its lines.

    Args:
        text: the script.
        site: the cluster it is for; without one, rules about clusters are silent.
        path: where it lies, so that the training script can be found.
        codes: the rules to run; all of them if None.
    """
    script = read(text, path)
    found = _reports(script, site, all_rules() if codes is None else codes)
    return tuple(sorted(found, key=lambda report: (report.start, report.rule.code)))


def _reports(script: Script, site: "Site | None", codes: Iterable[str]) -> Iterator[Report]:
    allowed = _allowed(script)
    for code in codes:
        rule, seen = all_rules()[code], set()
        for finding in _some(script, rule.check(script, site)):
            report = _report(script, rule, finding)
            if finding.span not in seen and code not in allowed.get(report.start.line, ()):
                seen.add(finding.span)
                yield report


def _some(script: Script, findings: Iterator[Finding]) -> Iterator[Finding]:
    yield from islice(findings, _MOST)
    if next(findings, None):
        script.budget.exhaust()


def _report(script: Script, rule: Rule, finding: Finding) -> Report:
    position = script.source.position
    return Report(rule, finding, position(finding.span.start), position(finding.span.end))


def _allowed(script: Script) -> dict[int, set[str]]:
    """The codes that comments allow, by line."""
    found: dict[int, set[str]] = {}
    for match in re.finditer(_IGNORE, script.source.text):
        line = script.source.position(match.start()).line
        codes = {code.strip().upper() for code in match[1].split(",")}
        for allowed in _lines_of(line, script.source.line(line)):
            found.setdefault(allowed, set()).update(codes)
    return found


def _lines_of(line: int, text: str) -> tuple[int, ...]:
    """The lines a comment speaks for: its own, the next if it stands alone, and from line 2 the first."""
    if text.startswith("#SBATCH") or not text.lstrip().startswith("#"):
        return (line,)
    return (1, 2, 3) if line == 2 else (line, line + 1)


def fix_all(
    text: str, site: "Site | None" = None, path: Path | None = None, codes: Iterable[str] | None = None
) -> str:
    """The script with every fix applied, including fixes for findings that an earlier fix reveals."""
    asked = None if codes is None else tuple(codes)
    for _ in range(_PASSES):
        before, text = text, fixed(text, lint_text(text, site, path, asked))
        if text == before:
            break
    return text


def fixed(text: str, reports: Iterable[Report]) -> str:
    """The text with the changes of some findings made; of two that touch, the first."""
    edits = [edit for group in _compatible(report.finding.edits for report in reports) for edit in group]
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*parts, text[at:]])


def _compatible(groups: Iterable[tuple[Edit, ...]]) -> Iterator[tuple[Edit, ...]]:
    """The changes, each whole or not at all, that do not overlap one before them."""
    taken: list[Edit] = []
    "In order; what touches one of them touches a neighbour of its own place."
    for group in groups:
        if not any(_touch(edit, other) for edit in group for other in _neighbours(edit, taken)):
            for edit in group:
                insort(taken, edit)
            yield group


def _neighbours(edit: Edit, taken: list[Edit]) -> list[Edit]:
    at = bisect(taken, edit)
    return taken[max(at - 1, 0) : at + 1]


def _touch(a: Edit, b: Edit) -> bool:
    """Whether two changes are in each other's way; whole lines put in at one place are not."""
    if a.span == b.span and a.span.start == a.span.end:
        return a == b or not (a.text.endswith("\n") and b.text.endswith("\n"))
    return a.span.start < b.span.end and b.span.start < a.span.end
