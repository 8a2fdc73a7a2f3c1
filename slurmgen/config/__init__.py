"""Settings in files: slurmgen.toml of a project, and the personal.toml of the user."""
