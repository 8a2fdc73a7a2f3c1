"""The XML of Checkstyle, which many code review tools read.

https://github.com/checkstyle/checkstyle/blob/master/src/main/java/com/puppycrawl/tools/checkstyle/XMLLogger.java
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from slurmgen.lint.reports.base import Linted, xml

_SEVERITIES = {"error": "error", "warning": "warning", "note": "info"}


def report(files: Sequence[Linted]) -> str:
    """One element for each file, with its findings."""
    root = Element("checkstyle", version="4.3")
    for file in files:
        parent = SubElement(root, "file", name=file.name)
        for found in file.reports:
            SubElement(
                parent,
                "error",
                line=str(found.start.line),
                column=str(found.start.column),
                severity=_SEVERITIES[found.rule.severity],
                message=found.sentence,
                source=f"slurmgen.{found.rule.code}",
            )
    return xml(root)
