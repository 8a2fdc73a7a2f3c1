"""`slurmgen adopt`: a hand-written batch script becomes a job that requests and runs the same."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import Request, load_site, render, resolve
from slurmgen.adopt import Adopted, adopt
from slurmgen.adopt.body import PLACEHOLDER, statements
from slurmgen.adopt.facts import differences, facts
from slurmgen.adopt.program import plain_lines
from slurmgen.errors import RequestError
from slurmgen.lint.reader import Source, read
from tests.conftest import Run
from tests.lint import corpus
from tests.support.examples import Example, examples
from tests.support.golden import golden_requests

GENERIC = load_site("generic")
LAUNCHES = examples(Path(__file__).with_name("launches.txt"))
"Each with the fields of the job that it becomes, or `lost`."
GOLDEN = Path(__file__).parents[1] / "golden"
RENDERED = {name: case for name, case in golden_requests().items() if case[1].sweep is None}
HEAD = "#SBATCH --nodes=1 --gres=gpu:4 --time=60 --mem=64G -c 16\n"
NCCL = """#!/bin/bash
#SBATCH -J big -N 2 --ntasks-per-node=1 --gpus-per-node=a100:4 -c 32
#SBATCH --mem-per-cpu=2G
#SBATCH -t 1-0 --output=logs/%x.%j --mail-type=END
module load cuda/12 gcc/13
conda activate torch
export NCCL_DEBUG=INFO
export MASTER_PORT=29500
mkdir -p "out dir"
for i in 1 2; do
\techo $i
done
srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --max-restarts=2 \\
    train.py --lr 1e-3 --out "$PWD/out dir" '$literal'
