"""The plan of a job: what `resolve` decides from a request and a site.

Read model.py, then resolve.py, which calls the others in order. Any function here that reads a request raises
RequestError, with a fact and a hint, if the request contradicts itself or the site.
"""

from slurmgen.plan.explain import as_dict
from slurmgen.plan.model import Plan
from slurmgen.plan.resolve import resolve

__all__ = ["Plan", "as_dict", "resolve"]
