"""The documentation agrees with the code."""

import ast
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.config.project import Job, Project
from slurmgen.config.user import Personal
from slurmgen.containers import ENGINES
from slurmgen.doctor import CHECKS
from slurmgen.errors import flag
from slurmgen.launchers import LAUNCHERS
from slurmgen.render import values_of
from slurmgen.sites.model import Site
from slurmgen.slurm import pending
from slurmgen.slurm.replies import JobState
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import why
from tests.conftest import REPOSITORY, Run

DOCS = REPOSITORY / "docs"


def keys_of(kind: type) -> set[str]:
    """The names of all fields of a struct, at any depth."""
    found: set[str] = set()
    for field in msgspec.structs.fields(kind):
        found.add(field.name)
        for part in (field.type, *getattr(field.type, "__args__", ())):
            if hasattr(part, "__struct_fields__"):
                found |= keys_of(part)
    return found


def words_in_code(page: str) -> set[str]:
    """The words of a page that are formatted as code within its text and tables."""
    text = re.sub(r"^ *```.*?^ *```$", "", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))


@pytest.mark.parametrize(("kind", "page"), [(Site, "profile-keys.md"), (Personal, "sites.md")])
def test_the_pages_on_sites_list_every_key(kind: type, page: str) -> None:
    assert keys_of(kind) - words_in_code(page) == set()


def test_the_page_on_slurmgen_toml_lists_every_key() -> None:
    assert (keys_of(Project) | keys_of(Job)) - words_in_code("project.md") == set()


def test_the_page_on_templates_lists_every_value() -> None:
    page = (DOCS / "templates.md").read_text()
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(values_of(resolve(Request(), load_site("generic"))))


@pytest.mark.parametrize("framework", LAUNCHERS)
def test_every_framework_is_documented(framework: str, slurmgen: Run) -> None:
    assert set(framework.split("-")) <= words_in_code("project.md") & words_in_code("own-script.md")
    assert f"| `{framework}`" in (REPOSITORY / "README.md").read_text()
    assert re.search(rf"--framework .*\b{framework}\b", " ".join(slurmgen("render", "--help").stdout.split()))


@pytest.mark.parametrize(
    ("page", "names"), [("sites.md", [*ENGINES]), ("ssh.md", [check.name for check in CHECKS])]
)
def test_every_container_engine_and_doctor_check_is_documented(page: str, names: list[str]) -> None:
    assert [name for name in names if f"`{name}`" not in (DOCS / page).read_text()] == []


def test_the_example_template_works(tmp_path: Path, slurmgen: Run) -> None:
    page = (DOCS / "templates.md").read_text()
    example = re.search(r"```jinja\n(.*?)```", page, re.DOTALL)
    assert example
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "environment.j2").write_text(example[1])
    assert "\nnvidia-smi --list-gpus\nexport OMP_NUM_THREADS=" in slurmgen("render").stdout


