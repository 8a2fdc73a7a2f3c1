"""Settings in files: slurmgen.toml of a project, and personal.toml of the user."""
