"""What became known of jobs, from evidence.

Read job and lookup, then slurm, query and report.
"""
