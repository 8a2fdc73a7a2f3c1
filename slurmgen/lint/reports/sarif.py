"""SARIF 2.1.0, which code hosts and editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import quote

from slurmgen.lint.finding import Edit, Report, Rule
from slurmgen.lint.reader.source import Position, Source
from slurmgen.lint.reports.base import Linted, each
from slurmgen.text import visible_json

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_MOST_EDITS = 1000
"A fix with more, such as one for every line of a long file, is left out."


def report(files: Sequence[Linted]) -> str:
    """One run with all findings and their rules."""
    used = {found.rule.code: found.rule for _, found in each(files)}
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
