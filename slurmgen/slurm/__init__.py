"""Slurm as its command line shows it: argv builders, reply parsers, times, sizes, options."""
