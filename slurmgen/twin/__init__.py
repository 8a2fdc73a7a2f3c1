"""A twin: a real Slurm on this machine in the shape of a site, to try scripts on without queueing."""

from slurmgen.twin.lifecycle import down, up
from slurmgen.twin.store import Twin, find, running, stored

__all__ = ["Twin", "down", "find", "running", "stored", "up"]
