"""The header is read as sbatch reads it."""

import subprocess
from pathlib import Path

import pytest

from slurmgen.lint.reader import read
from slurmgen.lint.reader.header import read_header, split_words
from slurmgen.lint.reader.shape import Shape
from slurmgen.lint.reader.source import Budget, Source

LINES = {
    "--nodes=2": [("nodes", "2")],
    "--nodes 2": [("nodes", "2")],
    "-N2": [("nodes", "2")],
    "-N 2 -n4 -t01:00:00": [("nodes", "2"), ("ntasks", "4"), ("time", "01:00:00")],
    "--part=gpu": [("partition", "gpu")],
    "--exclusive --requeue": [("exclusive", None), ("requeue", None)],
    "--exclusive=user": [("exclusive", "user")],
    "-HJ name": [("hold", None), ("job-name", "name")],
    '--job-name="my job" # why': [("job-name", "my job")],
    "--comment=a#b": [("comment", "a")],
    r"--comment=a\#b": [("comment", "a#b")],
    r'--comment="a\"b" -N1': [("comment", 'a"b'), ("nodes", "1")],
    "-J'a b'c": [("job-name", "a bc")],
    "--tasks-per-node=4": [("tasks-per-node", "4")],
    "--container-image=x.sqsh": [("container-image", "x.sqsh")],
}


@pytest.mark.parametrize("line", sorted(LINES))
def test_options(line: str) -> None:
    header = read_header(Source(f"#!/bin/bash\n#SBATCH {line}\n"), Budget())
    assert [(d.name, d.option.value) for d in header.directives] == LINES[line]
    assert header.strays == ()


@pytest.mark.parametrize(
    "line", [*sorted(LINES), "--job-name my job", "--time = 1", "a 'b c' d\\ e #f", '-J"x']
)
def test_words_are_split_as_by_sbatch(line: str, tmp_path: Path) -> None:
    """sbatch parses the header before it contacts its controller."""
    config, script = tmp_path / "slurm.conf", tmp_path / "job.sbatch"
    config.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\nMessageTimeout=1\n"
    )
    script.write_text(f"#!/bin/bash\n#SBATCH {line}\n")
    log = subprocess.run(
        ["sbatch", "-vvv", "--test-only", str(script)],
        env={"SLURM_CONF": str(config), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stderr
    theirs = [
        text.split('"', 1)[1].rsplit('"', 1)[0]
        for text in log.splitlines()
        if "Found in script, argument" in text
    ]
    ours, why = split_words(f" {line}")
    assert [word for word, _, _ in ours][: len(theirs)] == theirs
    assert bool(why) == ("Unmatched" in log)


def test_the_header_ends_at_the_first_command() -> None:
    text = "#!/bin/bash\n# a comment\n\n#SBATCH -N1\n  # another\n#SBATCH -n2\n ls\n#SBATCH -t5\n"
    header = read_header(Source(text), Budget())
    assert [d.name for d in header.directives] == ["nodes", "ntasks"]
    assert [text[slice(*span)] for span in header.late] == ["#SBATCH -t5"]


def test_other_comments_are_not_directives() -> None:
    text = "#!/bin/bash\n# SBATCH -N1\n##SBATCH -N1\n #SBATCH -N1\n"
    assert read_header(Source(text), Budget()).directives == ()


def test_parts_of_a_heterogeneous_job() -> None:
    header = read_header(
        Source("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n#SBATCH packjob # old\n"), Budget()
    )
    assert header.components == 3
    assert [d.component for d in header.directives] == [0, 1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--nodes=2 --ntasks-per-node=4 --gres=gpu:a100:4 -c8", Shape(2, 4, 8, 4, True, "a100")),
        ("--nodes=2 --ntasks=8 --gpus=8", Shape(2, 4, None, 4, True)),
        ("--nodes=1-4 --gres=gpu:4", Shape(None, None, None, 4, True)),
        ("--gres=gpu:2", Shape(1, 1, None, 2, True)),
        ("--gpus=8", Shape(None, None, None, None, True)),
        ("--gpus=1", Shape(1, 1, None, 1, True)),
        ("--nodes=3 --ntasks=4", Shape(3, None)),
        ("--nodes=1 --ntasks=4 --gpus-per-task=1", Shape(1, 4, None, 4, True)),
        ("--nodes=1 --gres=gpu", Shape(1, 1, None, 1, True)),
        ("--nodes=1 --gres=gpu:h100", Shape(1, 1, None, 1, True, "h100")),
        ("--nodes=1 --gres=tmp:100G", Shape(1, 1)),
        ("--nodes=1 --gres=gpu:a:1,gpu:b:1", Shape(1, 1, None, None, True)),
        ("", Shape()),
    ],
)
def test_numbers_of_a_job(options: str, expected: Shape) -> None:
    assert read(f"#!/bin/bash\n#SBATCH {options}\n").job == expected


SLURM_NODES = [
    ("--ntasks=4 --ntasks-per-node=2", 2, 2),
    ("--ntasks=4 --ntasks-per-node=4", 1, 4),
    ("--ntasks=3 --ntasks-per-node=2", 2, None),
    ("--ntasks=4 --tasks-per-node=1", 4, 1),
    ("--nodes=4 --ntasks=2", 2, 1),
    ("--nodes=2 --ntasks=1", 1, 1),
    ("--nodes=2 --ntasks=2", 2, 1),
]
"As a job of Slurm 22.05 reported them. None: the nodes have different numbers of tasks."


@pytest.mark.parametrize(("options", "nodes", "ntasks_per_node"), SLURM_NODES)
def test_nodes_follow_from_the_tasks_as_sbatch_derives_them(
    options: str, nodes: int, ntasks_per_node: int | None
) -> None:
    job = read(f"#!/bin/bash\n#SBATCH {options}\n").job
    assert (job.nodes, job.ntasks_per_node) == (nodes, ntasks_per_node)


def test_an_underscore_in_an_option_is_not_a_dash() -> None:
    (directive,) = read("#!/bin/bash\n#SBATCH --ntasks_per_node=2\n").header.directives
    assert directive.option.matches == ()
