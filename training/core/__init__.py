"""What the training scripts share: flags, data, models, the loop, and a `run_*` module a framework."""
