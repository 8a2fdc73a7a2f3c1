"""Check the nodes of a Slurm job before training.

    python3 preflight job [OPTION...] -- srun ... python3 preflight node

The batch script starts `job`, which starts `node` once on each node by the command after `--`. It prints one
line per node and a verdict, and writes .preflight-$SLURM_JOB_ID.json. The exit status is 79 if a node is bad.

It needs Python 3.6 or newer, and uses PyTorch if it is there. Nothing here imports slurmgen.
"""

import argparse
import sys

import controller
import node


def main(argv):
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(prog="preflight", description="Check the nodes of a Slurm job.")
    parser.add_argument("part", choices=["job", "node"])
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs of the job on each node; 0: check none")
    parser.add_argument(
        "--min-bandwidth", type=float, default=0.0, metavar="MB/s", help="the least between two nodes"
    )
    parser.add_argument("--rendezvous", default="", metavar="HOST:PORT", help="where the ranks will meet")
    words = argv[: argv.index("--")] if "--" in argv else argv
    options = parser.parse_args(words)
    if options.part == "node":
        return node.main()
    command = argv[len(words) + 1 :]
    if not command:
        parser.error("the command that starts the nodes is missing after --")
    return controller.main(command, options.gpus, options.min_bandwidth, options.rendezvous)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
