"""The Python API on a real Slurm: every example of docs/api.md in its order, and what no example shows."""

import doctest
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.twins import Testbed

PAGE = (REPOSITORY / "docs" / "api.md").read_text()
FILES = dict(re.findall(r"```(?:toml|python)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def project(testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the page as the current folder, with a home folder of its own."""
    for name, value in testbed.environ.items():
        monkeypatch.setenv(name, value)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


def test_the_examples_of_the_page_print_what_it_shows(project: Path) -> None:
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    assert text.count(">>>") > 30
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/api.md", None, 0)
    output: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    assert not output, "".join(output)
