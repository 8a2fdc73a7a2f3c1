"""Connections to machines that have Slurm: over SSH, or this machine itself."""
