"""JAX on all GPUs of a job: one process per GPU, and one array over all of them."""

import os
import sys

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils


def end_at_once(*error):
    """Without it, a failed rank waits at its exit for the others, which wait for it."""
    sys.__excepthook__(*error)
    sys.stderr.flush()
    os._exit(1)


def main():
    sys.excepthook = end_at_once
    jax.distributed.initialize()  # before any other use of JAX
    rank, ranks = jax.process_index(), jax.process_count()
    total = multihost_utils.process_allgather(jnp.ones(jax.local_device_count())).sum()
    print(f"rank {rank} of {ranks}: the sum over all ranks is {total:.0f}", flush=True)


if __name__ == "__main__":
    main()
