"""Write a new site profile from answers to questions, and from what discovery found."""

from slurmgen.sites.new.answers import Facts, Keys, new_faults
from slurmgen.sites.new.profile import Author, new_profile
from slurmgen.sites.new.questions import QUESTIONS, Question
from slurmgen.sites.new.text import DISCOVERED, Stated

__all__ = [
    "DISCOVERED",
    "QUESTIONS",
    "Author",
    "Facts",
    "Keys",
    "Question",
    "Stated",
    "new_faults",
    "new_profile",
]
