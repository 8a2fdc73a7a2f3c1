"""The part that runs in the batch script: start the nodes' part, check the nodes, report the result."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import verdict
import wire
from check import Check
from nodes import JOIN, Nodes

_END, _END_HEALTHY = 2.0, 60.0
"Seconds for the command that starts the nodes to end: if a node is lost, and if none is."
_SCONTROL = 10.0


class NotChecked(Exception):
    """Why the check has no result, which is not the fault of a node."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def main(command, gpus, min_bandwidth, rendezvous):
    """Check the nodes; the exit status."""
    try:
        return _checked(command, gpus, min_bandwidth * 1e6, rendezvous)
    except NotChecked as reason:
        sys.stderr.write(f"preflight: {reason}\n")
        return reason.status


def _checked(command, gpus, floor, rendezvous):
    job = os.environ.get("SLURM_JOB_ID", "0")
    names = _names(os.environ.get("SLURM_JOB_NODELIST", "localhost"))
    # Not from MASTER_ADDR, which a job without a rendezvous may inherit from the user's shell.
    host, _, port = rendezvous.rpartition(":")
    folder = Path(f".preflight-{job}.d")
    unwritable, token = _make(folder), secrets.token_hex(16)
    nodes = Nodes(len(names), token)
    check = Check(names, nodes, host or names[0], int(port or 0), folder)
    with wire.listener() as server:
        address = f"{host or names[0]} {server.getsockname()[1]} {token} {folder}"
        try:
            process = _start(command, address)
            _run(check, nodes, server, process, gpus, floor)
        finally:
            shutil.rmtree(str(folder), ignore_errors=True)
    if check.unwritable:
        reason = unwritable or check.unwritable
        sys.stderr.write(f"preflight: no node can write to the job's folder: {reason}\n")
    return verdict.finish(names, check.findings, check.summaries(), Path(f".preflight-{job}.json"))


def _make(folder):
    """Make the folder in which the nodes look for each other's files; why that fails, or None."""
    shutil.rmtree(str(folder), ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        return wire.reason(error)
    return None


def _names(nodelist):
    """The names of the nodes in Slurm's order."""
    if "[" not in nodelist:
        return nodelist.split(",")
    command = ["scontrol", "show", "hostnames", nodelist]
    try:
        reply = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_SCONTROL)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotChecked(f"scontrol does not list the nodes of the job: {error}") from None
    return reply.stdout.decode().split()


def _run(check, nodes, server, process, gpus, floor):
    """Run all checks, while the process that starts the nodes' part runs.

    Raises:
        NotChecked: no node could be checked.
    """
    try:
        nodes.join(server, lambda: process.poll() is not None)
        if not nodes.numbers and not check.has_reasons():
            raise NotChecked(*_no_node(process.args[0], process.poll()))
        check.run(gpus, floor)
    finally:
        # srun prints errors when a signal ends it, so that it gets none if all nodes will end by themselves.
        patience = _END_HEALTHY if nodes.are_complete else _END
        nodes.close()
        _end(process, patience)


def _start(command, address):
    """Start the command that starts the nodes' part."""
    try:
        return subprocess.Popen(command, env={**os.environ, wire.VARIABLE: address})
    except OSError as error:
        raise NotChecked(f"cannot start `{command[0]}`: {wire.reason(error)}") from None


def _no_node(program, status):
    """Why no node was checked, and the exit status."""
    if status is None:
        limit = f"{JOIN.longest:.0f} s"
        return f"no node was checked: none has connected after {limit}, and `{program}` still ran", 1
    return f"no node was checked; `{program}` ended with {status}", status if status > 0 else 1


def _end(process, patience):
    """Wait for the command that started the nodes; end it if it does not."""
    for stop, seconds in ((lambda: None, patience), (process.terminate, _END), (process.kill, _END)):
        stop()
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            pass
