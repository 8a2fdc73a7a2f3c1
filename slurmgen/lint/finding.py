"""The findings of rules, with their location, message, advice and fix."""

from collections.abc import Callable, Iterator
from inspect import cleandoc
from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmgen.lint.reader.source import Position, Span

if TYPE_CHECKING:
    from slurmgen.lint.reader import Script
    from slurmgen.sites.model import Site as Site
else:
    # Rules need the name for annotations only, and the module is slow to import.
    Site = object

Severity = Literal["error", "warning", "note"]
"error: the job fails or computes something else. warning: it wastes time or will collide. note: opt-in."


class Edit(NamedTuple):
    """A span of the text and its replacement."""

    span: Span
    text: str


class Finding(NamedTuple):
    """One fault in a script."""

    span: Span
    message: str
    advice: str = ""
    "What to write instead, in the imperative."
    edits: tuple[Edit, ...] = ()
    "The fix, if there is one."
    safe: bool = False
    "Whether the fix leaves the behaviour of every script that runs unchanged."


class Rule(NamedTuple):
    """One rule."""

    code: str
    name: str
    severity: Severity
    doc: str
    "Its page. The first line is a sentence that states the fault."
    check: "Callable[[Script, Site | None], Iterator[Finding]]"

    @property
    def summary(self) -> str:
        """The fault, without a period."""
        return self.doc.partition("\n")[0].removesuffix(".")


RULES: dict[str, Rule] = {}
"The rules of the modules that are imported, by code."

_Check = Callable[["Script"], Iterator[Finding]]
_SiteCheck = Callable[["Script", Site], Iterator[Finding]]


def rule(code: str, severity: Severity) -> Callable[[_Check], _Check]:
    """Register a rule, named after its function; the docstring is its page.

    A page without a reference refers to that of sbatch.
    """

    def register(check: _Check) -> _Check:
        name, page = _name_and_page(check, "https://slurm.schedmd.com/sbatch.html")
        RULES[code] = Rule(code, name, severity, page, lambda script, _site: check(script))
        return check

    return register


def site_rule(code: str, severity: Severity) -> Callable[[_SiteCheck], _SiteCheck]:
    """Register a rule that compares a script with the profile of its site."""

    def register(check: _SiteCheck) -> _SiteCheck:
        name, page = _name_and_page(check, "`slurmgen sites show NAME`")
        checked = Rule(
            code, name, severity, page, lambda script, site: check(script, site) if site else iter(())
        )
        RULES[code] = checked
        return check

    return register


def _name_and_page(check: Callable[..., object], reference: str) -> tuple[str, str]:
    page = cleandoc(check.__doc__ or "")
    if "## Reference" not in page:
        page += f"\n\n## Reference\n{reference}"
    return check.__name__.replace("_", "-"), page


class Report(NamedTuple):
    """A finding with its rule and its location in the file."""

    rule: Rule
    finding: Finding
    start: Position
    end: Position

    @property
    def sentence(self) -> str:
        """The message with the advice, on one line."""
        return "; ".join(filter(None, [self.finding.message, self.finding.advice]))


class Linted(NamedTuple):
    """One file and its findings."""

    name: str
    "As given on the command line; `-` is standard input."
    text: str
    reports: tuple[Report, ...]
