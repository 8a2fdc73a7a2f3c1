"""Batch scripts inside a script: here-documents that become jobs, and `sbatch --wrap`."""

import pytest

from slurmgen.lint import fix_all, lint_text

JOB = """\
#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:2 --ntasks-per-node=1 --cpus-per-task=8
#SBATCH --time=24:00
srun --cpus-per-task=8 torchrun --standalone --nproc-per-node=4 train.py --out {out}
"""


def found(text: str) -> list[tuple[str, int]]:
    return [(report.rule.code, report.start.line) for report in lint_text(f"#!/bin/bash\n{text}")]


@pytest.mark.parametrize(
    ("before", "end", "out"),
    [
        ("sbatch <<EOF", "EOF", "$OUT"),
        ("sbatch << EOF", "EOF", "\\$SLURM_JOB_ID"),
        ("sbatch --parsable <<'EOF'", "EOF", "$SLURM_JOB_ID"),
        ("cat > job.sh <<EOF", "EOF", "$(date)"),
        ("cat <<EOF > job.sh", "EOF", "${NAME:-a}"),
        ('cat <<"END" | sbatch', "END", "x"),
        ("tee job.sh <<\\EOF", "EOF", "x"),
    ],
)
def test_a_here_document_is_read_as_a_script(before: str, end: str, out: str) -> None:
    assert found(f"{before}\n{JOB.format(out=out)}{end}\n") == [("SG110", 5), ("SG202", 6)]


def test_what_the_outer_shell_expands_is_known_or_unknown() -> None:
    header = "#SBATCH --gres=gpu:$GPUS -c 8 --output=$LOG\n"
    job = f"sbatch <<EOF\n#!/bin/bash\n{header}torchrun --nproc-per-node=4 t.py\nEOF\n"
    assert found(job) == []
    assert found(f"GPUS=2\n{job}") == [("SG202", 6)]


def test_options_on_the_command_line_override_directives() -> None:
    job = JOB.format(out="x").replace("24:00", "24:00:00")
    assert found(f"sbatch --gres=gpu:4 <<EOF\n{job}EOF\n") == []
    assert found(f"sbatch --gres=gpu:1 <<EOF\n{job}EOF\n") == [("SG202", 6)]


def test_the_command_of_wrap_is_read_as_a_script() -> None:
    launch = "torchrun --standalone --nproc-per-node={n} t.py"
    submit = f"sbatch --nodes=1 --gres=gpu:2 -c 8 --time={{time}} --wrap='{launch}'"
    assert found(submit.format(time="24:00:00", n=2)) == []
    assert found(submit.format(time="24:00", n=4)) == [("SG110", 2), ("SG202", 2)]


@pytest.mark.parametrize(
    "text", ["cat <<EOF\n# about #SBATCH\nEOF\n", "python <<'EOF'\nX = '''\n#SBATCH --time=24:00\n'''\nEOF\n"]
)
def test_other_here_documents_are_no_scripts(text: str) -> None:
    assert found(text) == []


def test_only_a_text_without_expansions_is_fixed() -> None:
    job = JOB.format(out="x")
    quoted = f"#!/bin/bash\nsbatch <<'EOF'\n{job}EOF\n"
    assert fix_all(quoted) == quoted.replace("24:00", "24:00:00")
    expanded = f"#!/bin/bash\nsbatch <<EOF\n{JOB.format(out='$OUT')}EOF\n"
    assert fix_all(expanded) == expanded


def test_a_comment_in_the_text_suppresses_a_finding() -> None:
    job = JOB.format(out="x").replace("24:00", "24:00  # slurmgen: ignore=SG110")
    assert found(f"sbatch <<EOF\n{job}EOF\n") == [("SG202", 6)]


def test_a_message_names_the_line_of_the_file() -> None:
    text = "#!/bin/bash\nsbatch <<'EOF'\n#!/bin/bash\n#SBATCH --time=1:00:00\npython t.py\necho\nEOF\n"
    (report,) = lint_text(text)
    assert "the launch on line 5" in report.finding.message
