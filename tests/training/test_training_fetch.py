"""Data sets are downloaded from a local server that has small archives instead of the original ones."""

import gzip
import hashlib
import pickle
import struct
import sys
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread

import fetch_data
import numpy as np
import pytest
from images import read
from torchvision import datasets

SAMPLES = 20  # of each file
Files = dict[str, bytes]


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def cifar_files(kind: type[datasets.CIFAR10], label: str) -> Files:
    rows = np.zeros((SAMPLES, 3 * 32 * 32), np.uint8)
    batch = pickle.dumps({"data": rows, label: list(range(SAMPLES))})
    names = [name for name, _ in kind.train_list + kind.test_list]
    return {**dict.fromkeys(names, batch), kind.meta["filename"]: pickle.dumps({kind.meta["key"]: ["x"]})}


def archive(folder: str, files: Files) -> bytes:
    with BytesIO() as raw:
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(content)
                tar.addfile(member, BytesIO(content))
        return raw.getvalue()


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return gzip.compress(head + values.astype(np.uint8).tobytes())


class Server:
    """Replies with `files` by the last part of the URL; `asked` are the requested names."""

    def __init__(self) -> None:
        self.files: Files = {}
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                server.asked.append(name)
                self.send_response(200 if name in server.files else 404)
                self.end_headers()
                self.wfile.write(server.files.get(name, b""))

            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Redirects torchvision's classes to the local server, and sets the checksums of its archives."""
    server = Server()
    monkeypatch.setenv("no_proxy", "*")
    for kind, label in ((datasets.CIFAR10, "labels"), (datasets.CIFAR100, "fine_labels")):
        files = cifar_files(kind, label)
        server.files[kind.filename] = packed = archive(kind.base_folder, files)
        monkeypatch.setattr(kind, "url", server.url + kind.filename)
        monkeypatch.setattr(kind, "tgz_md5", md5(packed))
        for name in ("train_list", "test_list"):
            sums = [[file, md5(files[file])] for file, _ in getattr(kind, name)]
            monkeypatch.setattr(kind, name, sums)
        monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5(files[kind.meta["filename"]])})
    images = np.zeros((SAMPLES, 28, 28))
    for name, _ in datasets.MNIST.resources:
        server.files[name] = idx(images if "images" in name else images[:, 0, 0])
    sums = [(name, md5(server.files[name])) for name, _ in datasets.MNIST.resources]
    monkeypatch.setattr(datasets.MNIST, "resources", sums)
    monkeypatch.setattr(datasets.MNIST, "mirrors", [server.url])
    yield server
    server.http.shutdown()
    server.http.server_close()


def fetch(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fetch_data.py", *names, "--data-dir", str(folder)])
    with pytest.raises(SystemExit) as ended:
        fetch_data.main()
    return int(ended.value.code or 0)


def test_data_sets_are_downloaded_once_verified_and_used(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("cifar10", "cifar100", "mnist")
    assert fetch(monkeypatch, tmp_path, *names) == 0
    assert [line for line in capfd.readouterr().out.splitlines() if " is in " in line] == [
        f"{name} is in {tmp_path}" for name in names
    ]
    asked = list(server.asked)
    assert len(set(asked)) == 6
    for name, samples in (("cifar10", 5 * SAMPLES), ("cifar100", SAMPLES), ("mnist", SAMPLES)):
        assert len(read(name, tmp_path, 0, 0)[0]) == samples
    assert fetch(monkeypatch, tmp_path, *names) == 0
    assert server.asked == asked, "what is there is not fetched again"


def test_an_archive_with_a_wrong_checksum_is_rejected(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server.files[datasets.CIFAR10.filename] += b"changed"
    assert fetch(monkeypatch, tmp_path, "cifar10", "mnist") == 1
    said = capfd.readouterr().out
    assert f"error: cifar10 is not in {tmp_path} and could not be downloaded: " in said
    assert f"fetch_data.py cifar10 --data-dir {tmp_path}` on a host with a network" in said
    assert f"mnist is in {tmp_path}\n" in said, "one that fails does not keep the others away"
