"""What a sweep means for a plan and its script."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from slurmgen import Plan, Request, load_job, load_site, render, resolve
from slurmgen.errors import ConfigError, RequestError
from slurmgen.plan.sweep import array_plans
from slurmgen.request.model import MOST_RUNS, Sweep, runs_of
from slurmgen.slurm.shell import unprintable
from tests.conftest import Run
from tests.support.programs import write_programs
from tests.test_script import shellcheck

TEXT = st.text(min_size=1, max_size=20).filter(lambda text: unprintable(text) is None)


def planned(sweep: Sweep, most: int | None = None, **asked: Any) -> Plan:
    site = structs.replace(load_site("generic"), max_array_size=most)
    return resolve(
        Request(script="train.py", sweep=sweep, **{"gpus": 1, "framework": "python", **asked}), site
    )


def arguments(plan: Plan, task: int, folder: Path) -> list[str]:
    """The arguments of one task, recorded by a stand-in for srun."""
    write_programs(folder, {"srun": r'printf "%s\0" "$@" >words'})
    ids = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_JOB_ID": "7"}
    variables = {"PATH": f"{folder}:/usr/bin:/bin", **ids}
    subprocess.run(["bash", "-c", render(plan), "job"], cwd=folder, env=variables, check=True)
    words = (folder / "words").read_bytes().decode().split("\0")[:-1]
    return words[words.index("train.py") + 1 :]


@settings(max_examples=25, deadline=None)
@given(value=TEXT, other=TEXT)
def test_any_text_reaches_the_program_as_it_is(
    value: str, other: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("words")
    for style, words in {"space": ["--a.b", value], "hydra": [f"a.b={value}"]}.items():
        plan = planned(Sweep(list=({"x": other}, {"a.b": value}), style=style))  # type: ignore[arg-type]
        assert arguments(plan, 1, folder) == words


@pytest.mark.parametrize("text", ["it's", "$HOME", "`x`", '"a" \\', "a b", "é!", "'$x'\\", "--", "*"])
def test_shellcheck_finds_nothing_whatever_the_parameters_are(text: str) -> None:
    assert shellcheck("-", text=render(planned(Sweep(grid={"x": (text,)})))) == ""
    shared = planned(Sweep(grid={"x": (text, "2", "3")}, runs_per_gpu=2), most=1, requeue=None)
    assert shellcheck("-", text=render(shared)) == ""


def test_the_last_parameter_of_a_grid_changes_fastest() -> None:
    runs = runs_of(Sweep(grid={"lr": (0.1, "1e-3"), "amp": (True, False)}))
    assert [list(run.values()) for run in runs] == [
        ["0.1", "true"],
        ["0.1", "false"],
        ["1e-3", "true"],
        ["1e-3", "false"],
    ]


def test_a_sweep_beyond_the_sites_array_size_is_several_arrays_with_one_table(tmp_path: Path) -> None:
    plans = array_plans(planned(Sweep(grid={"seed": tuple(range(7))}, limit=5), most=3))
    assert [dict(plan.directives)["array"] for plan in plans] == ["0-2%2", "0-2%2", "0%1"]
    found = [
        arguments(plan, task, tmp_path)
        for plan, tasks in zip(plans, (range(3), range(3), range(1)), strict=True)
        for task in tasks
    ]
    assert found == [[f"--seed={seed}"] for seed in range(7)]


def test_only_the_chosen_tasks_run_and_keep_their_numbers(tmp_path: Path) -> None:
    (plan,) = array_plans(planned(Sweep(grid={"seed": (5, 6, 7, 8)}, tasks=(3, 0, 1))))
    assert dict(plan.directives)["array"] == "0-1,3"
    assert arguments(plan, 3, tmp_path) == ["--seed=8"]


def test_progress_of_a_requeued_task_is_in_its_own_folder() -> None:
    plan = planned(Sweep(grid={"seed": (1, 2)}), requeue=True)
    assert 'PROGRESS_DIR="$RUN_DIR"' in render(plan)
    assert plan.gpu_hours == 2 * planned(Sweep(grid={"seed": (1,)})).gpu_hours


@pytest.mark.parametrize(
    ("sweep", "asked", "message"),
    [
        (Sweep(), {}, "the sweep has no parameters"),
        (Sweep(limit=2), {}, "the sweep has no parameters"),
        (Sweep(grid={}), {}, "a run without parameters, or no run"),
        (Sweep(list=()), {}, "a run without parameters, or no run"),
        (Sweep(list=({"a": 1}, {})), {}, "a run without parameters, or no run"),
        (Sweep(grid={"a": (1,), "lr": ()}), {}, "lr has no values"),
        (Sweep(grid={"a": (1,)}, list=({"a": 1},)), {}, "grid and list exclude each other"),
        (
            Sweep(grid={"a": tuple(range(101)), "b": tuple(range(100))}),
            {},
            f"10,100 runs, more than {MOST_RUNS:,}",
        ),
        (Sweep(grid={"1a": (1,)}), {}, "'1a' is not valid"),
        (Sweep(grid={"a": ("x\ny",)}), {}, "control character"),
        (Sweep(grid={"a": (1,)}, limit=0), {}, "--sweep-limit is 0"),
        (Sweep(grid={"a": (1,)}, tasks=(1,)), {}, "has 1, and the sweep has tasks 0 to 0"),
        (Sweep(grid={"a": (1,)}, runs_per_gpu=100), {}, "runs_per_gpu is 100"),
        (Sweep(grid={"a": (1,)}, runs_per_gpu=2), {"gpus": 2}, "each task has 2 GPUs"),
        (
            Sweep(grid={"a": (1,)}, runs_per_gpu=2),
            {"requeue": True},
            "runs_per_gpu and requeue exclude each other",
        ),
        (
            Sweep(grid={"a": (1,)}),
            {"sbatch": {"array": "0-3"}},
            "--sweep and --sbatch array exclude each other",
        ),
        (Sweep(grid={"a": (1,)}), {"env": {"RUN_DIR": "x"}}, "--env RUN_DIR would have no effect"),
    ],
)
def test_an_impossible_sweep_is_refused(sweep: Sweep, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match="(?s)" + message.replace("(", r"\(")):
        planned(sweep, **asked)


TOML = '[job.train]\nscript = "train.py"\nframework = "python"\n[job.train.sweep]\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.csv", 'lr,name\r\n1e-3,a b\r\n0.10,"x,""y"\r\n'),
        ("runs.json", '[{"lr": 1e-3, "name": "a b"}, {"lr": 0.10, "name": "x,\\"y"}]'),
        ("runs.jsonl", '{"lr": 1e-3, "name": "a b"}\n\n{"lr": 0.10, "name": "x,\\"y"}\n'),
    ],
)
def test_a_file_of_the_project_has_the_parameters_as_it_writes_them(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / "slurmgen.toml").write_text(f'{TOML}file = "{name}"\n')
    (tmp_path / name).write_bytes(content.encode())
    sweep = load_job(project_dir=tmp_path).request.sweep
    assert sweep is not None
    assert runs_of(sweep) == ({"lr": "1e-3", "name": "a b"}, {"lr": "0.10", "name": 'x,"y'})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("runs.csv", "a,b\n1\n", "row 1 below the header has more or fewer cells"),
        ("runs.csv", "a,b,a\n1,2,3\n", "the header has a twice"),
        ("runs.json", '[{"a": 1, "a": 2}]', "an object has a name twice: a, a"),
        ("runs.csv", "1a\n1\n", "Expected `str` matching regex|not valid"),
        ("runs.json", '{"a": 1}', "Expected `array`"),
        ("runs.json", '[{"a": [1]}]', "Expected `bool | str`"),
        ("runs.json", "[" * 100_000, "maximum recursion|nested"),
        ("runs.txt", "a\n", "is of none of the kinds .csv, .json, .jsonl"),
        ("../runs.csv", "a\n1\n", "cannot be read"),
        ("none.csv", None, "cannot be read: No such file"),
        ("big.csv", "a\n" * 600_000, "larger than 1,000,000 bytes"),
    ],
)
def test_a_wrong_file_is_refused(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "slurmgen.toml").write_text(f'{TOML}file = "{name}"\n')
    if content is not None:
        (project / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_job(project_dir=project)


def test_the_command_line_replaces_the_parameters_and_keeps_the_rest(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(f'{TOML}grid = {{ lr = [1e-3] }}\nlimit = 3\nstyle = "space"\n')
    script = slurmgen("render", "train", "--sweep", "seed=1,2", "--sweep", "x=a").stdout
    assert "  1) arguments=(--seed 2 --x a) ;;" in script
    assert "#SBATCH --array=0-1%3" in script
    assert "# Made by: slurmgen render train --site generic --sweep seed=1,2 --sweep x=a" in script
    shown = json.loads(slurmgen("explain", "train", "--json").stdout)
    assert shown["sweep"] == {
        "runs": 1,
        "tasks": 1,
        "arrays": 1,
        "at_a_time": 3,
        "runs_per_gpu": 1,
        "first": "--lr 0.001",
    }
    assert shown["reasons"]["sweep.runs"] == "from slurmgen.toml [job.train]"
    assert "sweep.tasks" in slurmgen("explain", "train").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sweep", "lr"], "'lr' is not NAME=VALUE,VALUE"),
        (["--sweep", "1x=1"], "'1x' is not valid; it must be letters"),
        (["--sweep", "a=1", "--sweep", "a=2"], "a is there twice"),
        (["--sweep-limit", "2"], "the sweep has no parameters"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(args: list[str], message: str, slurmgen: Run) -> None:
    reply = slurmgen("render", "--script", "x.py", *args)
    assert (reply.returncode, reply.stdout) == (2, "")
    assert message in reply.stderr
    assert "Traceback" not in reply.stderr


def test_a_wrong_key_names_its_line(tmp_path: Path, slurmgen: Run) -> None:
    for line, message in {
        'style = "x"': "'x' is none of equals, space, hydra",
        "grid = { a = 1 }": "a list",
        "grid = { a = [[1]] }": "grid",
        "grids = 1": "unknown key job.train.sweep.grids",
        'list = [{ "1a" = 1 }]': "list",
    }.items():
        (tmp_path / "slurmgen.toml").write_text(f"{TOML}{line}\n")
        reply = slurmgen("render", "train")
        assert (reply.returncode, reply.stdout) == (2, ""), line
        assert "slurmgen.toml:5: " in reply.stderr, reply.stderr
        assert message in reply.stderr, reply.stderr


def test_submit_follow_refuses_a_sweep(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "train.py").touch()
    job = ["--script", "train.py", "--framework", "python", "--via", "local", "--sweep", "a=1,2"]
    reply = slurmgen("submit", *job, "--follow")
    assert reply.returncode == 2
    assert "--follow shows one log" in reply.stderr
