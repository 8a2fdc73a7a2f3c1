"""All faults of the published scripts are reported, and nothing else; correct scripts have no findings."""

import pytest

from slurmgen.lint import chosen, fix_all, lint
from slurmgen.sites.profiles import load_site
from tests.lint import corpus
from tests.lint.corpus import Sample


def found(sample: Sample) -> set[str]:
    return {report.rule.code for report in lint(sample.text, sample.site, sample.path)}


@pytest.mark.parametrize("sample", corpus.published(), ids=lambda sample: sample.path.parent.name)
def test_exactly_the_faults_of_a_published_script_are_reported(sample: Sample) -> None:
    assert found(sample) == sample.codes


@pytest.mark.parametrize("sample", corpus.published(), ids=lambda sample: sample.path.parent.name)
def test_a_fixed_published_script_has_no_fixable_finding(sample: Sample) -> None:
    site = load_site(sample.site) if sample.site else None
    text = fix_all(sample.text, site, sample.path)
    left = lint(text, site, sample.path)
    assert not any(report.finding.edits for report in left)
    assert {report.rule.code for report in left} <= sample.codes


def test_fixes_at_one_place_do_not_conflict() -> None:
    sample = next(sample for sample in corpus.published() if sample.path.parent.name == "olivia_one_node")
    lines = fix_all(sample.text, load_site("olivia"), codes=[*chosen(), "SG911"]).splitlines()
    at = next(i for i, line in enumerate(lines) if "apptainer" in line)
    assert lines[at] == "apptainer exec --nv $CONTAINER_PATH torchrun \\"
    assert lines[at - 1].startswith("export ")


def test_every_published_script_is_in_the_table() -> None:
    assert {sample.path for sample in corpus.published()} == set(corpus.HERE.glob("published/*/job.sbatch"))


@pytest.mark.parametrize("sample", corpus.correct(), ids=lambda sample: sample.path.stem)
def test_a_correct_script_has_no_findings(sample: Sample) -> None:
    assert found(sample) == set()


def test_there_are_at_least_sixty_correct_scripts() -> None:
    assert len(corpus.correct()) >= 60


# One change turns a correct script into a faulty one, which shows that the reader understands its style.
FAULTY_CHANGES = {
    "SG201": ("*_torchrun_nodes", "--ntasks-per-node=1", "--ntasks-per-node=4"),
    "SG202": ("*_accelerate", "--gres=gpu:4", "--gres=gpu:2"),
    "SG204": ("*_accelerate", '--num_machines "$SLURM_NNODES"', "--num_machines 3"),
    "SG304": ("*_accelerate", '--machine_rank "$SLURM_NODEID"', ""),
    "SG108": ("*", "#SBATCH --nodes=", "# SBATCH --nodes="),
    "SG306": ("*_accelerate", '"$SLURM_NODEID"', "'$SLURM_NODEID'"),
}


@pytest.mark.parametrize("code", sorted(FAULTY_CHANGES))
def test_the_fault_that_one_change_adds_is_reported(code: str) -> None:
    pattern, right, wrong = FAULTY_CHANGES[code]
    changed = 0
    for sample in corpus.correct():
        text = sample.text.replace(right, wrong)
        if sample.path.match(pattern + ".sbatch") and text != sample.text:
            changed += 1
            assert code in {report.rule.code for report in lint(text)}, sample.path.stem
    assert changed
