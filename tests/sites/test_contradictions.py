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


CASES = {
    "unknown_nodes": (
        "[partitions.a]\ndefault = true",
        r"x.toml:1: partitions\.a: .* how many GPUs a node has",
    ),
    "no_default_partition": (
        "[node]\ngpus = 4\n[partitions.a]\n[partitions.b]",
        r"partitions: none of the partitions is the default: a, b\. Set default = true",
    ),
    "default_for_no_gpu_job": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\nmax_gpus = 0\n[partitions.b]",
        r"x.toml:4: partitions\.a\.default: the default partition has no GPUs",
    ),
    "default_without_gpus_needs_some": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\ndefault_without_gpus = true\nmin_gpus = 1",
        r"x.toml:5: partitions\.a\.default_without_gpus: min_gpus = 1 excludes jobs without GPUs",
    ),
    "limits_exclude_each_other": (
        "[node]\ngpus = 4\n[limits]\nmin_time = '1:00:00'\n"
        "[partitions.a]\ndefault = true\nmax_time = '30:00'",
        r"x.toml:4: limits\.min_time: min_time 1:00:00 of x exceeds max_time 30:00 of partition a",
    ),
    "too_few_nodes_for_the_least_gpus": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\nmax_nodes = 2\nmin_gpus = 9",
        r"x.toml:6: partitions\.a\.min_gpus: 9 GPUs do not fit in 2 nodes of 4",
    ),
    "default_qos_over_partition": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\nmax_time = '1-0'\n"
        "[qos.long]\ndefault = true\nmax_time = '7-0'",
        r"x.toml:8: qos\.long\.max_time: 7-0 is more than any default partition allows.*OverPartQOS",
    ),
    "default_time_out_of_limits": (
        "time = '5'\n[node]\ngpus = 4\n[limits]\nmin_time = '1:00:00'",
        r"x.toml:1: time: 5 is below 1:00:00 of x",
    ),
    "type_in_no_partition": (
        "[node]\ngpus = 4\n[gpu.types.h100]\n[gpu.types.a100]\n"
        "[partitions.a]\ndefault = true\ngpu_type = 'a100'",
        r"x.toml:3: gpu\.types\.h100: no partition has this GPU type",
    ),
    "required_type_without_default": (
        "[node]\ngpus = 4\n[gpu]\ntype_required = true\n[gpu.types.a]\n[gpu.types.b]",
        r"x.toml:4: gpu\.type_required: a job must name one of several types.*: a, b\. Set default_type",
    ),
    "type_without_request": (
        "[node]\ngpus = 4\n[gpu]\nrequest = 'none'\ntype_required = true\n[gpu.types.a]",
        r"x.toml:5: gpu\.type_required: .* the site refuses every GPU request",
    ),
    "unreachable_settings": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\nmax_nodes = 1\n[when.w]\nnodes = 'several'",
        r"x.toml:7: when\.w\.nodes: the limits allow no job on several nodes",
    ),
    "qos_of_unknown_partitions": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\n[qos.q]\npartitions = ['cpu']",
        r"x.toml:6: qos\.q\.partitions: there is no partition 'cpu'",
    ),
    "memory_without_request": (
        "[node]\ngpus = 4\n[memory]\nform = 'none'\nper_gpu = '64G'",
        r"x.toml:5: memory\.per_gpu: it has no effect with form = \"none\"",
    ),
    "software_from_the_internet": (
        "internet = 'no'\npython_env = 'uv'\n[node]\ngpus = 4",
        r"x.toml:2: python_env: it needs the internet.*venv:FOLDER",
    ),
    "fewer_cpus_than_gpus": (
        "[node]\ngpus = 8\ncpus = 4",
        r"x.toml:3: node\.cpus: 4 CPUs are fewer than 8 GPUs",
    ),
    "unknown_rates": (
        "[node]\ngpus = 4\n[partitions.a]\ndefault = true\n[charge]\nrates = { b = 2 }",
        r"x.toml:6: charge\.rates\.b: there is no partition, QoS or GPU type 'b'",
    ),
    "notes_of_unset_variables": (
        "[node]\ngpus = 4\n[env.always]\nA = '1'\n[env.notes]\nB = 'why'",
        r"x.toml:6: env\.notes\.B: the profile does not set this variable",
    ),
}


def test_every_check_has_a_case() -> None:
    assert {check.__name__ for check in CHECKS} == {*CASES, "facts_without_source"}


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_is_a_warning_with_its_line(name: str, tmp_path: Path) -> None:
    text, message = CASES[name]
    (warning,) = profile_warnings(write(tmp_path, text))
    assert re.search(message, str(warning))


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
    path = write(tmp_path, CASES["unknown_nodes"][0])
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
