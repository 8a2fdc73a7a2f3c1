"""Run the ordinary Slurm commands on a twin."""

import subprocess

from slurmgen.errors import TwinError
from slurmgen.twin.daemons import clean_environ
from slurmgen.twin.store import Twin

TIMEOUT = 60.0


def slurm(twin: Twin, *argv: str) -> str:
    """The output of a Slurm command.

    Raises:
        TwinError: it failed.
    """
    environ = {**clean_environ(), **twin.environ()}
    try:
        reply = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TwinError(f"{argv[0]} on the twin of {twin.site}: {error}") from error
    if reply.returncode:
        raise TwinError(f"{argv[0]} on the twin of {twin.site}: {reply.stderr.strip()}")
    return reply.stdout.rstrip("\n")
