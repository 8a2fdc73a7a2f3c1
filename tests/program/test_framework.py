"""How a program is read: its framework, the line that shows it, and files that are not read."""

import time
from pathlib import Path

import pytest

from slurmgen.program.framework import Program, read_program
from slurmgen.python_source import source_of
from tests.support.examples import Example, examples

PROGRAMS = examples(Path(__file__).with_name("frameworks.txt"))


def read(folder: Path, text: str, **modules: str) -> Program:
    (folder / "train.py").write_text(text)
    for name, content in modules.items():
        (folder / f"{name}.py").write_text(content)
    program = read_program(folder, "train.py")
    assert program
    return program


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda example: example.expected)
def test_the_call_that_starts_the_ranks_shows_the_framework_and_its_line(
    example: Example, tmp_path: Path
) -> None:
    program = read(tmp_path, example.text)
    assert (program.framework, program.origin, program.against) == (
        example.expected.split()[0],
        "train.py:3",
        (),
    )


def test_a_class_of_the_same_name_that_is_not_imported_shows_nothing(tmp_path: Path) -> None:
    program = read(tmp_path, "class Trainer: ...\nTrainer(devices=2)\nspawn()\n")
    assert (program.framework, program.evidence) == ("python", ())
    assert "in which nothing starts several processes" in program.notice


def test_the_process_group_of_an_imported_module_counts(tmp_path: Path) -> None:
    module = "import torch.distributed as d\ndef setup():\n    d.init_process_group()\n"
    program = read(tmp_path, "from tools import setup\nsetup()\n", tools=module)
    assert (program.framework, program.origin) == ("ddp", "tools.py:3")


def test_a_function_of_an_imported_module_that_is_never_used_does_not_count(tmp_path: Path) -> None:
    module = "import torch.distributed as d\ndef setup():\n    d.init_process_group()\ndef mean(): ...\n"
    assert read(tmp_path, "from tools import mean\nmean()\n", tools=module).framework == "python"


def test_the_file_that_joins_the_group_decides_and_not_the_wrapped_model(tmp_path: Path) -> None:
    text = "from torch.nn.parallel import DistributedDataParallel as D\nimport far\nfar.setup()\nD(m)\n"
    module = (
        "from mpi4py import MPI\ndef setup():\n    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.Get_size()\n"
    )
    assert read(tmp_path, text, far=module).framework == "mpi"


def test_what_speaks_for_another_framework_is_named(tmp_path: Path) -> None:
    text = "import os, torch.multiprocessing as mp\nmp.spawn(f)\nos.environ['LOCAL_RANK']\n"
    notice = read(tmp_path, text).notice
    assert "framework: spawn, from train.py:2" in notice
    assert "also for ddp by $LOCAL_RANK (train.py:3)" in notice


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\xff\xfe",
        b"import torch\n" * 100_000,
        b"(" * 5000 + b")" * 5000,
        b"x = " + b"-" * 90_000,
        b"x" + b".a" * 3000,
    ],
)
def test_an_odd_file_raises_nothing_and_takes_no_time(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(data)
    start = time.process_time()
    program = read_program(tmp_path, "train.py")
    assert program is None or program.source.fault
    assert time.process_time() - start < 1  # 0.1 s for a file of 1 MB on a free processor


@pytest.mark.parametrize(
    "text", ["from" + " " * 90_000, "from " + "." * 90_000, "a" * 90_000, "a" + " " * 90_000]
)
def test_a_module_of_odd_lines_takes_no_time(text: str, tmp_path: Path) -> None:
    start = time.process_time()
    read(tmp_path, "import far\n", far=text)
    assert time.process_time() - start < 1


def test_a_link_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import ray\nray.init()\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").symlink_to(tmp_path / "other.py")
    assert read_program(project, "train.py") is None


def test_a_program_without_a_framework_keeps_the_default(tmp_path: Path) -> None:
    assert not read(tmp_path, "print(1)\n").is_known
    assert read(tmp_path, "import torch\n").is_known


def test_a_program_whose_modules_are_not_all_read_keeps_the_default(tmp_path: Path) -> None:
    assert not read(tmp_path, "import torch, far\n", far="import torch\n" * 50_000).is_known


def test_modules_that_import_each_other_end(tmp_path: Path) -> None:
    assert read(tmp_path, "import a\n", a="import b\n", b="import a, train\n").framework == "python"


@pytest.mark.parametrize(
    ("line", "certain"),
    [
        ("def f(:", True),
        ("print 'x'", True),
        ("x = (1", True),
        ("type X = int", False),
        ("t'{x}'", False),
        ("def f[T](x): ...", False),
    ],
)
def test_only_syntax_that_no_later_python_has_is_a_certain_fault(line: str, certain: bool) -> None:
    fault = source_of(f"import os\n{line}\n").fault
    assert fault is None or (fault.line, fault.certain) == (2, certain)
    assert fault or not certain
