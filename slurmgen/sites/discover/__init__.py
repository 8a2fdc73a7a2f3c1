"""Describe a cluster as a site profile, from what Slurm and the login node report.

`query.QUERY` runs on the login node; everything else is pure.
"""
