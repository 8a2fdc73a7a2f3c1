"""A job while it runs: its allocation, what its GPUs do, and steps beside its own."""