def test_relative_links_have_a_target() -> None:
    for page in [REPOSITORY / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_shows_the_script_that_render_prints(slurmgen: Run, tmp_path: Path) -> None:
    shown = re.search(
        r"\$ slurmgen (render [^\n]*)\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL
    )
    assert shown
    assert slurmgen(*shown[1].split(), cwd=tmp_path).stdout == shown[2]


def test_the_python_example_of_the_readme_runs() -> None:
    code = re.search(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert code
    shown = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("4 72 72 CPUs per GPU (from the profile of olivia [")


def test_the_toml_examples_of_the_readme_are_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert [tomllib.loads(block) for block in blocks]
    assert [block.split("\n")[0] for block in blocks] == [
        "# slurmgen.toml",
        "# personal.toml",
        "# site_profiles/mycluster.toml",
    ]


@pytest.mark.parametrize(
    ("script", "function", "page"),
    [
        ("json_page.py", "page", "json.md"),
        ("profile_keys.py", "page", "profile-keys.md"),
        ("picture.py", "dot", "architecture.dot"),
    ],
)
def test_a_generated_page_matches_the_code(script: str, function: str, page: str) -> None:
    """If not: python docs/SCRIPT."""
    assert (DOCS / page).read_text() == runpy.run_path(str(DOCS / script))[function]()


def test_the_pages_of_the_sites_are_those_of_the_profiles() -> None:
    """If not: python docs/site_pages.py."""
    written = {path.name: path.read_text() for path in (DOCS / "sites").glob("*.md")}
    assert written == runpy.run_path(str(DOCS / "site_pages.py"))["pages"]()


def examples(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language, without their indentation."""
    blocks = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE
    )
    return [dedent(block) for _, block in blocks]


def test_the_example_profile_is_valid(tmp_path: Path, slurmgen: Run) -> None:
    (profile,) = examples("extend.md", "toml")
    (tmp_path / "mycluster.toml").write_text(profile)
    assert slurmgen("sites", "validate", "--strict", "mycluster.toml").stdout == "mycluster.toml: valid\n"


def test_the_example_launcher_is_complete() -> None:
    (code,) = examples("extend.md", "python")
    module: dict[str, Any] = {}
    exec(code, module)  # noqa: S102
    assert type(module["LAUNCHER"]) is type(LAUNCHERS["ddp"])


TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()


def quoted(heading: str) -> list[str]:
    """The messages in the first column of the tables of a section of the page on troubleshooting."""
    section = TROUBLESHOOTING.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def shown(part: ast.expr) -> str:
    """A part of a string in a module: its text, the option of a field, or a NUL for another value."""
    match part:
        case ast.Constant(value=text):
            return str(text)
        case ast.FormattedValue(
            value=ast.Call(func=ast.Name(id="option"), args=[ast.Constant(value=str(field)), *value])
        ):
            return f"{flag(field)} \0" if value else flag(field)
    return "\0"


def texts_of(path: Path) -> Iterator[str]:
    """Every string of a module, with a NUL for each value that is formatted into it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(shown, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\w+\}", "\0", node.value)


def test_each_message_of_slurmgen_on_the_page_exists() -> None:
    sources = (REPOSITORY / "slurmgen").rglob("*.py")
    texts = "\n".join(text.replace("\n", " ") for path in sources for text in texts_of(path))
    messages = quoted("Messages of slurmgen")
    patterns = {message: ".*".join(map(re.escape, message.split("..."))) for message in messages}
    assert len(messages) > 30
    assert [message for message, pattern in patterns.items() if not re.search(pattern, texts)] == []


@pytest.mark.parametrize("message", quoted("Messages in a job log"))
def test_slurmgen_recognizes_the_message_in_a_log(message: str) -> None:
    generic = why(JobState(id="1", state="FAILED", exit_code="1:0"), log=[Piece("Training started")])
    found = why(
        JobState(id="1", state="FAILED", exit_code="1:0"), log=[Piece(message.replace("...", "name"))]
    )
    assert found
    assert found != generic


def test_the_reason_codes_of_slurm_on_the_page_are_explained() -> None:
    codes = re.findall(r"`([A-Z]\w+)`", TROUBLESHOOTING.partition("\n## A job that waits\n")[2])
    assert len(codes) > 8
    assert [code for code in codes if not pending.reason_words(code)] == []


WEB = DOCS / "web"


def web_commands() -> list[list[str]]:
    """The arguments of each `slurmgen web` on the page and in the files that it shows."""
    texts = [path.read_text() for path in (DOCS / "web.md", WEB / "slurmgen-web.service")]
    command = re.compile(r"(?<!`)slurmgen web( --[^\n`]*)$", re.MULTILINE)
    found = [match.split() for text in texts for match in command.findall(text)]
    entry = re.search(r"^ENTRYPOINT (.*)$", (WEB / "Containerfile").read_text(), re.MULTILINE)
    run = re.search(r"slurmgen-web (--[^\n]*)$", texts[0], re.MULTILINE)
    assert entry
    assert run
    return [*found, [*json.loads(entry[1])[2:], *run[1].split()]]


@pytest.mark.parametrize("arguments", web_commands(), ids=" ".join)
def test_each_command_for_the_page_is_valid(arguments: list[str]) -> None:
    from slurmgen.cli.web import command

    assert command.make_context("web", arguments)


def test_the_options_for_a_proxy_exist_and_every_option_is_on_the_page() -> None:
    from slurmgen.cli.web import command

    text = (DOCS / "web.md").read_text()
    options = {name for each in command.params for name in each.opts}
    rows = set(re.findall(r"^\| `(--[a-z-]+)", text, re.MULTILINE))
    assert rows
    assert rows <= options
    assert {name for name in options if f"`{name}" not in text and f" {name}" not in text} == set()


def test_each_message_of_the_page_is_one_of_slurmgen() -> None:
    section = (DOCS / "web.md").read_text().partition("\n## Over SSH\n")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    texts = "\n".join(
        text.replace("`", "") for path in (REPOSITORY / "slurmgen").rglob("*.py") for text in texts_of(path)
    )
    patterns = {message: re.sub("127.*8123", "\0, port \0", message) for message in messages}
    assert len(messages) == 4
    assert [message for message, text in patterns.items() if text not in texts] == []
