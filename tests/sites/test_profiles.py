"""Finding, inheriting and validating site profiles."""

import json
import pwd
import tomllib
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from slurmgen.containers import ENGINES
from slurmgen.errors import ConfigError
from slurmgen.files import bundled
from slurmgen.sites.model import Container, When
from slurmgen.sites.profiles import load_profile, load_site, profile_errors, profile_paths
from slurmgen.toml import field_notes
from tests.conftest import Run
from tests.support.examples import Example, examples


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n{text}')
    return path


BUNDLED = sorted(path.stem for path in bundled("site_profiles").glob("*.toml"))
TITLES = ("name", "title", "sources")


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_profile_is_right(name: str) -> None:
    assert load_site(name).name == name


def test_a_bundled_profile_needs_no_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public page can run as a user without one."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert load_site("lumi-g", personal=False).name == "lumi-g"


@pytest.mark.parametrize("name", [name for name in BUNDLED if name != "generic"])
def test_every_fact_of_a_bundled_profile_has_a_source(name: str) -> None:
    stated = tomllib.loads((bundled("site_profiles") / f"{name}.toml").read_text())
    site = load_site(name)
    keys = [key for table in stated.keys() - set(TITLES) for key in leaves(stated[table], table)]
    assert [key for key in keys if site.source_of(key) is None] == []


def leaves(value: object, key: str) -> list[str]:
    """The keys of all facts in a table."""
    if not isinstance(value, dict) or not value:
        return [key]
    return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{key}.{name}")]


def test_every_engine_has_a_command() -> None:
    assert set(get_args(get_type_hints(Container)["engine"])) == set(ENGINES)


def test_a_projects_profile_overrides_the_users_and_the_bundled_one(tmp_path: Path, config_dir: Path) -> None:
    own = write(config_dir / "site_profiles", "daic", 'title = "mine"')
    assert load_site("daic", tmp_path).title == "mine"
    nearer = write(tmp_path / "site_profiles", "daic", 'title = "the project\'s"')
    assert load_site("daic", tmp_path).title == "the project's"
    assert profile_paths(tmp_path)["daic"] == nearer != own


def test_a_profile_inherits_the_facts_that_it_omits(tmp_path: Path) -> None:
    write(
        tmp_path / "site_profiles", "ours", 'extends = "olivia"\n[cpu]\nper_gpu = 16\n[env.always]\nA = "1"'
    )
    site = load_site("ours", tmp_path)
    assert (site.name, site.cpu.per_gpu, site.node.gpus, site.default_partition) == ("ours", 16, 4, "accel")
    assert site.env.always == {"A": "1"}
    assert site.env.multi_node["NCCL_CROSS_NIC"] == "1"


def test_a_profile_can_extend_the_bundled_one_with_the_same_name(config_dir: Path) -> None:
    write(config_dir / "site_profiles", "daic", 'extends = "daic"\ntime = "00:10:00"')
    site = load_site("daic")
    assert (site.time, site.account.required) == ("00:10:00", True)


@pytest.mark.parametrize("example", examples(Path(__file__).with_name("invalid_profiles.txt")))
def test_an_invalid_profile_is_rejected_with_its_file_and_key(example: Example, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=example.expected):
        load_profile(write(tmp_path, "x", example.text))


CONDITIONS = {
    "nodes": "'one'",
    "tasks": "'per-gpu'",
    **dict.fromkeys(("whole_nodes", "has_gpus", "several_gpus", "container"), "true"),
    **dict.fromkeys(("gpu_type", "partition", "qos"), "'a'"),
}


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_a_profile_may_refuse_jobs_by_any_condition(name: str, tmp_path: Path) -> None:
    known = "[gpu.types.a]\n[partitions.a]\ngpu_type = 'a'\n[qos.a]\n"
    path = write(tmp_path, "x", f"{known}[when.w]\n{name} = {CONDITIONS[name]}\nrefuse = 'no'")
    assert load_profile(path).when["w"].refuse == "no"


def test_these_are_all_conditions() -> None:
    notes = field_notes(When)
    assert CONDITIONS.keys() == {name for name in notes if notes[name].startswith("Condition:")}


def test_the_name_of_a_profile_must_match_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "x", "").rename(tmp_path / "y.toml")
    with pytest.raises(ConfigError, match=r"call it x\.toml"):
        load_profile(path)


def test_show_prints_the_whole_profile_as_toml(slurmgen: Run) -> None:
    shown = tomllib.loads(slurmgen("sites", "show", "olivia").stdout)
    assert shown["partitions"]["accel"]["max_gpus"] == 32
    assert shown["env"]["multi_node"]["NCCL_SOCKET_IFNAME"] == "hsn0,hsn1,hsn2,hsn3"


