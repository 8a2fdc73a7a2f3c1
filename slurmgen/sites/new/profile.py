"""A new profile: what is known, what is not, and who states it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurmgen.sites.access import Source
from slurmgen.sites.new.answers import Facts, Keys
from slurmgen.sites.new.questions import LATER, QUESTIONS, Open, open_in_partitions
from slurmgen.sites.new.text import ANSWERS, DISCOVERED, Stated, profile_text


class Author(NamedTuple):
    """Who answers the questions."""

    user: str
    date: str
    "The day, as YYYY-MM-DD."
    page: str | None = None
    "The address of the documentation that has the answers."


def new_profile(
    name: str, facts: Facts, found: Mapping[Keys, Stated], remarks: Sequence[str], by: Author
) -> str:
    """The text of a new profile.

    Args:
        name: the name of the site.
        facts: everything that is known.
        found: the part of it that a cluster reported.
        remarks: what readers must know besides.
        by: who states the other facts.
    """
    stated = [
        found[keys] if keys in found and found[keys].value == value else Stated(keys, value, ANSWERS)
        for keys, value in facts.items()
    ]
    discovered = Source(mark="discovered", title="slurmgen sites discover", date=by.date)
    sources = ({DISCOVERED: discovered} if found else {}) | {ANSWERS: _source_of_answers(by)}
    unknown = _unknown(facts, has_partitions=any(keys[0] == "partitions" for keys in found))
    return profile_text(name, stated, unknown, sources, remarks, by.date)


def _source_of_answers(by: Author) -> Source:
    if by.page:
        title = f"documentation, read by {by.user}"
        return Source(mark="documentation", title=title, url=by.page, date=by.date)
    return Source(mark="users", title=f"answers of {by.user} to `slurmgen sites new`", date=by.date)


def _unknown(facts: Facts, *, has_partitions: bool) -> list[Open]:
    """The keys that no answer states; those of partitions only if no cluster reported them."""
    gaps = [question.unanswered(facts) for question in QUESTIONS if not question.is_answered(facts)]
    partitions = [] if has_partitions else open_in_partitions(facts)
    return [gap for gap in (*gaps, *partitions, *LATER) if gap.keys not in facts]
