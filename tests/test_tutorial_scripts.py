"""The page on published scripts: what it quotes is published, and what it shows is what slurmgen renders."""

import re
import shlex
from pathlib import Path

import pytest

from slurmgen import lint_script, load_site
from tests.conftest import REPOSITORY, Run

PAGE = (REPOSITORY / "docs" / "tutorial-scripts.md").read_text()
RENDERED = REPOSITORY / "docs" / "tutorial-scripts"
PUBLISHED = REPOSITORY / "tests" / "lint" / "published"
SECTIONS = {
    match[1]: section
    for section in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)
    if (match := re.search(r"literalinclude\} tutorial-scripts/(\w+)\.sbatch", section))
}


def request_of(name: str) -> list[str]:
    """The words after `slurmgen submit` in the section of a script."""
    found = re.search(r"\$ slurmgen submit (.*)", SECTIONS[name])
    assert found
    return shlex.split(found[1])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the bundled scripts, which the requests name."""
    folder = tmp_path / "project"
    (folder / "training").mkdir(parents=True)
    (folder / "training" / "pyproject.toml").write_text('[project]\nname = "training"\nversion = "1"\n')
    for name in SECTIONS:
        (folder / request_of(name)[request_of(name).index("--script") + 1]).touch()
    return folder


def test_each_rendered_script_is_on_the_page() -> None:
    assert set(SECTIONS) == {path.stem for path in RENDERED.glob("*.sbatch")}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_shows_what_its_command_renders(
    name: str, slurmgen: Run, project: Path, request: pytest.FixtureRequest
) -> None:
    done = slurmgen("render", *request_of(name), cwd=project)
    path = RENDERED / f"{name}.sbatch"
    if request.config.getoption("--update-golden"):
        path.write_text(done.stdout)
    assert path.read_text() == done.stdout


@pytest.mark.parametrize("name", SECTIONS)
def test_each_quoted_line_is_in_the_published_script(name: str) -> None:
    (quoted,) = re.findall(r"^```bash\n(.*?)^```", SECTIONS[name], re.MULTILINE | re.DOTALL)
    published = (PUBLISHED / name / "job.sbatch").read_text().splitlines()
    lines = iter(published)
    assert [line for line in quoted.splitlines() if line not in lines] == [], "in their order"


@pytest.mark.parametrize("name", SECTIONS)
def test_the_linter_finds_nothing_in_the_rendered_script(name: str) -> None:
    site = request_of(name)[request_of(name).index("--site") + 1]
    assert list(lint_script((RENDERED / f"{name}.sbatch").read_text(), site=load_site(site))) == []
