"""The input of the report formats."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from slurmgen.lint.finding import Report
from slurmgen.text import visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class Linted(NamedTuple):
    """One file and its findings."""

    name: str
    "As given on the command line; `-` is standard input."
    text: str
    reports: tuple[Report, ...]


def each(files: Sequence[Linted]) -> Iterator[tuple[Linted, Report]]:
    """Every finding with its file."""
    return ((file, report) for file in files for report in file.reports)


def xml(root: "Element") -> str:
    """An XML document in ASCII, without the control characters that XML does not allow."""
    from xml.etree.ElementTree import indent, tostring

    for element in root.iter():
        element.attrib.update({name: visible(value) for name, value in element.attrib.items()})
        element.text = element.text and visible(element.text)
    indent(root)
    document: bytes = tostring(root, "us-ascii", xml_declaration=True)
    return document.decode() + "\n"
