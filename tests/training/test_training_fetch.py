"""Data sets are downloaded from a local server that has small archives instead of the original ones."""

import gzip
import hashlib
import json
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Barrier, Thread

import fetch_data
import images
import numpy as np
import pytest
from torchvision import datasets
from training_launch import TRAINING

SAMPLES = 20  # of each file
NAMES = ("cifar10", "cifar100", "mnist")
Files = dict[str, bytes]
Patches = list[tuple[str, str, object]]  # class of torchvision, attribute, value


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
    """Replies with `files` by the last part of the URL; `asked` are the requested names.

    `meeting`: each reply waits for it. `patches`: the attributes of torchvision's classes for this server.
    """

    def __init__(self) -> None:
        self.files: Files = {}
        self.asked: list[str] = []
        self.meeting = Barrier(1)
        self.patches: Patches = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                server.asked.append(name)
                server.meeting.wait(300)
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
        lists = {
            name: [[file, md5(files[file])] for file, _ in getattr(kind, name)]
            for name in ("train_list", "test_list")
        }
        meta = {**kind.meta, "md5": md5(files[kind.meta["filename"]])}
        values = {"url": server.url + kind.filename, "tgz_md5": md5(packed), "meta": meta, **lists}
        server.patches += [(kind.__name__, name, value) for name, value in values.items()]
    black = np.zeros((SAMPLES, 28, 28))
    for name, _ in datasets.MNIST.resources:
        server.files[name] = idx(black if "images" in name else black[:, 0, 0])
    sums = [(name, md5(server.files[name])) for name, _ in datasets.MNIST.resources]
    server.patches += [("MNIST", "resources", sums), ("MNIST", "mirrors", [server.url])]
    for kind_name, name, value in server.patches:
        monkeypatch.setattr(getattr(datasets, kind_name), name, value)
    yield server
    server.http.shutdown()
    server.http.server_close()


def fetch(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fetch_data.py", *names, "--data-dir", str(folder)])
    with pytest.raises(SystemExit) as ended:
        fetch_data.main()
    return int(ended.value.code or 0)


def fetch_elsewhere(patches: Patches, folder: Path) -> None:
    """Fetch CIFAR-10 in another process."""
    os.environ["no_proxy"] = "*"
    for kind, name, value in patches:
        setattr(getattr(datasets, kind), name, value)
    raise SystemExit(images.fetch("cifar10", folder))


def put_torchvision_files(server: Server, folder: Path) -> None:
    """Put there what torchvision itself keeps of its downloads."""
    for name in NAMES:
        images._with_torchvision(name, folder, download=True)
    server.asked.clear()


def test_data_sets_are_downloaded_once_verified_and_used(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fetch(monkeypatch, tmp_path, *NAMES) == 0
    assert [line for line in capfd.readouterr().out.splitlines() if " is in " in line] == [
        f"{name} is in {tmp_path}" for name in NAMES
    ]
    asked = list(server.asked)
    assert len(set(asked)) == 6
    for name, samples in (("cifar10", 5 * SAMPLES), ("cifar100", SAMPLES), ("mnist", SAMPLES)):
        assert len(images.read(name, tmp_path, 0, 0)[0]) == samples
    assert fetch(monkeypatch, tmp_path, *NAMES) == 0
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


def test_two_processes_that_fetch_at_once_both_succeed(server: Server, tmp_path: Path) -> None:
    server.meeting = Barrier(2)  # no process gets its archive before both have asked for it
    context = multiprocessing.get_context("forkserver")
    both = [context.Process(target=fetch_elsewhere, args=(server.patches, tmp_path)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(600)
    assert [process.exitcode for process in both] == [0, 0]
    assert set(server.asked) == {datasets.CIFAR10.filename}
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10.pt"]
    assert len(images.read("cifar10", tmp_path, 0, 0)[0]) == 5 * SAMPLES


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_reported_in_one_line(
    kept: float, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert fetch(monkeypatch, tmp_path, "mnist") == 0
    path = tmp_path / "mnist.pt"
    os.truncate(path, int(path.stat().st_size * kept))
    capfd.readouterr()
    assert fetch(monkeypatch, tmp_path, "mnist") == 1
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith(f"error: {path} is damaged (")
    assert line.endswith("). Remove it, and fetch it again.")


@pytest.mark.parametrize("kept", [0, 3, 10, 1000])
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("cifar10", "cifar-10-batches-py/data_batch_1"),
        ("cifar100", "cifar-100-python/train"),
        ("mnist", "MNIST/raw/train-images-idx3-ubyte"),
        ("mnist", "MNIST/raw/t10k-labels-idx1-ubyte"),
    ],
)
def test_a_truncated_file_of_torchvision_is_fetched_again(
    name: str, file: str, kept: int, server: Server, tmp_path: Path
) -> None:
    put_torchvision_files(server, tmp_path)
    whole = (tmp_path / file).stat().st_size
    os.truncate(tmp_path / file, min(kept, whole - 1))
    assert images.fetch(name, tmp_path) is None
    assert server.asked
    assert (tmp_path / f"{name}.pt").exists()


def test_complete_files_of_torchvision_are_not_fetched_again(server: Server, tmp_path: Path) -> None:
    put_torchvision_files(server, tmp_path)
    assert [images.fetch(name, tmp_path) for name in NAMES] == [None] * 3
    assert not server.asked


def test_a_read_only_folder_with_files_of_torchvision_is_used_as_it_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_torchvision_files(server, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    assert [images.fetch(name, tmp_path) for name in NAMES] == [None] * 3
    assert sorted(tmp_path.rglob("*")) == before
    assert not server.asked
    assert len(images.read("mnist", tmp_path, 1, 28)[0]) == SAMPLES


def test_torchvision_is_not_imported_for_data_that_are_there(server: Server, tmp_path: Path) -> None:
    assert images.fetch("mnist", tmp_path) is None
    code = (
        "import json, pathlib, sys, images; folder = pathlib.Path(sys.argv[1]);"
        "print(json.dumps([images.fetch('mnist', folder), len(images.read('mnist', folder, 1, 28)[0]),"
        "'torchvision' in sys.modules]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=TRAINING, timeout=600)
    assert json.loads(run.stdout) == [None, SAMPLES, False]
