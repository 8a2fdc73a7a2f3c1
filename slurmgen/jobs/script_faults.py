"""What the linter finds in a batch script whose header is overridden by options of sbatch."""

from slurmgen.errors import RequestError
from slurmgen.jobs.batch_script import BatchScript
from slurmgen.lint.engine import lint_text
from slurmgen.lint.finding import Report
from slurmgen.sites.model import Site


def refuse_new_faults(
    before: BatchScript, after: BatchScript, words: tuple[str, ...], site: Site, hint: str
) -> None:
    """Refuse options with which the linter finds a fault that the script does not have without them.

    Args:
        before: the script without them.
        after: the script with them.
        words: the options.
        site: the cluster.
        hint: what to do about it.

    Raises:
        RequestError: there is one.
    """
    known = {_named(one) for one in _faults(before, site)}
    for one in _faults(after, site):
        if _named(one) not in known:
            raise RequestError(
                f"{before.file} cannot run as it is with {' '.join(words)}: {one.finding.message} "
                f"({one.rule.code}, line {one.start.line})",
                hint,
            )


def left_in(script: BatchScript, found: tuple[Report, ...], site: Site) -> tuple[Report, ...]:
    """The findings in a script without those that its options correct."""
    if not script.options:
        return found
    left = {_named(one) for one in lint_text(script.script.source.text, site)}
    return tuple(one for one in found if _named(one) in left)


def _faults(script: BatchScript, site: Site) -> tuple[Report, ...]:
    found = lint_text(script.script.source.text, site)
    return tuple(one for one in script.without_made(found) if one.rule.severity != "note")


def _named(one: Report) -> tuple[str, str]:
    return one.rule.code, one.finding.message
