"""Write a new site profile from answers to questions, and from what discovery found."""

from slurmgen.sites.new.answers import Facts, Keys, new_faults
from slurmgen.sites.new.questions import LATER, QUESTIONS, Open, Question, open_in_partitions
from slurmgen.sites.new.text import ANSWERS, Stated, profile_text

__all__ = [
    "ANSWERS",
    "LATER",
    "QUESTIONS",
    "Facts",
    "Keys",
    "Open",
    "Question",
    "Stated",
    "new_faults",
    "open_in_partitions",
    "profile_text",
]
