"""`slurmgen sites validate --strict`: facts that contradict each other, have no effect, or lack a source."""

import re
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError
from slurmgen.files import bundled
from slurmgen.sites.checks import CHECKS
from slurmgen.sites.model import UNSOURCED, Site
from slurmgen.sites.profiles import load_profile, profile_warnings
from tests.conftest import Run
from tests.support.examples import examples

SOURCE = """
[sources.docs]
mark = "documentation"
title = "the user guide"
facts = [{}]
"""
TABLES = set(Site.__struct_fields__) - set(UNSOURCED)


def write(folder: Path, text: str, sources: str | None = None) -> Path:
    """A profile in which every fact has a source."""
    stated = [name for name in sorted(TABLES) if re.search(rf"^(\[?{name}\b)", text, re.MULTILINE)]
    path = folder / "x.toml"
    path.write_text(text + (SOURCE.format(", ".join(map(repr, stated))) if sources is None else sources))
    return path


CASES = {one.name: one for one in examples(Path(__file__).with_name("contradictions.txt"))}


def test_every_check_has_a_case() -> None:
    assert {check.__name__ for check in CHECKS} == {*CASES, "facts_without_source"}


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_is_a_warning_with_its_line(name: str, tmp_path: Path) -> None:
    (warning,) = profile_warnings(write(tmp_path, CASES[name].text))
    assert re.search(CASES[name].expected, str(warning))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[when.w]\nqos = 'b'", "qos"),
        ("[partitions.a]\ndefault = true\ngpu_type = 'y'\n[when.w]\ngpu_type = 'z'", "gpu_type"),
        (
            "[partitions.a]\ndefault = true\n[partitions.b]\nmax_gpus = 0\n"
            "[when.w]\npartition = 'b'\nhas_gpus = true",
            "partition",
        ),
    ],
)
def test_conditions_that_exclude_each_other_are_unreachable(text: str, key: str, tmp_path: Path) -> None:
    types = "[node]\ngpus = 4\n[gpu.types.y]\n[gpu.types.z]\n"
    found = [str(warning) for warning in profile_warnings(write(tmp_path, types + text))]
    assert any(f"when.w.{key}: " in warning for warning in found)


def test_facts_without_a_source_are_listed_by_table(tmp_path: Path) -> None:
    path = write(tmp_path, "[node]\ngpus = 4\ncpus = 8\n[gpu]\nrequest = 'gpus'", "")
    assert [str(warning).partition(": ")[2] for warning in profile_warnings(path)] == [
        "node: no source supports node.gpus, node.cpus. "
        "Add the key or its table to `facts` of a table [sources.NAME].",
        "gpu: no source supports gpu.request. Add the key or its table to `facts` of a table [sources.NAME].",
    ]


def test_a_source_without_facts_supports_those_that_no_other_source_names(tmp_path: Path) -> None:
    other = "[sources.rest]\nmark = 'users'\ntitle = 'notes'\n" + SOURCE.format("'node.gpus'")
    path = write(tmp_path, "[node]\ngpus = 4\ncpus = 8\n", other)
    assert profile_warnings(path) == []
    site = load_profile(path)
    assert (site.source_of("node.gpus"), site.source_of("node.cpus")) == ("docs", "rest")


@pytest.mark.parametrize("path", sorted(bundled("site_profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_a_bundled_profile_passes_the_strict_checks(path: Path) -> None:
    assert profile_warnings(path) == []


def test_strict_prints_warnings_and_exits_with_1(tmp_path: Path, slurmgen: Run) -> None:
    path = write(tmp_path, CASES["unknown_nodes"].text)
    plain = slurmgen("sites", "validate", str(path))
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, f"{path}: valid\n", "")
    strict = slurmgen("sites", "validate", "--strict", str(path))
    assert (strict.returncode, strict.stdout) == (1, "")
    assert strict.stderr.startswith(f"warning: {path}:1: partitions.a: ")


def test_strict_prints_the_errors_of_an_invalid_profile(tmp_path: Path, slurmgen: Run) -> None:
    path = write(tmp_path, "colour = 'red'\n[node]\ngpus = 0\n", "")
    strict = slurmgen("sites", "validate", "--strict", str(path))
    assert strict.returncode == 1
    assert [line.partition(": ")[0] for line in strict.stderr.splitlines()] == ["error", "error"]


def test_a_contradiction_with_an_inherited_fact_names_the_file_of_the_fact(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        "[node]\ngpus = 4\n[env.notes]\nB = 'why'\n" + SOURCE.format("'node', 'env'")
    )
    (warning,) = profile_warnings(write(tmp_path, "extends = 'base'\n", ""))
    assert str(warning).startswith(f"{tmp_path}/base.toml:4: env.notes.B: ")


@pytest.mark.parametrize("table", ["container", "container.engines.singularity"])
def test_an_image_of_a_registry_contradicts_nodes_without_the_internet(table: str, tmp_path: Path) -> None:
    text = f"internet = 'no'\n[node]\ngpus = 4\n[{table}]\nimage = 'docker://a/b:1'"
    (warning,) = profile_warnings(write(tmp_path, text))
    assert re.search(rf"x.toml:5: {table}\.image: it needs the internet", str(warning))
    file = write(tmp_path, text.replace("docker://a/b:1", "/images/b.sif"))
    assert profile_warnings(file) == []


def test_conditions_of_jobs_without_gpus_are_compared_with_their_partitions(tmp_path: Path) -> None:
    text = (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\nmax_nodes = 1\n[partitions.cpu]\nmax_gpus = 0\n"
        "[when.w]\nhas_gpus = false\nnodes = 'several'"
    )
    assert profile_warnings(write(tmp_path, text)) == []


def test_the_memory_of_nodes_without_gpus_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.toml:2: cpu_node\.memory: '252 gigs' is not"):
        load_profile(write(tmp_path, "[cpu_node]\nmemory = '252 gigs'"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[node]\nmemory = "512"', "node.memory: '512' is 512M, which no node has. Write 512G"),
        ('[limits]\nmax_time = "48"', "limits.max_time: '48' is 48 minutes. Write 48:00:00 for hours"),
    ],
)
def test_a_number_that_needs_a_unit_is_refused(
    text: str, message: str, tmp_path: Path, slurmgen: Run
) -> None:
    result = slurmgen("sites", "validate", str(write(tmp_path, text)))
    assert result.returncode == 1
    assert message in result.stderr


def test_megabytes_as_slurm_reports_them_need_no_unit(tmp_path: Path, slurmgen: Run) -> None:
    assert slurmgen("sites", "validate", str(write(tmp_path, '[node]\nmemory = "515000"'))).returncode == 0
