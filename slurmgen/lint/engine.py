"""Run rules on a script: select them, drop suppressed findings, sort the others."""

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
"A fix may cause another finding; after this many rounds fixing stops."

_IGNORE = r"#\s*slurmgen:\s*ignore\s*=\s*([A-Za-z0-9_, ]+)"


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[str, ...]:
    """The rules whose codes begin with a selected prefix and with no ignored one.

    The rule that reports an incomplete check is always included.

    Raises:
        RequestError: no rule has such a prefix.
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
    """All findings in a batch script, in the order of its lines.

    Args:
        text: the script.
        site: the target cluster; without one, the rules about clusters report nothing.
        path: the path of the script, needed to find the training script.
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
    """The codes that comments suppress, by line."""
    found: dict[int, set[str]] = {}
    for match in re.finditer(_IGNORE, script.source.text):
        line = script.source.position(match.start()).line
        codes = {code.strip().upper() for code in match[1].split(",")}
        for allowed in _lines_of(line, script.source.line(line)):
            found.setdefault(allowed, set()).update(codes)
    return found


def _lines_of(line: int, text: str) -> tuple[int, ...]:
    """The lines that a comment applies to: its own, the next if it stands alone, from line 2 also line 1."""
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
    """The text with the edits of some findings applied; of two that touch, only the first."""
    edits = [edit for group in _compatible(report.finding.edits for report in reports) for edit in group]
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*parts, text[at:]])


def _compatible(groups: Iterable[tuple[Edit, ...]]) -> Iterator[tuple[Edit, ...]]:
    """The edits that overlap no earlier one; all edits of a finding, or none."""
    taken: list[Edit] = []
    "Sorted, so that an edit can overlap only its neighbours."
    for group in groups:
        if not any(_touch(edit, other) for edit in group for other in _neighbours(edit, taken)):
            for edit in group:
                insort(taken, edit)
            yield group


def _neighbours(edit: Edit, taken: list[Edit]) -> list[Edit]:
    at = bisect(taken, edit)
    return taken[max(at - 1, 0) : at + 1]


def _touch(a: Edit, b: Edit) -> bool:
    """Whether two edits overlap; whole lines inserted at the same place do not."""
    if a.span == b.span and a.span.start == a.span.end:
        return a == b or not (a.text.endswith("\n") and b.text.endswith("\n"))
    return a.span.start < b.span.end and b.span.start < a.span.end
