"""Runs a program with a fault: faulty.py FAULT PROGRAM ARGUMENTS...

Faults of the hardware cannot be had on any machine: these stand in for them within one process.
"""

import os
import runpy
import signal
import sys
import time


def nan() -> None:
    """Each matrix product has a NaN."""
    import product  # type: ignore[import-not-found]

    product.multiply_plainly = lambda left: [[float("nan")] * len(left)] * len(left)


def wrong() -> None:
    """One number of each matrix product is off by one."""
    import product

    multiply = product.multiply_plainly

    def off_by_one(left: list[list[float]]) -> list[list[float]]:
        result: list[list[float]] = multiply(left)
        result[3][5] += 1
        return result

    product.multiply_plainly = off_by_one


def nan_when_repeated() -> None:
    """The first products are slow, so that they are measured again; those have a NaN."""
    import product

    measure, faults = product.products, [slow]

    def products(torch: object) -> object:
        faults.pop(0)() if faults else nan()
        return measure(torch)

    product.products = products


def clock() -> None:
    """What Python takes for the time of day is five seconds late."""
    correct = time.time
    time.time = lambda: correct() - 5.0


def slow() -> None:
    """A stand-in for a slow processor: each matrix product is computed many times.

    It is measured again while the other nodes, with which it shares this machine, are idle.
    """
    import product

    multiply = product.multiply_plainly
    product.multiply_plainly = lambda left: [multiply(left) for _ in range(40)].pop()


def killed() -> None:
    """The process is killed when it should tell the time."""
    import node  # type: ignore[import-not-found]

    node.Node.do_time = lambda _self: os.kill(os.getpid(), signal.SIGKILL)


def stopped() -> None:
    """The process is stopped when it should tell the time, and never continues."""
    import node

    node.Node.do_time = lambda _self: os.kill(os.getpid(), signal.SIGSTOP)


def absent() -> None:
    """The process is stopped before it connects."""
    import node

    node.main = lambda: os.kill(os.getpid(), signal.SIGSTOP)


def short_limits() -> None:
    """Not a fault: the job waits for seconds, not minutes; on a busy machine, nodes may start 10 s apart."""
    import check  # type: ignore[import-not-found]
    import nodes  # type: ignore[import-not-found]

    nodes.JOIN = check.FACTS = nodes.Limit(20.0, 60.0)
    nodes.Nodes.ask.__defaults__ = (nodes.Limit(20.0, 20.0),)
    impatient()


def impatient() -> None:
    """Not a fault: the job waits only a moment for a command that has lost a node."""
    import controller  # type: ignore[import-not-found]

    controller._END = 0.1


if __name__ == "__main__":
    fault, program = sys.argv[1:3]
    sys.path.insert(0, program)
    globals()[fault]()
    sys.argv = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")
