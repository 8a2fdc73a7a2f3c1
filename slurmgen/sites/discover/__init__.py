"""Describe a cluster as a site profile, from what Slurm and the login node report.

`QUERY` runs on the login node; everything else is pure.
"""

from slurmgen.sites.discover.compare import Difference, command_name, corrected, differences, profile_text
from slurmgen.sites.discover.probe import with_probe
from slurmgen.sites.discover.profile import Discovery, cluster_name, discover
from slurmgen.sites.discover.query import QUERY, answers

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
