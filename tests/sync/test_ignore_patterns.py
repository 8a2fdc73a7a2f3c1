"""Ignore files match as in git, and no pattern takes long."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen.sync.files import snapshot
from slurmgen.sync.ignore import Patterns, split_lines

PIECES = [
    *rb"""
        a b ab * ** *** ? / **/ /** /**/ [ab] [!a] [^a-b] [a- [ ] []a] []-a] [a-] [b-a] [a-b-z] [--b] [!/]
        [a/] [\]] [a-\b] [[:alpha:]] [[:foo:]] [[:x] [[:]] [[:space:]-b] [[:punct:]] [[:upper:][:digit:]]
        \ \a \* \/ \! \# ! # . -
    """.split(),
    *(b" ", b"\\ ", b"\t", b"\r", b"\0", b"\xc3\xa9", b"[\x80-\xff]"),
]
NAMES = [*rb"a b ab aab .a * # !a [a ] - \ A1".split(), b"a b", b"a ", b"\xff"]

patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(b"".join)
texts = st.builds(
    bytes.__add__,
    st.lists(patterns, min_size=1, max_size=3).map(b"\n".join),
    st.sampled_from([b"", b"\n", b"\r\n"]),
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
BOM = b"\xef\xbb\xbf"


def fill(root: Path, files: list[bytes], ignore: bytes) -> None:
    for name in files:
        path = root / os.fsdecode(name)
        if not os.path.lexists(path) and not any(above.is_file() for above in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (root / ".gitignore").write_bytes(ignore)


def not_ignored(root: Path) -> set[bytes]:
    command = ["git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.split(b"\0")
    return {name for name in listed if name}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.lists(paths, max_size=12), texts), min_size=20, max_size=20))
def test_what_git_does_not_ignore_is_sent(
    tmp_path_factory: pytest.TempPathFactory, folders: list[tuple[list[bytes], bytes]]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    for number, (files, ignore) in enumerate(folders):
        (root / str(number)).mkdir()
        fill(root / str(number), files, ignore)
    assert {os.fsencode(name) for name in snapshot(root).files} == not_ignored(root)


UNUSUAL = [*rb"! a\ \ / // !/ !!a #a \# [ [[:".split(), BOM + b"a", b"a\0b", b"a\r\n*b", b"  "]


@pytest.mark.parametrize("ignore", UNUSUAL)
def test_an_unusual_line_means_the_same_as_in_git(tmp_path: Path, ignore: bytes) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    fill(tmp_path, NAMES, ignore)
    assert {os.fsencode(name) for name in snapshot(tmp_path).files} == not_ignored(tmp_path)


SIZE = 100_000
SLOW = {
    "stars": b"*a*a*a*a*a*ab\n",
    "different stars": b"".join(b"*a*%d*b\n" % number for number in range(SIZE // 10)),
    "folders": b"**/a/" * (SIZE // 5) + b"x",
    "questions": b"?" * SIZE,
    "sets": b"[!a-y\x80-\xff]" * (SIZE // 9),
    "classes": b"[[:alpha:]" * (SIZE // 10) + b"]",
    "opened sets": b"[:" * (SIZE // 2),
    "opened classes": b"[:" * (SIZE // 2) + b"]",
    "blanks": b" " * SIZE + b"x",
    "backslashes": b"\\" * SIZE,
    "lines": b"a\n" * (SIZE // 2),
}
LONG = [b"a" * 250, b"ab" * 125, *(b"a" * count + b"b" for count in range(100))]


@pytest.mark.parametrize("name", SLOW)
def test_no_patterns_take_long(name: str) -> None:
    begun = time.process_time()
    patterns = Patterns(split_lines(SLOW[name]))
    for path in LONG:
        patterns.match(patterns.after(patterns.start, path), is_folder=False)
    assert time.process_time() - begun < 2


def test_steps_that_were_dropped_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = b"abcd"
    names = [bytes([one, two, three]) for one in letters for two in letters for three in letters]
    expected = matches(names)
    monkeypatch.setattr("slurmgen.sync.ignore.CACHED", 1000)
    assert matches(names) == expected
    assert {None, 0, 1} == set(expected)


def matches(names: list[bytes]) -> list[int | None]:
    patterns = Patterns([b"*a*c", b"!*abc"])
    return [patterns.match(patterns.after(patterns.start, name), is_folder=False) for name in names]