cp -r "out dir" "$HOME"
"""


def adopted(text: str, **more: Any) -> Adopted:
    return adopt(text if text.startswith("#!") else f"#!/bin/bash\n{text}", "job.sbatch", GENERIC, **more)


def header(*options: str) -> Adopted:
    return adopted("".join(f"#SBATCH {option}\n" for option in options) + "python train.py\n")


def project(folder: Path, text: str = NCCL, toml: str | None = None) -> Path:
    (folder / "train.sbatch").write_text(text)
    if toml is not None:
        (folder / "slurmgen.toml").write_text(toml)
    return folder


@pytest.mark.parametrize("name", RENDERED)
def test_a_script_of_slurmgen_is_adopted_as_the_request_that_made_it(name: str) -> None:
    site, asked = RENDERED[name]
    made = adopt((GOLDEN / f"{name}.sbatch").read_text(), name, load_site(site))
    assert (made.request, made.lost, made.differences) == (asked, (), ())


def test_values_that_the_command_of_a_script_omits_come_from_its_lines() -> None:
    asked = Request(
        script="train.py", env={"A": "it's $HOME", "B": "$$x"}, sbatch={"export": "NONE"}, name="n"
    )
    assert adopted(render(resolve(asked, GENERIC))).request == asked


def test_an_edited_script_of_slurmgen_is_read_as_any_other() -> None:
    text = render(resolve(Request(script="train.py"), GENERIC)).replace("--mem=16G", "--mem=20G")
    made = adopted(text)
    assert (made.request.mem, made.differences) == ("20G", ())


def test_header_software_program_and_lines_become_fields() -> None:
    made = adopted(NCCL)
    assert made.request == Request(
        framework="ddp",
        gpus=8,
        nodes=2,
        gpu_type="a100",
        cpus=32,
        mem="64G",
        time="1-00:00:00",
        env={"NCCL_DEBUG": "INFO"},
        modules=("cuda/12", "gcc/13"),
        python_env="conda:torch",
        sbatch={"output": "logs/%x.%j", "mail-type": "END"},
        script="train.py",
        script_args=("--lr", "1e-3", "--out", "$PWD/out dir", "$$literal"),
        launcher_args=("--max-restarts=2",),
        name="big",
        before=('mkdir -p "out dir"', "for i in 1 2; do", "    echo $i", "done"),
        after=('cp -r "out dir" "$HOME"',),
    )
    assert (made.lost, made.differences) == ((), ())
    assert [line.line for line in made.replaced] == [8, 13]
    assert "--nproc_per_node=4 --rdzv_backend=c10d" in made.replaced[1].why


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["--gres=gpu:4", "-N2", "-t 60"], ["--nodes=2", "--ntasks-per-node=1", "--gres=gpu:4"]),
        (["--gpus=a100:2", "-n1"], ["--nodes=1", "--ntasks-per-node=1", "--gres=gpu:a100:2"]),
        (["--gres=gpu:3090:2"], ["--gres=gpu:3090:2"]),
        (["--gres=gpu:2,lscratch:10"], ["--gres=gpu:2,lscratch:10"]),
        (["-N 1 -n 8 --gpus-per-node=4 -c 2"], ["--ntasks-per-node=8", "--cpus-per-task=2"]),
        (["--gpus-per-task=2 -n 2 -N 1"], ["--ntasks-per-node=2", "--gres=gpu:4"]),
        (["-n 40 --gres=gpu:2"], ["--ntasks=40", "--gres=gpu:2"]),
        (["-N1 --gres=gpu:4 --cpus-per-gpu=8"], ["--cpus-per-task=32"]),
        (["-N1 --gres=gpu:4 --mem-per-gpu=10G"], ["--mem=40G"]),
        (["-N1 --gres=gpu:4 --mem=0 -A a -p b,c -q d -a 0-3%2"], ["--mem=0", "--account=a", "--array=0-3%2"]),
        (["-N1 --gres=gpu:1 --exclusive -w n[1-2] -C 'a&b' --requeue"], ["--exclusive", "--requeue"]),
    ],
)
def test_a_header_requests_the_same_in_any_spelling(options: list[str], lines: list[str]) -> None:
    made = header(*options)
    assert (made.differences, made.error) == ((), "")
    assert [line for line in lines if f"#SBATCH {line}\n" not in made.rendered] == []


def test_what_a_header_leaves_to_the_cluster_stays_open() -> None:
    made = header("-N1 --gres=gpu:2")
    assert not [name for name in ("mem", "time", "cpus-per-task") if f"--{name}" in made.rendered]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--chdir=/data", "a folder of its own"),
        ("--gpu-bind=closest", "hides a node's GPUs"),
        ("--gres=gpu:2,a:b:c:d", "slurmgen sets --gres itself"),
        ("--nodes=1-4 -n 4", "the number of nodes is not determined"),
        ("--time=INFINITE", "it is not a time limit"),
        ("--mem=1.5G", "it is not a whole number"),
        ("--job-name='a b'", "is not a valid name"),
        ("--output='$HOME/%j'", "has a quote, a backslash, a dollar sign"),
        ("--wait", "submit --follow"),
        ("--nodes=1 'stray'", "it is not an option"),
    ],
)
def test_an_option_that_a_job_does_not_express_is_named_with_its_line(option: str, why: str) -> None:
    made = header("--gres=gpu:2", option)
    assert {(line.line, why in line.why) for line in made.lost} == {(3, True)}


@pytest.mark.parametrize("example", [one for one in LAUNCHES if one.expected != "lost"])
def test_a_launch_becomes_framework_and_program(example: Example) -> None:
    made = adopted(HEAD + example.text)
    for key, value in tomllib.loads(f"fields = {{ {example.expected} }}")["fields"].items():
        assert getattr(made.request, key) == (tuple(value) if isinstance(value, list) else value)
    assert made.error == ""


@pytest.mark.parametrize("body", [one.text for one in LAUNCHES if one.expected == "lost"])
def test_a_program_that_a_job_cannot_express_fails_and_each_line_is_named(body: str) -> None:
    made = adopted(HEAD + body)
    assert made.request.command == ("bash", "-c", PLACEHOLDER)
    assert made.differences == ()
    assert {line.line for line in made.lost} >= {
        s.first for s in statements(Source(f"#!/bin/bash\n{HEAD}{body}"))
    }


@pytest.mark.parametrize(
    ("launch", "fact"),
    [("srun $OPTIONS python t.py", "options of srun that only the shell"), ("time python t.py", "`time`")],
)
def test_what_stands_in_front_of_the_program_is_named(launch: str, fact: str) -> None:
    made = adopted(f"{HEAD}{launch}\n")
    assert (made.request.script, len(made.lost), fact in made.lost[0].why) == ("t.py", 1, True)


@pytest.mark.parametrize(
    ("first", "noted"),
    [("#!/bin/bash -l", 1), ("#!/bin/zsh", 1), ("#!/usr/bin/env bash", 0), ("#!/bin/sh", 0)],
)
def test_another_first_line_is_noted(first: str, noted: int) -> None:
    notes = adopted(f"{first}\n{HEAD}python train.py\n").notes
    assert [f"not with `{first}`" in note for note in notes] == [True] * noted


def test_an_option_that_slurmgen_replaces_is_named_with_its_value() -> None:
    made = adopted(f"{HEAD}deepspeed --hostfile hosts --num_gpus=4 train.py\n")
    assert [line.why for line in made.replaced] == [
        "slurmgen sets these options itself: --hostfile hosts --num_gpus=4"
    ]


def test_options_of_srun_and_a_redirection_are_named() -> None:
    made = adopted(f"{HEAD}srun --label --cpu-bind=none python train.py > log 2>&1\n")
    assert ["--label, --cpu-bind" in made.lost[0].why, "where the output goes" in made.lost[1].why] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        ("ARGS='--lr 1 --x'\npython t.py $ARGS", ("--lr", "1", "--x")),
        ("A='a b'\nB=$A/x\npython t.py $B", ("a", "b/x")),
        ('A=/data\npython t.py $A "$A b"', ("$A", "$A b")),
        ('OUT="run-$(date +%F)"\npython t.py $OUT', ("$OUT",)),
        ("N=2\npython t.py x.y=[1,$N] '*' $((N * 2))", ("x.y=[1,2]", "*", "4")),
    ],
)
def test_an_argument_without_quotes_becomes_the_words_of_its_value(
    lines: str, arguments: tuple[str, ...]
) -> None:
    assert adopted(f"{HEAD}{lines}\n").request.script_args == arguments


def test_a_variable_of_a_command_that_only_the_shell_computes_is_exported_before_it() -> None:
    made = adopted(f"{HEAD}N=1 CUDA_VISIBLE_DEVICES=${{1:-0}} PYTHONPATH=$PWD python train.py\n")
    assert (made.request.env, made.lost, made.error) == ({"N": "1"}, (), "")
    assert made.request.before == ("export CUDA_VISIBLE_DEVICES=${1:-0}", "export PYTHONPATH=$PWD")


def test_a_variable_keeps_the_blanks_of_its_value() -> None:
    assert adopted(f"{HEAD}export FLAGS='-a  -b'\npython train.py\n").request.env == {"FLAGS": "-a  -b"}


@pytest.mark.parametrize(
    "line", ["export MASTER_PORT=29500 OMP_NUM_THREADS=8", "MASTER_PORT=29500 python prepare.py"]
)
def test_a_line_that_sets_the_rendezvous_and_does_more_is_kept(line: str) -> None:
    made = adopted(f"{HEAD}{line}\npython train.py\n")
    assert (made.request.before, made.replaced) == ((line,), ())


def test_the_status_of_the_program_is_that_of_the_job() -> None:
    made = adopted(f"{HEAD}python train.py\nexit $?\n")
    assert (made.request.after, [line.line for line in made.replaced]) == (("exit $status",), [4])


def test_facts_differ_if_one_number_differs() -> None:
    old = facts(read("#!/bin/bash\n#SBATCH -N 2 --gres=gpu:4 --mem=1G\n"))
    new = facts(read("#!/bin/bash\n#SBATCH -N 2 --gres=gpu:2 --output=x\n"))
    assert [one.name for one in differences(old, new)] == ["GPUs per node", "memory of a node"]


def test_the_job_is_added_to_slurmgen_toml_whose_comments_stay(tmp_path: Path, slurmgen: Run) -> None:
    toml = '# ours\nsite = "generic"  # here\n\n[job.a]\nscript = "a.py"\n# the end\n'
    project(tmp_path, toml=toml)
    reply = slurmgen("adopt", "train.sbatch", cwd=tmp_path)
    assert reply.returncode == 0, reply.stderr
    text = (tmp_path / "slurmgen.toml").read_text()
    assert text.startswith(toml + "\n[job.train]  # adopted from train.sbatch\n")
    assert "the header requests the same" in reply.stdout
    assert "-#SBATCH -J big -N 2" in reply.stdout
    assert "+#SBATCH --nodes=2\n" in reply.stdout
    shown = slurmgen("render", "train", cwd=tmp_path).stdout
    assert "#SBATCH --output=logs/%x.%j\n" in shown


def test_a_job_of_the_same_name_is_replaced_only_with_force(tmp_path: Path, slurmgen: Run) -> None:
    old = '[job.train]  # old\nscript = "a.py"\n# kept\n[job.train.site.daic]\ngpus = 1\n'
    toml = f'{old}[job.b]\nscript = "b.py"\n'
    project(tmp_path, toml=toml)
    assert slurmgen("adopt", "train.sbatch", cwd=tmp_path).returncode == 2
    assert (tmp_path / "slurmgen.toml").read_text() == toml
    assert slurmgen("adopt", "train.sbatch", "--force", cwd=tmp_path).returncode == 0
    found = tomllib.loads(text := (tmp_path / "slurmgen.toml").read_text())
    assert (found["job"]["train"]["script"], found["job"]["b"]["script"]) == ("train.py", "b.py")
    assert "# kept\n" in text
    assert "site" not in found["job"]["train"]


def test_a_dry_run_writes_nothing_and_json_has_all(tmp_path: Path, slurmgen: Run) -> None:
    project(tmp_path)
    reply = slurmgen(
        "adopt", "train.sbatch", "--dry-run", "--json", "--name", "n", "--site", "daic", cwd=tmp_path
    )
    assert reply.returncode == 2  # daic needs an account
    reply = slurmgen("adopt", "train.sbatch", "--dry-run", "--json", "--name", "n", cwd=tmp_path)
    (job,) = json.loads(reply.stdout)["jobs"]
    assert (job["name"], job["written"], job["not_expressed"], job["differences"]) == ("n", False, [], [])
    assert tomllib.loads(job["toml"])["job"]["n"]["gpus"] == 8
    assert not (tmp_path / "slurmgen.toml").exists()


def test_several_scripts_make_a_new_slurmgen_toml_for_the_site(tmp_path: Path, slurmgen: Run) -> None:
    project(tmp_path)
    (tmp_path / "eval.sbatch").write_text(f"#!/bin/bash\n{HEAD}#SBATCH --chdir=/x\npython eval.py\n")
    reply = slurmgen("adopt", "train.sbatch", "eval.sbatch", "--site", "generic", cwd=tmp_path)
    assert (reply.returncode, "line 3: #SBATCH --chdir=/x: " in reply.stdout) == (1, True)
    found = tomllib.loads((tmp_path / "slurmgen.toml").read_text())
    assert (found["site"], list(found["job"])) == ("generic", ["train", "eval"])


def test_a_file_that_takes_no_further_table_is_left_as_it_is(tmp_path: Path, slurmgen: Run) -> None:
    toml = 'job = { a = { script = "a.py" } }\n'
    project(tmp_path, toml=toml)
    reply = slurmgen("adopt", "train.sbatch", cwd=tmp_path)
    assert (reply.returncode, "cannot be added" in reply.stderr) == (2, True)
    assert (tmp_path / "slurmgen.toml").read_text() == toml


def test_the_tasks_that_a_header_reserves_may_differ_from_those_that_srun_starts() -> None:
    asked = Request(gpus=4, cpus=2, ntasks_per_node=8, script="train.py")
    text = render(resolve(asked, GENERIC))
    assert "#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=2\n" in text
    assert "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 " in text
    mpi = render(resolve(structs.replace(asked, framework="mpi"), GENERIC))
    assert "srun --cpus-per-task=2 " in mpi


SAMPLES = [*corpus.published(), *corpus.correct()]


SOFTWARE, VERBS = ("module", "ml", "export", "conda", "mamba", "source", "."), ("", "load", "add", "activate")


@pytest.mark.parametrize("sample", SAMPLES, ids=[str(index) for index in range(len(SAMPLES))])
def test_no_statement_of_a_script_is_lost_silently(sample: corpus.Sample) -> None:
    made = adopted(sample.text)
    request, named = made.request, {line.line for line in (*made.replaced, *made.lost)}
    kept = {*(request.before or ()), *(request.after or ())}
    values = f"{request.env} {request.modules} {request.python_env}"
    for one in statements(Source(sample.text))[:200]:
        words = re.split(r"[\s='\"]+|/bin/activate", one.text.strip())
        is_software = words[0] in SOFTWARE and all(word in values for word in words[1:] if word not in VERBS)
        is_kept = {line for line in plain_lines(one.text) if line} <= kept
        is_program = (request.script or request.module or (request.command or ("",))[0]) in one.text
        assert one.first in named or is_kept or is_software or is_program, one.text


def test_a_job_does_not_get_the_software_of_the_profile_that_its_script_had_not() -> None:
    profile = load_site("daic")
    site = structs.replace(profile, modules=structs.replace(profile.modules, load=("cuda",)))
    head = "#!/bin/bash\n#SBATCH --nodes=1 --gres=gpu:2 --time=5 --mem=8G -c 4 -A ewi-insy-prb\n"
    made = adopt(f"{head}python train.py\n", "job.sbatch", site)
    assert (made.request.python_env, made.request.modules, made.error) == ("none", (), "")
    assert "uv sync" not in made.rendered
    assert "module load" not in made.rendered
    own = adopt(f"{head}source env/bin/activate\npython train.py\n", "job.sbatch", site)
    assert own.request.python_env == "venv:env"
    project = adopt(f"{head}python train.py\n", "job.sbatch", site, Request(python_env="uv"))
    assert project.request.python_env is None


def test_a_script_for_another_scheduler_is_refused_by_its_name() -> None:
    with pytest.raises(RequestError, match=r"^a\.pbs is a script for PBS: it has no #SBATCH line"):
        adopt("#!/bin/bash\n#PBS -l select=1\npython t.py\n", "a.pbs", load_site("generic"))
