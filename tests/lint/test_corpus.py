"""Published scripts show all their faults and no others; correct scripts show none."""

import pytest

from slurmgen.lint import fix_all, lint
from slurmgen.profiles import load_site
from tests.lint import corpus
from tests.lint.corpus import Sample


def found(sample: Sample) -> set[str]:
    return {report.rule.code for report in lint(sample.text, sample.site, sample.path)}


@pytest.mark.parametrize("sample", corpus.published(), ids=lambda sample: sample.path.parent.name)
def test_a_published_script_shows_its_faults_and_no_other(sample: Sample) -> None:
    assert found(sample) == sample.codes


@pytest.mark.parametrize("sample", corpus.published(), ids=lambda sample: sample.path.parent.name)
def test_a_mended_published_script_has_no_certain_change_left(sample: Sample) -> None:
    site = load_site(sample.site) if sample.site else None
    text = fix_all(sample.text, site, sample.path)
    left = lint(text, site, sample.path)
    assert not any(report.finding.edits for report in left)
    assert {report.rule.code for report in left} <= sample.codes


def test_changes_at_one_place_keep_out_of_each_others_way() -> None:
    sample = next(sample for sample in corpus.published() if sample.path.parent.name == "olivia_one_node")
    lines = fix_all(sample.text, load_site("olivia")).splitlines()
    at = next(i for i, line in enumerate(lines) if "apptainer" in line)
    assert (
        lines[at]
        == 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" apptainer exec --nv $CONTAINER_PATH torchrun \\'
    )
    assert lines[at - 1].startswith("export ")


def test_every_published_script_is_in_the_table() -> None:
    assert {sample.path for sample in corpus.published()} == set(corpus.HERE.glob("published/*/job.sbatch"))


@pytest.mark.parametrize("sample", corpus.correct(), ids=lambda sample: sample.path.stem)
def test_a_correct_script_shows_none(sample: Sample) -> None:
    assert found(sample) == set()


def test_there_are_sixty_correct_scripts() -> None:
    assert len(corpus.correct()) >= 60


# What is right in a style turns into a fault by one change: so the reader has understood that style.
CHANGES = {
    "SG201": ("*_torchrun_nodes", "--ntasks-per-node=1", "--ntasks-per-node=4"),
    "SG202": ("*_accelerate", "--gres=gpu:4", "--gres=gpu:2"),
    "SG204": ("*_accelerate", '--num_machines "$SLURM_NNODES"', "--num_machines 3"),
    "SG208": ("*_accelerate", "--multi_gpu", ""),
    "SG304": ("*_accelerate", '--machine_rank "$SLURM_NODEID"', ""),
    "SG108": ("*", "#SBATCH --nodes=", "# SBATCH --nodes="),
    "SG306": ("*_accelerate", '"$SLURM_NODEID"', "'$SLURM_NODEID'"),
}


@pytest.mark.parametrize("code", sorted(CHANGES))
def test_one_change_makes_a_correct_script_wrong(code: str) -> None:
    pattern, right, wrong = CHANGES[code]
    changed = 0
    for sample in corpus.correct():
        text = sample.text.replace(right, wrong)
        if sample.path.match(pattern + ".sbatch") and text != sample.text:
            changed += 1
            assert code in {report.rule.code for report in lint(text)}, sample.path.stem
    assert changed
