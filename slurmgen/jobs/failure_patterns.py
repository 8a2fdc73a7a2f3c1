"""Signs in a log of why a job failed: a table of patterns with what each means and what to do.

Causes come first and what follows from them later: when one rank dies, NCCL complains in all others.
The time of a search grows with the length of the log alone, whatever is in it: repetitions are bounded.
"""

import re

from msgspec import Struct


class Sign(Struct, frozen=True):
    """One thing that a log may show. Groups of the pattern stand in `what` as {0}, {1}."""

    pattern: re.Pattern[str]
    what: str
    todo: str


# A path at the end of a line, after the last colon and blank.
_PATH = r".{0,400}: '?([^:\n]{1,300}?(?::[^ :\n][^:\n]{0,300}?){0,2})'?$"


def _sign(pattern: str, what: str, todo: str) -> Sign:
    return Sign(re.compile(pattern, re.MULTILINE), what, todo)


SIGNS = (
    _sign(
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|HIP out of memory",
        "a GPU ran out of memory",
        "Use a smaller batch, mixed precision or gradient checkpointing; another GPU type has more.",
    ),
    _sign(
        r"exceeded (?:(?:step|job) )?memory limit|[Oo]ut [Oo]f [Mm]emory handler|oom[-_]kill event"
        r"|Detected \d{1,9} oom[-_]kill",
        "it used more memory than it had",
        "Ask for more with --mem, or use less: fewer data-loader workers, a smaller batch.",
    ),
    _sign(
        r"ModuleNotFoundError: No module named '([^'\n]{1,300})'",
        "Python has no module {0} there",
        "Is it in the environment of --python-env, and is the right module loaded?",
    ),
    _sign(
        r"Lmod has detected the following error:\s{1,300}"
        r"The following module\(s\) are unknown: \"?([^\s\"]{1,300})",
        "the environment module {0} is not known there",
        "`module spider` there lists what is; name it with --module or in the site's profile.",
    ),
    _sign(
        r"Unable to locate a modulefile for '([^'\n]{1,300})'",
        "the environment module {0} is not known there",
        "`module avail` there lists what is; name it with --module or in the site's profile.",
    ),
    _sign(
        r"ImportError: (?:.{0,300}: )?"
        r"(?:version `([^'\n]{1,100})' not found|(\S{1,100}): cannot open shared object)",
        "a compiled library does not fit: {0}",
        "Load the modules that the environment was made with, or make it anew there.",
    ),
    _sign(
        r"Address already in use|EADDRINUSE",
        "a port was taken already",
        "Another job or rank on that node uses it; `slurmgen lint` finds fixed ports in a script.",
    ),
    _sign(
        r"No space left on device|Disk quota exceeded",
        "there was no room to write",
        "`df -h` and the site's quota command tell where; write to another file system.",
    ),
    _sign(
        r"Bus error|unable to write to file </torch_|insufficient shared memory",
        "shared memory ran out (/dev/shm), or a file that was mapped became shorter",
        "Use fewer data-loader workers; in a container, give it the host's /dev/shm.",
    ),
    _sign(
        r"Illegal instruction",
        "a program was built for another kind of CPU",
        "Build or install it on a node of this partition.",
    ),
    _sign(
        r"no kernel image is available for execution on the device",
        "this PyTorch was not built for the GPUs of that node",
        "Install one that supports them, or name another --gpu-type.",
    ),
    _sign(
        r"Found no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device is detected",
        "no GPU was to be seen",
        "Did the job ask for --gpus, and does the container pass them (--nv)?",
    ),
    _sign(
        rf"FileNotFoundError: {_PATH}",
        "the file {0} is not there",
        "Is it in the project, not ignored, and are its paths those of the site?",
    ),
    _sign(
        rf"PermissionError: {_PATH}",
        "it may not use {0}",
        "Look there with `ls -l`.",
    ),
    _sign(
        r"^(?:SyntaxError|IndentationError|TabError): (.+)$",
        "a Python file cannot be read as Python: {0}",
        "The lines above in the log name the file and the line.",
    ),
    _sign(
        r"can't open file '([^'\n]{1,300})': \[Errno 2\]",
        "Python did not find the script {0}",
        "Is it in the project, and not ignored?",
    ),
    _sign(
        r"(?:^|: )(?:line \d{1,9}: )?([^\s:]{1,300}): (?:command )?not found$",
        "there is no command {0} there",
        "Is a module missing, or the environment of --python-env?",
    ),
    _sign(
        r"(?<![^\s:])([^\s:]{1,300}): Permission denied$",
        "{0} may not be run or read there",
        "Look there with `ls -l`; a script needs its x, or a program that reads it.",
    ),
)
"In the order in which they count."

LAST_SIGNS = (
    _sign(
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.{0,400}(?:timeout|timed out)",
        "NCCL waited for a rank that did not come (its watchdog's timeout)",
        "Look for the rank that stopped earlier; NCCL_DEBUG=INFO and TORCH_NCCL_TRACE_BUFFER_SIZE tell more.",
    ),
    _sign(
        r"DistStoreError|RendezvousTimeoutError|Timed out after \d{1,9} seconds waiting for clients",
        "the ranks did not all meet in time",
        "Did all nodes start, and is MASTER_ADDR the first one of them?",
    ),
    _sign(
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError",
        "NCCL failed between the ranks",
        "Set NCCL_DEBUG=INFO; NCCL_SOCKET_IFNAME names the network it should use.",
    ),
    _sign(
        r"Segmentation fault",
        "a program crashed (segmentation fault)",
        "Often a compiled library that does not fit; PYTHONFAULTHANDLER=1 shows where.",
    ),
)
"What follows from other faults, mostly; read after the tracebacks."
