"""Machines that have Slurm: how to reach them, and what to do there."""
