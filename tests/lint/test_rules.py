"""Every rule has a page, scripts with its fault, and counterexamples without."""

import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.lint import Report, all_rules, chosen, fixed, lint_text
from slurmgen.lint.rule_pages import PAGE, SECTIONS, page
from slurmgen.sites.profiles import load_site
from tests.conftest import REPOSITORY
from tests.lint import corpus
from tests.lint.corpus import Sample

CODES = sorted(all_rules())
BAD = [sample for code in CODES for sample in corpus.of_rule(code, "bad")]
GOOD = [sample for code in CODES for sample in corpus.of_rule(code, "good")]
NOT_SUPPRESSIBLE = {"SG101", "SG102", "SG518"}
"A comment cannot suppress a fault of the whole file."


def name(sample: Sample) -> str:
    return f"{sample.path.parent.name}-{sample.path.stem}"


def codes(sample: Sample, text: str | None = None) -> set[str]:
    return {report.rule.code for report in reports(sample, text)}


def reports(sample: Sample, text: str | None = None) -> tuple[Report, ...]:
    """The findings of the default rules, and of the rule that the script is about."""
    lists = ("partitions", "gpu.types")
    site = structs.replace(load_site(sample.site), complete=lists) if sample.site else None
    return lint_text(text or sample.text, site, sample.path, {*chosen(), sample.path.parent.name})


@pytest.mark.parametrize("code", CODES)
def test_a_rule_has_a_bad_and_a_good_script_and_a_page(code: str) -> None:
    rule = all_rules()[code]
    assert corpus.of_rule(code, "bad")
    assert corpus.of_rule(code, "good")
    assert rule.severity in ("error", "warning", "note")
    headings = [line.removeprefix("## ") for line in rule.doc.splitlines() if line.startswith("## ")]
    assert headings == list(SECTIONS)
    assert rule.doc.partition("\n")[0].endswith(".")
    assert not rule.summary.endswith(".")


def test_every_folder_of_scripts_belongs_to_a_rule() -> None:
    assert sorted(path.name for path in (corpus.HERE / "rules").iterdir()) == CODES


@pytest.mark.parametrize("sample", BAD, ids=name)
def test_the_fault_is_reported(sample: Sample) -> None:
    assert sample.codes <= codes(sample)


@pytest.mark.parametrize("sample", GOOD, ids=name)
def test_the_counterexample_has_no_finding(sample: Sample) -> None:
    assert codes(sample) == set()


def with_fixes(sample: Sample) -> str:
    """The script with every fix of its rule applied."""
    found = reports(sample)
    return fixed(sample.text, [report for report in found if report.rule.code in sample.codes])


@pytest.mark.parametrize("sample", [sample for sample in BAD if with_fixes(sample) != sample.text], ids=name)
def test_a_fix_removes_its_fault_and_adds_no_other(sample: Sample) -> None:
    text = with_fixes(sample)
    assert not sample.codes & codes(sample, text)
    assert codes(sample, text) <= codes(sample)
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "sample", [s for s in BAD if not s.codes & NOT_SUPPRESSIBLE and "\\\n" not in s.text], ids=name
)
def test_a_comment_suppresses_a_finding(sample: Sample) -> None:
    (code,) = sample.codes
    lines = sample.text.splitlines()
    comment = f"# slurmgen: ignore=SG999,{code}"
    while places := [r.start.line for r in reports(sample, text_of(lines)) if r.rule.code == code]:
        assert not any(comment in lines[line - 1] for line in places)
        for line in set(places):
            lines[line - 1] += f"  {comment}"
        if places[0] == 1:
            lines = [*lines[:1], comment, *lines[1:]]


def text_of(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_docs_rules_md_is_up_to_date() -> None:
    assert Path(REPOSITORY, PAGE).read_text() == page()
