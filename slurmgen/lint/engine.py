"""Run rules on a script: select them, drop suppressed findings, sort the others, and apply their fixes."""

import os
import re
from bisect import bisect, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.lint.finding import Edit, Finding, Report, Rule
from slurmgen.lint.reader import Script, Span, read
from slurmgen.lint.reader.embedded import Embedded, embedded
from slurmgen.lint.rules import EXPANDED, OTHER_SCHEDULER, TOO_LARGE, all_rules
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.sites.model import Site

_MOST = 1000
"Findings of one rule in one script."
_MOST_LINES = 5
"Further lines that a message lists."
_TRIALS = 20
"Fixes that are tried one by one, if all of them together bring a finding."
_PASSES = 5
"A fix may cause another finding; after this many rounds fixing stops."

_IGNORE = r"#\s*slurmgen:\s*ignore\s*=\s*([A-Za-z0-9_, ]+)"


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = (), notes: bool = False) -> tuple[str, ...]:
    """The rules whose codes begin with a selected prefix and with no ignored one.

    The rule that reports an incomplete check is always included; a rule of severity note is included only if
    its whole code is selected, or with `notes`.

    Raises:
        RequestError: no rule has such a prefix.
    """
    select, ignore = tuple(map(str.upper, select)), tuple(map(str.upper, ignore))
    for code in (*select, *ignore):
        if not any(known.startswith(code) for known in all_rules()):
            raise RequestError(f"there is no lint rule {code!r}", did_you_mean(code, all_rules()))
    codes = [code for code in all_rules() if not select or code.startswith((*select, TOO_LARGE))]
    codes = [code for code in codes if notes or code in select or all_rules()[code].severity != "note"]
    return tuple(code for code in codes if not (ignore and code.startswith(ignore)))


def lint_text(
    text: str, site: "Site | None" = None, path: Path | None = None, codes: Iterable[str] | None = None
) -> tuple[Report, ...]:
    """All findings in a batch script, in the order of its lines.

    Args:
        text: the script.
        site: the target cluster; without one, the rules about clusters report nothing.
        path: the path of the script, needed to find the training script.
        codes: the rules to run; all but the notes if None.
    """
    script = read(text, path)
    codes = tuple(chosen() if codes is None else codes)
    if script.other_scheduler:
        codes = tuple({OTHER_SCHEDULER} & {*codes})
    found = _merged([*_reports(script, site, codes), *_reports_within(script, site, path, codes)])
    return tuple(sorted(found, key=lambda report: (report.start, report.rule.code)))


def _reports(script: Script, site: "Site | None", codes: Iterable[str]) -> Iterator[Report]:
    allowed = _allowed(script)
    for rule, finding in _findings(script, site, codes):
        report = _report(script, rule, finding)
        if rule.code not in allowed.get(report.start.line, ()):
            yield report


def _reports_within(
    script: Script, site: "Site | None", path: Path | None, codes: Iterable[str]
) -> Iterator[Report]:
    """The findings in the batch scripts that a script contains, such as `sbatch <<EOF`."""
    allowed = _allowed(script)
    for inner in embedded(script.shell):
        place = inner.place
        within = read(inner.text, path, _line_in(script, inner))
        for rule, finding in _findings(within, site, codes):
            if inner.is_exact:
                at = place(Span(0, 0)).start
                edits = tuple(
                    edit._replace(span=Span(*(at + i for i in edit.span))) for edit in finding.edits
                )
            elif rule.code == EXPANDED:
                continue
            else:
                edits = ()
            report = _report(script, rule, finding._replace(span=place(finding.span), edits=edits))
            if rule.code not in allowed.get(report.start.line, ()):
                yield report


def _line_in(script: Script, inner: Embedded) -> Callable[[int], int]:
    return lambda offset: script.source.position(inner.place(Span(offset, offset)).start).line


def _findings(script: Script, site: "Site | None", codes: Iterable[str]) -> Iterator[tuple[Rule, Finding]]:
    for code in codes:
        rule = all_rules()[code]
        for finding in _some(script, _one_per_place(rule.check(script, site))):
            yield rule, finding


def _one_per_place(findings: Iterator[Finding]) -> Iterator[Finding]:
    seen = set()
    for finding in findings:
        if finding.span not in seen:
            seen.add(finding.span)
            yield finding


