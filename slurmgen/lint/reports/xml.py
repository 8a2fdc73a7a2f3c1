"""The formats in XML."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from slurmgen.lint.finding import Linted, Report
from slurmgen.text import visible

_SEVERITIES = {"error": "error", "warning": "warning", "note": "info"}


def checkstyle(files: Sequence[Linted]) -> str:
    """The XML of Checkstyle, which many code review tools read: one element for each file.

    https://github.com/checkstyle/checkstyle/blob/master/src/main/java/com/puppycrawl/tools/checkstyle/XMLLogger.java
    """
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
    return _document(root)


def junit(files: Sequence[Linted]) -> str:
    """The XML of JUnit, which CI services show as test results.

    One suite for each file: a failure for each finding, or one test that passed.
    https://github.com/testmoapp/junitxml
    """
    suites = Element("testsuites", {"name": "slurmgen lint", **_counts(files)})
    for file in files:
        suite = SubElement(suites, "testsuite", {"name": file.name, **_counts([file])})
        for found in file.reports:
            _add_failure(suite, file.name, found)
        if not file.reports:
            SubElement(suite, "testcase", classname=file.name, name="no findings")
    return _document(suites)


def _counts(files: Sequence[Linted]) -> dict[str, str]:
    tests = sum(max(len(file.reports), 1) for file in files)
    return {"tests": str(tests), "failures": str(sum(len(file.reports) for file in files)), "errors": "0"}


def _add_failure(suite: Element, name: str, found: Report) -> None:
    place = f"{name}:{found.start.line}:{found.start.column}"
    title = f"{found.rule.code} {found.rule.name} line {found.start.line}"
    case = SubElement(suite, "testcase", classname=name, name=title, file=name, line=str(found.start.line))
    failure = SubElement(case, "failure", type=found.rule.severity, message=found.sentence)
    failure.text = f"{place}: {found.sentence}"


def _document(root: Element) -> str:
    """An XML document in ASCII, without the control characters that XML does not allow."""
    for element in root.iter():
        element.attrib.update({name: visible(value) for name, value in element.attrib.items()})
        element.text = element.text and visible(element.text)
    indent(root)
    document: bytes = tostring(root, "us-ascii", xml_declaration=True)
    return document.decode() + "\n"
