"""The plan of a job: what `resolve` decides from a request and a site."""

from slurmgen.plan.explain import as_dict
from slurmgen.plan.model import Plan
from slurmgen.plan.resolve import resolve

__all__ = ["Plan", "as_dict", "resolve"]
