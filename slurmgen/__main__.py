"""`python -m slurmgen`."""

try:
    from slurmgen.cli import main
except KeyboardInterrupt:  # from here on main tells
    raise SystemExit(130) from None

main()
