"""The part that runs on each node: connect to the job, and carry out what it asks for, until it ends."""

import errno
import os
import shutil
import socket
import sys
import time
from pathlib import Path

import gpus
import product
import transfer
import wire

_CONNECT = 10.0
"Seconds for one connection."
_VISIBLE = 3.0
"Seconds until a file of another node must be visible; a shared folder may lag."
_SHM = "/dev/shm"  # noqa: S108
_NO_GPUS = dict.fromkeys(["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"], "")
"So PyTorch sees none."


def main():
    """Serve the job; 1 if it cannot be reached."""
    host, port, token, folder = os.environ[wire.VARIABLE].split(" ", 3)
    own = Node(int(os.environ["SLURM_NODEID"]), token, Path(folder))
    try:
        connection = socket.create_connection((host, int(port)), timeout=_CONNECT)
    except OSError as error:
        own.report(f"cannot connect to {host} port {port}: {wire.reason(error)}")
        return 1
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = wire.Channel(connection)
    channel.send({"token": token, "node": own.number, "port": transfer.serve(token.encode())})
    for request in channel.messages():
        channel.send(own.answer(request))
    return 0


class Node:
    """One node, and what it answers."""

    def __init__(self, number, token, folder):
        self.number, self._token, self._folder = number, token.encode(), folder
        self._torch, self._listener = None, None

    def report(self, text):
        """Leave a text for the job in the shared folder, and on stderr."""
        sys.stderr.write(f"preflight: node {self.number}: {text}\n")
        self._write(f"{self.number}.failed", text)

    def answer(self, request):
        """The answer to one request; {"failed": ...} if it raises an exception."""
        values = {key: value for key, value in request.items() if key != "do"}
        try:
            return getattr(self, f"do_{request['do']}")(**values)
        except Exception as error:  # the job names the node, whatever went wrong there
            return {"failed": f"{type(error).__name__}: {error}"}

    def do_time(self):
        """The clock of this node."""
        return {"time": time.time()}

    def do_facts(self, names, with_gpus):
        """All that this node finds out by itself; without GPUs, those of other jobs are left alone."""
        os.environ.update({} if with_gpus else _NO_GPUS)
        self._torch, torch_fault = product.load_torch()
        cards, gpus_fault = gpus.listed() if with_gpus else ([], None)
        return {
            "gpus": cards,
            "gpus_fault": gpus_fault,
            "torch_gpus": gpus.seen_by_torch(self._torch) if with_gpus else None,
            "torch_fault": torch_fault,
            "products": product.products(self._torch),
            "copies": gpus.copies(self._torch),
            "memory": _memory(),
            "shm": _shared_memory(),
            "unresolved": [name for name in names if not _resolves(name)],
            "unwritable": self._write(str(self.number), "written"),
        }

    def do_products(self):
        """The matrix products once more."""
        return {"products": product.products(self._torch)}

    def do_topology(self):
        """The links between the GPUs."""
        return {"text": gpus.topology()}

    def do_see(self, numbers):
        """The nodes whose files this one does not see in the shared folder."""
        end = time.monotonic() + _VISIBLE
        while True:
            missing = [number for number in numbers if not (self._folder / str(number)).exists()]
            if not missing or time.monotonic() > end:
                return {"missing": missing}
            time.sleep(0.1)

    def do_listen(self, port):
        """Listen on the port at which the ranks will meet."""
        try:
            self._listener = wire.listener(port)
        except OSError as error:
            return {"fault": wire.reason(error), "in_use": error.errno == errno.EADDRINUSE}
        return {"fault": None, "in_use": False}

    def do_reach(self, host, port):
        """Connect to that port."""
        try:
            socket.create_connection((host, port), timeout=_CONNECT / 2).close()
        except OSError as error:
            return {"fault": wire.reason(error)}
        return {"fault": None}

    def do_transfer(self, host, port):
        """The speed of the connection to another node."""
        return transfer.measure(host, port, self._token)

    def _write(self, name, text):
        """Write a file in the shared folder; why that fails, or None."""
        path = self._folder / name
        try:
            with path.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return None


def _memory():
    """Bytes of memory that processes may still allocate, and of all memory."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free, total = (int(fields[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    return {"free": free, "total": total}


def _shared_memory():
    """The same of /dev/shm; None if there is none."""
    if not Path(_SHM).is_dir():
        return None
    usage = shutil.disk_usage(_SHM)
    return {"free": usage.free, "total": usage.total}


def _resolves(name):
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
