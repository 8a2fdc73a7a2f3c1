"""Every rule has a page, a bad script and a near-miss good one; and each says what its rule says."""

import subprocess
from pathlib import Path

import pytest

from slurmgen.lint import all_rules, fixed, lint
from slurmgen.lint.docs import PAGE, SECTIONS, page
from tests.conftest import REPOSITORY
from tests.lint import corpus
from tests.lint.corpus import Sample

CODES = sorted(all_rules())
BAD = [sample for code in CODES for sample in corpus.of_rule(code, "bad")]
GOOD = [sample for code in CODES for sample in corpus.of_rule(code, "good")]
FIRST_REFUSALS = {"SG101", "SG102"}
"No comment can allow what makes the file no batch script."


def name(sample: Sample) -> str:
    return f"{sample.path.parent.name}-{sample.path.stem}"


def codes(sample: Sample, text: str | None = None) -> set[str]:
    return {report.rule.code for report in lint(text or sample.text, sample.site, sample.path)}


@pytest.mark.parametrize("code", CODES)
def test_a_rule_has_a_bad_and_a_good_script_and_a_page(code: str) -> None:
    rule = all_rules()[code]
    assert corpus.of_rule(code, "bad")
    assert corpus.of_rule(code, "good")
    assert rule.severity in ("error", "warning")
    headings = [line.removeprefix("## ") for line in rule.doc.splitlines() if line.startswith("## ")]
    assert headings == list(SECTIONS)
    assert rule.doc.partition("\n")[0].endswith(".")
    assert not rule.summary.endswith(".")


def test_no_scripts_without_a_rule() -> None:
    assert sorted(path.name for path in (corpus.HERE / "rules").iterdir()) == CODES


@pytest.mark.parametrize("sample", BAD, ids=name)
def test_the_fault_is_found(sample: Sample) -> None:
    assert sample.codes <= codes(sample)


@pytest.mark.parametrize("sample", GOOD, ids=name)
def test_the_near_miss_is_not(sample: Sample) -> None:
    assert codes(sample) == set()


def mended(sample: Sample) -> str:
    """The script with every certain change that its rule knows."""
    reports = lint(sample.text, sample.site, sample.path)
    return fixed(sample.text, [report for report in reports if report.rule.code in sample.codes])


@pytest.mark.parametrize("sample", [sample for sample in BAD if mended(sample) != sample.text], ids=name)
def test_a_fix_mends_its_fault_and_makes_no_other(sample: Sample) -> None:
    text = mended(sample)
    assert not sample.codes & codes(sample, text)
    assert codes(sample, text) <= codes(sample)
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "sample", [s for s in BAD if not s.codes & FIRST_REFUSALS and "\\\n" not in s.text], ids=name
)
def test_a_comment_allows_a_finding(sample: Sample) -> None:
    (code,) = sample.codes
    lines = sample.text.splitlines()
    allowed = f"# slurmgen: ignore=SG999,{code}"
    for report in lint(sample.text, sample.site, sample.path):
        if report.rule.code == code and report.start.line > 1:
            lines[report.start.line - 1] += f"  {allowed}"
    assert code not in codes(sample, "\n".join([lines[0], allowed, *lines[1:]]) + "\n")


def test_the_rule_pages_are_current() -> None:
    assert Path(REPOSITORY, PAGE).read_text() == page()
