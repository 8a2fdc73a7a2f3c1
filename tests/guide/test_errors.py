"""The index by error message: each message is real and has a link, and all that `status` knows are there."""

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pytest

from slurmgen.status.failure_patterns import SIGNS, Sign
from tests.guide.running import REPOSITORY, run, torchrun

PAGE = REPOSITORY / "docs" / "guide" / "errors.md"
ROW = re.compile(r"^\| (`+)(.+?)\1 \| (.+?) \| (.+?) \| (.+?) \|$", re.M)


@dataclass(frozen=True)
class Entry:
    message: str
    cause: str
    todo: str
    origin: str

    def fragments(self) -> list[str]:
        """What stands between the parts that vary."""
        return [part for part in self.message.split("...") if part.strip(" .'`(),:/")]

    def pattern(self) -> str:
        """The message as a pattern; a program may break its lines elsewhere."""
        return r"[\s\S]{0,300}?".join(re.escape(part) for part in self.message.split("...")).replace(
            r"\ ", r"\s+"
        )


def rows() -> Iterator[Entry]:
    for found in ROW.finditer(PAGE.read_text()):
        yield Entry(*found.groups()[1:])


ENTRIES = list(rows())


def origin(prefix: str) -> list[Entry]:
    return [entry for entry in ENTRIES if entry.origin.startswith(prefix)]


def name(entry: Entry | Sign) -> str:
    return entry.message[:60] if isinstance(entry, Entry) else entry.what


def test_the_index_has_more_than_forty_messages_each_once() -> None:
    messages = [entry.message for entry in ENTRIES]
    assert len(messages) > 40
    assert len(set(messages)) == len(messages)


def test_every_row_of_every_table_is_read() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_each_message_links_to_a_page_or_a_rule(entry: Entry) -> None:
    assert re.search(r"\]\([\w./#-]+\)", entry.todo)


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_each_message_has_an_origin(entry: Entry) -> None:
    assert re.fullmatch(r"reproduced|source: [\w]+|\[[\w#-]+\]\(https://github\.com/\S+\)", entry.origin)


@pytest.mark.parametrize("sign", [one for one in SIGNS if one.kind != "own"], ids=name)
def test_what_status_recognizes_is_in_the_index(sign: Sign) -> None:
    text = "\n".join(f"{entry.message}\n{entry.cause}" for entry in ENTRIES)
    assert any(sign.search(text.replace("...", value)) for value in ("...", "1", "https://host"))


SHELL = r"""
for signal in KILL SEGV TERM ILL BUS; do bash -c "kill -$signal \$\$"; echo "$?"; done
torchrum train.py
printf '\n%.0s' {1..21} > env.sh; echo '. /tmp/env/bin/activate' >> env.sh; bash env.sh
printf 'sh -c "kill -9 \$\$"\n:\n' > killed.sh; bash killed.sh
printf 'exit\n' > train.sh; chmod -x train.sh; ./train.sh
"$PY" trian.py
"$PY" -c 'f('
"$PY" -c 'import argparse; argparse.ArgumentParser("train.py").parse_args(["--lrr"])'
printf 'from multiprocessing import *\nget_context("spawn").Process(target=print).start()\n' > a.py
"$PY" a.py
ln -s "$PY" python; PATH="$PWD:$PATH"; python trian.py
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All that the reproductions print."""
    folder = tmp_path_factory.mktemp("errors")
    killed = folder / "killed.py"
    killed.write_text("import os\nos.kill(os.getpid(), 9)\n")
    done = [
        run(sys.executable, Path(__file__).with_name("reproduce_errors.py"), cwd=folder),
        run("bash", "-c", SHELL, env={"PY": sys.executable, "LC_ALL": "C"}, cwd=folder),
        torchrun(killed, ranks=1),
    ]
    return "\n".join(each.out + each.err for each in done)


@pytest.mark.skipif(shutil.which("cc") is None, reason="one reproduction compiles a library")
@pytest.mark.parametrize("entry", origin("reproduced"), ids=name)
def test_each_reproduced_message_is_printed(entry: Entry, output: str) -> None:
    assert re.search(entry.pattern(), output)


def files(source: str) -> list[Path]:
    """The installed files of a package, or of Slurm, that hold its messages."""
    if source == "slurm":
        libraries = Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")
        programs = map(shutil.which, ("sbatch", "srun", "slurmstepd", "/usr/sbin/slurmstepd"))
        return [*libraries, *(Path(program) for program in programs if program)]
    if source == "uv":
        return [
            Path(program)
            for program in [shutil.which("uv", path=str(Path(sys.executable).parent))]
            if program
        ]
    if source in ("nccl", "cudart"):
        return sorted(place("nvidia").glob(f"*/lib/lib{source}.so.*")) if find_spec("nvidia") else []
    libraries = place(source).glob("lib/lib*.so")
    return [*place(source).rglob("*.py"), *libraries]


def place(package: str) -> Path:
    spec = find_spec(package)
    if not spec or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def missing(source: str, fragments: set[bytes]) -> set[bytes]:
    """The fragments that no file has. Libraries have gigabytes: the smallest come first, none is copied."""
    for path in sorted(files(source), key=lambda path: path.stat().st_size):
        if fragments and path.stat().st_size:
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text:
                fragments = {part for part in fragments if text.find(part) < 0}
    return fragments


@pytest.mark.parametrize("source", sorted({entry.origin for entry in origin("source: ")}))
def test_each_message_stands_in_the_source_of_the_installed_version(source: str) -> None:
    name = source.removeprefix("source: ")
    if not files(name):
        pytest.skip(f"{name} is not installed")
    entries = [entry for entry in ENTRIES if entry.origin == source]
    assert missing(name, {part.strip().encode() for entry in entries for part in entry.fragments()}) == set()
