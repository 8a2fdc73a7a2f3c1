"""Shared by the training scripts: flags, data, models, the loop, and a `run_*` module per framework."""
