"""Any script of up to a megabyte is checked in limited time and memory, or reported as too large."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen.lint import Report, chosen, fixed, lint_text
from slurmgen.lint.reader import read
from slurmgen.lint.rules import TOO_LARGE

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4 --time=1:00:00\n"
SIZE = 900_000
SECONDS, MEMORY = 6, 1_000_000_000
"Of CPU time and of address space; three times what is needed, for a busy machine."
ARRAY = "a=(" + " ".join(f"w{i}" for i in range(4096)) + ")\n"


def fill(unit: str) -> str:
    return unit * (SIZE // len(unit)) + "\n"


TOO_MUCH = {
    "strings that run strings": "".join(
        f"export c{i}='" + f'bash -c "$c{i + 1}"; ' * 9 + "'\n" for i in range(45)
    )
    + 'srun bash -c "$c0"\n',
    "a long value many times": f"a={'x' * 4000}\n" + 'echo "$a$a$a$a"\n' * 6000,
    "a long value many times in one word": f"a={'x' * 4000}\n" + 'echo "' + "$a" * 10_000 + '"\n',
    "a long array many times": ARRAY + 'echo "${a[@]}"\n' * 1000,
    "arrays of arrays": ARRAY + 'b=("${a[@]}" "${a[@]}")\n' * 1000,
    "srun of srun": "srun " * 600 + "torchrun x.py\n",
    "calls of calls": "".join(f"f{i}() {{ {f'f{i + 1}; ' * 10} }}\n" for i in range(12)) + "f0\n",
    "commands": "true\n" * (SIZE // 5),
    "launches": "srun torchrun --nnodes=2 --master-port=$P x.py\n" * 15_000,
    "nested lists": fill("a && "),
    "an endless pipe": fill("a | "),
    "unbalanced parentheses": fill(")"),
    "unbalanced quotes": fill('(&"'),
    "unbalanced backquotes": fill("`&>$a"),
    "small strings that are hard to parse": ("srun bash -c '" + "`&>$a" * 100 + "'\n") * 1700,
    "exported variables": "".join(f"export a{i}=b\n" for i in range(50_000)),
    "branches and variables": "".join(f"a{i}=b\nif x; then a{i}=c; fi\n" for i in range(20_000)),
    "loops in loops": "for i in x; do " * 40 + "x; " * 100_000 + "done; " * 40 + "\n",
    "forgotten variables": "".join(f"a{i}=b\n" for i in range(15_000)) + "eval x\n" * 15_000,
    "here-documents": fill("cat <<A\nx\nA\n"),
    "a cluster of options": "srun -" + fill("H"),
    "parentheses of arithmetic or of commands": "a=" + fill("$((("),
    "variables that are glued together": fill("$a/$b/c "),
    "a comment behind a backslash": "f() { a \\\n" + "# b\n" * 100_000 + "-c; }\n" + "f\n" * 1000,
    "programs that are never set": "".join(f"$a{i}\n" for i in range(8_000)),
    "directives": fill("#SBATCH --ntaskz=1\n"),
    "one directive": "#SBATCH " + fill("--ntaskz "),
    "components": fill("#SBATCH hetjob\n#SBATCH --mem=1 --mem-per-cpu=1\n"),
}
HARMLESS = {
    "one word": fill("x"),
    "blank lines": fill("\n"),
    "carriage returns": fill("\r\n"),
    "NUL": fill("\0"),
    "comments": fill("# x y z z z z z z z z z z z z z\n"),
    "a here-document": "cat <<EOF\n" + fill("some text\n") + "EOF\n",
    "backslashes after a quote": '#SBATCH "' + "\\" * 5000 + "\n",
    "numbers that overflow": "a=999999999999999\n" + "a=$((a * a))\n" * 100 + "echo $((a))\n",
    "a port with many digits": f"P=$(shuf -i 1{'0' * 5000}-2)\nsrun torchrun --master-port=$P x.py\n",
    "misspelt marks": fill("#SBTACH -\n"),
    "copies of arrays": "a=(b)\n" + "".join(f"c{i}=($a)\n" for i in range(8_000)),
    "a function in a function": "f() { g() { x; }; }\n",
    "a function that calls itself": "f() { f; f; }\nf\n",
}


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def lint(script: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "slurmgen", "lint", script.name, "--site", "olivia", *options]
    return subprocess.run(
        command, cwd=script.parent, preexec_fn=limit, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("name", [*TOO_MUCH, *HARMLESS])
def test_a_hostile_script_is_checked_within_limits(name: str, tmp_path: Path) -> None:
    script = tmp_path / "x.sbatch"
    script.write_text(HEAD + (TOO_MUCH | HARMLESS)[name])
    result = lint(script)
    assert (result.returncode, result.stderr) == (1, "")
    assert (f" {TOO_LARGE} " in result.stdout) == (name in TOO_MUCH)


UNITS = """
a b=1 $ ${ } $( ) ( (( )) [[ ]] [ ] < << <<< > <( >( | || & && ; ;; ` " ' \\ = += =~ ! - -- * ? # ~ @ { 1 a[
1>&2 &> <& $(( $' ${a ${a:- / : \x01 é if then else fi for in do done while case esac function export declare
srun torchrun bash -c #SBATCH <<A "$a" "${a[@]}" a=( f() \n \n \t
""".split(" ")


@given(st.lists(st.sampled_from([*UNITS, " "]), min_size=1, max_size=5), st.integers(1_000, SIZE))
@settings(max_examples=40, deadline=None)
def test_any_repetition_is_checked_within_limits(
    tmp_path_factory: pytest.TempPathFactory, units: list[str], size: int
) -> None:
    unit = "".join(units)
    script = tmp_path_factory.mktemp("hostile") / "x.sbatch"
    script.write_text(HEAD + unit * (size // len(unit)))
    result = lint(script, "--format", "sarif")
    assert result.returncode in (0, 1)
    assert result.stderr == ""


def reports(body: str, select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> tuple[Report, ...]:
    return lint_text(HEAD + body, codes=chosen(select, ignore))


def test_a_too_large_script_is_reported_whatever_is_selected() -> None:
    body = TOO_MUCH["calls of calls"]
    assert [found.rule.code for found in reports(body, select=("SG3",))] == [TOO_LARGE]
    assert reports(body, select=("SG3",), ignore=(TOO_LARGE,)) == ()


def test_the_header_of_a_script_that_is_too_large_is_checked() -> None:
    codes = [found.rule.code for found in reports("#SBATCH --time=24:00\n" + TOO_MUCH["commands"])]
    assert codes == [TOO_LARGE, "SG110"]


def test_a_long_plain_script_is_read_in_full() -> None:
    script = read(HEAD + "echo one two three\n" * 10_000)
    assert (len(script.commands), script.budget.exhausted) == (10_000, False)


def test_a_script_of_ordinary_length_is_read_without_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    script = read(HEAD + "echo one two three\n" * 350)
    assert (len(script.commands), script.budget.exhausted) == (350, False)


def test_every_line_of_a_long_file_is_fixed() -> None:
    text = HEAD.replace("\n", "\r\n") + "x\r\n" * 100_000
    assert fixed(text, lint_text(text)) == text.replace("\r", "")


def test_a_training_script_that_is_too_costly_is_not_read(tmp_path: Path) -> None:
    for index in range(20):
        (tmp_path / f"t{index}.py").write_text("f();" * 40_000)
    body = "".join(f"srun python t{index}.py\n" for index in range(20))
    found = lint_text(HEAD + body, path=tmp_path / "x.sbatch")
    assert TOO_LARGE in [report.rule.code for report in found]


@pytest.mark.parametrize("constant", ["-" * 50_000 + "1", f"Trainer(devices='{'1' * 5000}')", "'²'"])
def test_an_odd_constant_in_a_training_script_is_unknown(tmp_path: Path, constant: str) -> None:
    (tmp_path / "t.py").write_text(f"x = {constant}\nTrainer(devices={constant}, num_nodes={constant})\n")
    lint_text(HEAD + "srun python t.py\n", path=tmp_path / "x.sbatch")
