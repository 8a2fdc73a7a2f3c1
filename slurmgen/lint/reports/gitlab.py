"""The Code Quality report of GitLab.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import PurePath

from slurmgen.lint.reader.source import Source
from slurmgen.lint.reports.base import Linted
from slurmgen.text import visible_json

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def report(files: Sequence[Linted]) -> str:
    """One object for each finding."""
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
            "severity": _SEVERITIES[found.rule.severity],
            "location": {
                "path": PurePath(file.name).as_posix(),
                "lines": {"begin": found.start.line, "end": found.end.line},
            },
        }
        seen[key] += 1


def _fingerprint(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
