"""`python -m slurmgen`."""

from slurmgen.cli import main

main()