def _merged(reports: Iterable[Report]) -> Iterator[Report]:
    """One report for all findings of a rule with the same text: they have one cause."""
    groups: dict[tuple[str, str, str], list[Report]] = {}
    for report in reports:
        groups.setdefault((report.rule.code, report.finding.message, report.finding.advice), []).append(
            report
        )
    for first, *others in (sorted(group, key=lambda report: report.start) for group in groups.values()):
        yield _with_others(first, others) if others else first


def _with_others(first: Report, others: list[Report]) -> Report:
    lines = sorted({report.start.line for report in others} - {first.start.line})
    also = f" (also on {_lines_text(lines)})" if lines else ""
    finding = first.finding
    edits = tuple(edit for report in (first, *others) for edit in report.finding.edits)
    is_safe = all(report.finding.safe for report in (first, *others) if report.finding.edits)
    return first._replace(
        finding=finding._replace(
            message=finding.message + also, edits=tuple(dict.fromkeys(edits)), safe=is_safe
        )
    )


def _lines_text(lines: list[int]) -> str:
    if len(lines) > _MOST_LINES:
        return f"{counted(len(lines), 'further line')}, up to {lines[-1]}"
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


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


class Fixed(NamedTuple):
    """A script after its fixes."""

    text: str
    applied: tuple[Report, ...]
    "The findings whose fix was applied."
    left: tuple[tuple[Report, str], ...] = ()
    "The other findings of the result, each with why it was not fixed."


def fix(
    text: str,
    site: "Site | None" = None,
    path: Path | None = None,
    codes: Iterable[str] | None = None,
    unsafe: bool = False,
) -> Fixed:
    """Apply the safe fixes, including those of findings that an earlier fix reveals.

    A fix that would bring a new finding is not applied.

    Args:
        text: the script.
        site: the target cluster.
        path: the path of the script.
        codes: the rules to run; all but the notes if None.
        unsafe: also apply the fixes that may change the behaviour of a script that runs.
    """
    rules = None if codes is None else tuple(codes)

    def lint(text: str) -> tuple[Report, ...]:
        return lint_text(text, site, path, rules)

    applied: list[Report] = []
    reports = lint(text)
    for _ in range(_PASSES):
        wanted = [report for report in reports if report.finding.edits and (unsafe or report.finding.safe)]
        before = text
        text, reports, done = _apply(text, reports, wanted, lint)
        applied += done
        if text == before:
            break
    return Fixed(text, tuple(applied), tuple((report, _why_left(report, unsafe)) for report in reports))


def _why_left(report: Report, unsafe: bool) -> str:
    if not report.finding.edits:
        return "no fix is known to be right"
    if unsafe or report.finding.safe:
        return "its fix would bring another finding, or overlaps another fix"
    return "its fix changes what runs: --unsafe-fixes applies it"


def fix_all(
    text: str, site: "Site | None" = None, path: Path | None = None, codes: Iterable[str] | None = None
) -> str:
    """The script with every fix applied, the unsafe ones too; see `fix`."""
    return fix(text, site, path, codes, unsafe=True).text


def _apply(
    text: str, reports: tuple[Report, ...], wanted: list[Report], lint: Callable[[str], tuple[Report, ...]]
) -> tuple[str, tuple[Report, ...], list[Report]]:
    """Apply all fixes together, or one after the other if together they bring a finding."""
    together = fixed(text, wanted)
    if together == text:
        return text, reports, []
    after = lint(together)
    if _adds_nothing(reports, after):
        return together, after, wanted
    for report in wanted[:_TRIALS]:
        alone = fixed(text, [report])
        after = lint(alone)
        if alone != text and _adds_nothing(reports, after):
            return alone, after, [report]
    return text, reports, []


def _adds_nothing(before: tuple[Report, ...], after: tuple[Report, ...]) -> bool:
    """Whether no rule has more findings than before."""
    return Counter(r.rule.code for r in after) <= Counter(r.rule.code for r in before)


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


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def patch(name: str, before: str, after: str) -> str:
    """A unified diff with the file's path relative to the current folder; empty without a change."""
    path = _relative(name)
    # A tab ends a file name that contains a blank.
    end = "\t" if " " in path else ""
    lines = unified_diff(_LINE.findall(before), _LINE.findall(after), f"a/{path}{end}", f"b/{path}{end}")
    return "".join(line if line.endswith("\n") else line + _NO_NEWLINE for line in lines)


def _relative(name: str) -> str:
    path = Path(os.path.normpath(name))
    folder = Path.cwd()
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix().lstrip("/")
