"""Describe a cluster as a site profile, from what Slurm and the login node report.

`QUERY` runs on the login node; everything else is pure.
"""

from slurmgen.sites.discover.compare import Difference, corrected, differences
from slurmgen.sites.discover.facts import Discovery, cluster_name, discover
from slurmgen.sites.discover.probe import with_probe
from slurmgen.sites.discover.query import QUERY, answers
from slurmgen.sites.discover.write import command_name, profile_text

__all__ = [
    "QUERY",
    "Difference",
    "Discovery",
    "answers",
    "cluster_name",
    "command_name",
    "corrected",
    "differences",
    "discover",
    "profile_text",
    "with_probe",
]
