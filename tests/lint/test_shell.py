"""The launches of a script, in the many forms that scripts use."""

import time
from pathlib import Path

import pytest

from slurmgen.lint import lint
from slurmgen.lint.reader import Launch, Script, read
from tests.support.examples import Example, examples

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4 --cpus-per-task=32\n"


def script(body: str) -> Script:
    return read(HEAD + body + "\n")


def launch(body: str) -> Launch:
    (only,) = script(body).launches
    return only


LAUNCHES = examples(Path(__file__).with_name("launches.txt"))
"Each with what stands around torchrun, or `unknown` if the script does not determine the number of ranks."
KNOWN = [one for one in LAUNCHES if one.expected != "unknown"]


@pytest.mark.parametrize("example", KNOWN, ids=lambda example: example.text)
def test_the_launch_is_found(example: Example) -> None:
    found = launch(example.text)
    assert found.kind == "torchrun"
    assert found.options.number("nproc-per-node") == 4
    assert found.script is not None
    assert found.script.text == "t.py"
    assert (" ".join(layer.kind for layer in found.layers) or "none") == example.expected


@pytest.mark.parametrize("body", [one.text for one in LAUNCHES if one not in KNOWN])
def test_a_value_that_the_script_does_not_determine_is_unknown(body: str) -> None:
    found = launch(body)
    assert "nproc-per-node" in found.options.given
    assert found.options.number("nproc-per-node") is None


def test_a_value_of_two_variables_is_one_word() -> None:
    read_ = script("A=a\nB=b\nexport X=$A/$B/c\nY=($A/$B/d e)\nsrun python $X ${Y[@]}")
    assert [word.text for word in read_.launches[0].command.words] == [
        "srun",
        "python",
        "a/b/c",
        "a/b/d",
        "e",
    ]


def test_spans_agree_with_the_script_behind_a_rewritten_text() -> None:
    text = HEAD + "srun cp $A/$B/c $D\nsrun torchrun t.py\n"
    (found,) = read(text).launches
    assert text[slice(*found.span)] == "torchrun"


@pytest.mark.parametrize("value", ["$((5000 + SLURM_PROCID))", "${X:-$SLURM_PROCID}", "$(( $SLURM_PROCID ))"])
def test_the_names_in_an_expansion_are_known(value: str) -> None:
    (found,) = script(f"A={value}").shell.assignments
    assert "SLURM_PROCID" in found.names


def test_an_assignment_in_front_of_a_command_applies_to_that_command() -> None:
    read_ = script("MASTER_PORT=5432 srun python a.py\nsrun python b.py")
    assert [launch.env.get("MASTER_PORT") for launch in read_.launches] == ["5432", None]
    (found,) = read_.assigned("MASTER_PORT")
    assert found.prefix_of == read_.launches[0].command.span


@pytest.mark.parametrize("end", ["\\\n  # --tee=3 \\", "\\\n", "\\ "])
def test_the_options_of_a_command_that_is_cut_off_are_not_all_known(end: str) -> None:
    read_ = script(f"srun torchrun --nproc-per-node=4 {end}\n  --nnodes=2 t.py")
    assert read_.launches[0].options.open
    assert len(read_.shell.cuts) == 1


@pytest.mark.parametrize("end", ["", "\\\n# the last option", "\\\n\necho done"])
def test_a_command_that_nothing_follows_is_not_cut_off(end: str) -> None:
    read_ = script(f"srun torchrun --nproc-per-node=4 t.py {end}")
    assert (read_.launches[0].options.open, read_.shell.cuts) == (False, ())


def test_an_unknown_variable_may_contain_further_options() -> None:
    found = launch("srun torchrun $EXTRA --nproc-per-node=4 t.py")
    assert found.options.open
    assert not found.options.lacks("standalone")


@pytest.mark.parametrize(
    ("srun", "shape"),
    [
        ("srun", (2, 1, 32, 4)),
        ("srun -N1 -n1", (1, 1, 32, 4)),
        ("srun --ntasks=4", (2, 2, 32, 4)),
        ("srun -c 8 --gres=gpu:2", (2, 1, 8, 2)),
        ("srun --ntasks-per-node=4", (2, None, 32, 4)),
        ("srun $OPTIONS", (None, None, 32, 4)),
        ("srun --het-group=1", (None, None, 32, 4)),
        ("", (1, 1, 32, 4)),
    ],
)
def test_the_shape_of_a_step(srun: str, shape: tuple[int | None, ...]) -> None:
    read_ = script(f"{srun} python t.py")
    assert read_.step(read_.launches[0])[:4] == shape


@pytest.mark.parametrize(
    ("value", "bounds"),
    [
        ("$((20000 + SLURM_JOB_ID % 12768))", (20000, 32767)),
        ('"$(( RANDOM % 100 ))"', (0, 99)),
        ("$((RANDOM / 2 + 1))", (1, 16384)),
        ("29500", (29500, 29500)),
        ("$((1 + 2 * (3 - 1)))", (5, 5)),
    ],
)
def test_the_range_of_a_number(value: str, bounds: tuple[int, int]) -> None:
    (found,) = script(f"PORT={value}").shell.assignments
    assert found.range == bounds


def test_a_launch_in_a_string_has_its_own_span() -> None:
    text = HEAD + "srun bash -c 'exec torchrun t.py'\n"
    (found,) = read(text).launches
    assert text[slice(*found.span)] == "torchrun"


def test_shell_settings_at_each_command() -> None:
    commands = script("set -euo pipefail\nmodule load a\nset +u\nmodule load b").commands
    assert [sorted(c.settings) for c in commands if c.name == "module"] == [
        ["errexit", "nounset", "pipefail"],
        ["errexit", "pipefail"],
    ]


def test_what_runs_in_the_background_changes_no_settings() -> None:
    commands = script("set -e\nshow() { set +e; sleep 5; }\nshow &\nmodule load a").commands
    assert [sorted(c.settings) for c in commands if c.name in ("sleep", "module")] == [[], ["errexit"]]


HOSTILE = {
    "nested output": "echo " + "$(" * 3000 + "x" + ")" * 3000,
    "nested arithmetic": "A=$((" + "(" * 3000 + "1" + ")" * 3000 + "))",
    "a long sum": "A=$((" + "1+" * 3000 + "1))",
    "nested blocks": "{ " * 3000 + "x; " + "}; " * 3000,
    "a doubling value": "A=x\n" + "A=$A$A\n" * 60,
    "a doubling array": "A=(x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 60,
    "calls of calls": "".join(f"f{i}() {{ {f'f{i + 1}; ' * 10} }}\n" for i in range(12)) + "f0",
    "calls of itself": "f() { f; f; }\nf",
    "strings of strings": 'A=\'bash -c "$A"\'\nexport A\nsrun bash -c "$A"',
    "a long pipe": "x | " * 3000 + "x",
    "a long list": "x && " * 3000 + "x",
}


@pytest.mark.parametrize("body", HOSTILE)
def test_hostile_input_takes_less_than_five_seconds_of_a_cpu(body: str) -> None:
    start = time.process_time()
    lint(HEAD + HOSTILE[body] + "\n")
    assert time.process_time() - start < 5
