"""Lets gloo's threads finish before Python ends. Python imports this file when it starts.

A thread that frees a tensor while Python ends aborts the process: "terminate called without an
active exception" (https://github.com/pytorch/pytorch/pull/179291).
It happens on a busy machine, and with a cold file cache.
"""

import atexit
import sys
import time


def wait_for_threads() -> None:
    """Leave Python's lock to threads that free their last tensors."""
    if "torch.distributed" in sys.modules:
        time.sleep(0.3)


atexit.register(wait_for_threads)
