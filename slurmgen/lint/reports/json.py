"""The JSON formats: slurmgen's own, GitLab's, and SARIF."""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import PurePath
from urllib.parse import quote

from slurmgen.lint.finding import Edit, Linted, Report, Rule
from slurmgen.lint.reader.source import Position, Source
from slurmgen.text import visible_json


def json(files: Sequence[Linted]) -> str:
    """One list with all findings."""
    return visible_json([_object(file.name, found) for file in files for found in file.reports], indent=2)


def _object(name: str, found: Report) -> dict[str, object]:
    return {
        "file": name,
        "line": found.start.line,
        "column": found.start.column,
        "end_line": found.end.line,
        "end_column": found.end.column,
        "code": found.rule.code,
        "rule": found.rule.name,
        "severity": found.rule.severity,
        "message": found.finding.message,
        "advice": found.finding.advice,
        "fixable": bool(found.finding.edits),
        "fix": ("safe" if found.finding.safe else "unsafe") if found.finding.edits else None,
    }


_GITLAB_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def gitlab(files: Sequence[Linted]) -> str:
    """The Code Quality report of GitLab.

    https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
    """
    return visible_json([issue for file in files for issue in _issues(file)], indent=2)


def _issues(file: Linted) -> Iterator[dict[str, object]]:
    """The findings of a file. A fingerprint stays the same when its line moves."""
    source = Source(file.text)
    seen: Counter[tuple[str, str]] = Counter()
    for found in file.reports:
        key = (found.rule.code, source.line(found.start.line))
        yield {
            "description": found.sentence,
            "check_name": found.rule.code,
            "fingerprint": _fingerprint(file.name, *key, str(seen[key])),
            "severity": _GITLAB_SEVERITIES[found.rule.severity],
            "location": {
                "path": PurePath(file.name).as_posix(),
                "lines": {"begin": found.start.line, "end": found.end.line},
            },
        }
        seen[key] += 1


def _fingerprint(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_MOST_EDITS = 1000
"A fix with more, such as one for every line of a long file, is left out."


def sarif(files: Sequence[Linted]) -> str:
    """SARIF 2.1.0, which code hosts and editors read: one run with all findings and their rules.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    used = {found.rule.code: found.rule for file in files for found in file.reports}
    order = sorted(used)
    driver = {
        "name": "slurmgen",
        "rules": [_rule(used[code]) for code in order],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(file, source, found, order.index(found.rule.code))
            for file in files
            for source in (Source(file.text),)
            for found in file.reports
        ],
    }
    return visible_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.doc.partition("\n")[0]},
        "help": {"text": rule.doc.strip(), "markdown": rule.doc.strip()},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(file: Linted, source: Source, found: Report, index: int) -> dict[str, object]:
    region = _region(found.start, found.end)
    result: dict[str, object] = {
        "ruleId": found.rule.code,
        "ruleIndex": index,
        "level": found.rule.severity,
        "message": {"text": found.sentence},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(file.name), "region": region}}],
    }
    if 0 < len(found.finding.edits) <= _MOST_EDITS:
        result["fixes"] = [_fix(file, source, found)]
    return result


def _fix(file: Linted, source: Source, found: Report) -> dict[str, object]:
    changes = [_replacement(source, edit) for edit in found.finding.edits]
    return {
        "description": {"text": found.finding.advice or found.finding.message},
        "artifactChanges": [{"artifactLocation": _artifact(file.name), "replacements": changes}],
    }


def _replacement(source: Source, edit: Edit) -> dict[str, object]:
    region = _region(source.position(edit.span.start), source.position(edit.span.end))
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _region(start: Position, end: Position) -> dict[str, int]:
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }


def _artifact(name: str) -> dict[str, str]:
    return {"uri": quote(PurePath(name).as_posix())}
