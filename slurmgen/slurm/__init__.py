"""Slurm's command line: argument vectors, reply parsers, times, sizes, options."""
