"""The XML of JUnit, which CI services show as test results: one test for each file and rule that failed.

https://github.com/testmoapp/junitxml
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from slurmgen.lint.finding import Report
from slurmgen.lint.reports.base import Linted, xml


def report(files: Sequence[Linted]) -> str:
    """One suite for each file: a failure for each finding, or one test that passed."""
    suites = Element("testsuites", {"name": "slurmgen lint", **_counts(files)})
    for file in files:
        suite = SubElement(suites, "testsuite", {"name": file.name, **_counts([file])})
        for found in file.reports:
            _add_failure(suite, file.name, found)
        if not file.reports:
            SubElement(suite, "testcase", classname=file.name, name="no findings")
    return xml(suites)


def _counts(files: Sequence[Linted]) -> dict[str, str]:
    tests = sum(max(len(file.reports), 1) for file in files)
    return {"tests": str(tests), "failures": str(sum(len(file.reports) for file in files)), "errors": "0"}


def _add_failure(suite: Element, name: str, found: Report) -> None:
    place = f"{name}:{found.start.line}:{found.start.column}"
    title = f"{found.rule.code} {found.rule.name} line {found.start.line}"
    case = SubElement(suite, "testcase", classname=name, name=title, file=name, line=str(found.start.line))
    failure = SubElement(case, "failure", type=found.rule.severity, message=found.sentence)
    failure.text = f"{place}: {found.sentence}"
