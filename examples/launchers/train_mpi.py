"""MPI on all GPUs of a job: one rank per GPU."""

import os

from mpi4py import MPI


def main():
    world = MPI.COMM_WORLD
    if world.size != int(os.environ["SLURM_NTASKS"]):  # each task is a job of its own with the wrong --mpi
        raise RuntimeError("MPI did not find the other ranks: see `srun --mpi=list`")
    node = world.Split_type(MPI.COMM_TYPE_SHARED)  # the ranks of this node; node.rank chooses the GPU
    total = world.allreduce(1)
    text = f"rank {world.rank} of {world.size}, {node.rank} on its node: the sum over all ranks is {total}"
    print(text, flush=True)


if __name__ == "__main__":
    main()