@pytest.mark.parametrize("name", BUNDLED)
def test_the_output_of_show_is_a_valid_profile(name: str, slurmgen: Run, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(slurmgen("sites", "show", name).stdout)
    assert load_profile(path) == load_site(name)


def test_show_prints_stated_values_that_equal_a_default(slurmgen: Run) -> None:
    text = slurmgen("sites", "show", "snellius").stdout
    shown = tomllib.loads(text)
    assert shown["gpu"]["request"] == "gres"
    assert shown["memory"]["form"] == "mem"
    assert shown["container"]["engine"] == "apptainer"
    assert "type_required" not in shown["gpu"]
    assert 'gpu_type = "a100"  # documented [surf]' in text
    assert "default = true  # inferred [reading]" in text
    assert json.loads(slurmgen("sites", "show", "snellius", "--json").stdout) == shown


def test_sites_lists_every_bundled_site(slurmgen: Run) -> None:
    listed = slurmgen("sites").stdout
    assert [line.split()[0] for line in listed.splitlines()] == BUNDLED


def test_validate_exits_with_1_and_names_each_invalid_file(slurmgen: Run, tmp_path: Path) -> None:
    good, bad = write(tmp_path, "good", ""), write(tmp_path, "bad", "x = 1")
    result = slurmgen("sites", "validate", str(good), str(bad))
    assert result.returncode == 1
    assert (result.stdout, result.stderr.count("unknown key x")) == (f"{good}: valid\n", 1)


def test_validate_reports_every_error_with_its_file_and_line(slurmgen: Run, tmp_path: Path) -> None:
    base = write(tmp_path, "base", "colour = 'red'\n[cpu]\nper_gpu = 99\n")
    path = write(
        tmp_path,
        "x",
        "extends = 'base'\nsize = 1\ntime = 'soon'\n[node]\ngpus = 0\nmemory = 'much'\n[qos.'a b']\n",
    )
    result = slurmgen("sites", "validate", str(path))
    places = [line.split(": ")[1] for line in result.stderr.splitlines()]
    assert (result.returncode, result.stdout) == (1, "")
    assert sorted(places) == [f"{base}:2", *(f"{path}:{line}" for line in (3, 4, 6, 7, 8))]


@pytest.mark.parametrize("extends", ["nowhere", "x"])
def test_validate_reports_a_wrong_extends_and_control_characters_with_all_else(
    slurmgen: Run, tmp_path: Path, extends: str
) -> None:
    text = 'size = 1\n[env.always]\nA = \'a\'\nB = "b\\n"\n[sbatch]\ncomment = "\\u001b"\n'
    path = tmp_path / "x.toml"
    path.write_text(f"extends = '{extends}'\n{text}")
    result = slurmgen("sites", "validate", str(path))
    places = [line.split(": ")[1] for line in result.stderr.splitlines()]
    assert sorted(places) == [f"{path}:{line}" for line in (1, 2, 5, 7)]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = \nc = 2\n", 2), ("a = 1\n\nb = [\n", 3), ("[a]\n[a]\n", 2), ("b.c = 1\nb = 2", 2)],
)
def test_validate_reports_the_line_that_is_not_toml(
    slurmgen: Run, tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    result = slurmgen("sites", "validate", str(path))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {path}:{line}: it is not TOML: ")


def test_all_contradictions_are_reported_at_once(slurmgen: Run, tmp_path: Path) -> None:
    facts = "[node]\ngpus = 4\ncpus = 8\nmemory = '8G'\n[cpu]\nper_gpu = 4\n[memory]\nper_gpu = '4G'\n"
    result = slurmgen("sites", "validate", str(write(tmp_path, "x", facts)))
    assert [line.split(": ")[2] for line in result.stderr.splitlines()] == ["cpu.per_gpu", "memory.per_gpu"]


@pytest.mark.parametrize("limit", ["UNLIMITED", "infinite"])
def test_an_unlimited_time_sets_no_limit(limit: str, tmp_path: Path, slurmgen: Run) -> None:
    write(
        tmp_path / "site_profiles",
        "x",
        f"time = '{limit}'\n[partitions.a]\ndefault = true\nmax_time = '{limit}'",
    )
    assert slurmgen("sites", "validate", "site_profiles/x.toml").stdout == "site_profiles/x.toml: valid\n"
    asked = slurmgen("render", "--site", "x", "--time", "30-0")
    assert "#SBATCH --time=30-00:00:00\n" in asked.stdout
    assert "#SBATCH --time=01:00:00\n" in slurmgen("render", "--site", "x").stdout
    (tmp_path / "slurmgen.toml").touch()
    (tmp_path / "job").write_text(asked.stdout)
    assert slurmgen("lint", "job", "--site", "x").returncode == 0


def test_show_prints_empty_tables_and_quotes_their_names(tmp_path: Path, slurmgen: Run) -> None:
    folder = tmp_path / "site_profiles"
    write(
        folder,
        "x",
        "[qos.normal]\n[qos.debug]\n[partitions.'a.b']\n[gpu.types.h100]\n[sbatch]\nexclusive = true",
    )
    shown = slurmgen("sites", "show", "x").stdout
    assert tomllib.loads(shown) == tomllib.loads((folder / "x.toml").read_text())


def test_the_name_of_a_partition_may_have_a_colon(tmp_path: Path, slurmgen: Run) -> None:
    settings = (
        "[when.a]\npartition = 'gpu:shared'\nenv = { A = '1' }\n[charge]\nrates = { 'gpu:shared' = 2 }\n"
    )
    write(
        tmp_path / "site_profiles",
        "x",
        f"[partitions.gpu]\ndefault = true\n[partitions.'gpu:shared']\n{settings}",
    )
    script = slurmgen("render", "--site", "x", "--partition", "gpu:shared").stdout
    assert "#SBATCH --partition=gpu:shared\n" in script
    assert "export A=1\n" in script
    (tmp_path / "job.sbatch").write_text(script)
    assert slurmgen("lint", "--site", "x", "job.sbatch").returncode == 0


def test_a_profile_without_a_name_gets_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text("extends = 'olivia'")
    assert load_profile(path).name == "ours"


def test_a_source_may_name_a_fact_of_a_gpu_type_with_dots(tmp_path: Path) -> None:
    source = '[sources.a]\nmark = "users"\ntitle = "t"\nfacts = ["gpu.types.a100_1g.5gb.{}"]\n'
    kind = '[gpu.types."a100_1g.5gb"]\ncpus_per_gpu = 4\n'
    path = write(tmp_path / "site_profiles", "mine", kind + source.format("cpus_per_gpu"))
    assert profile_errors(path) == []
    path = write(tmp_path / "site_profiles", "mine", kind + source.format("gpus"))
    assert "does not state" in str(profile_errors(path)[0])
