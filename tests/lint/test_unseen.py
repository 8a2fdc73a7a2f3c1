"""Forms that scripts of other people have: what the linter reports of each, and what it must not report.

Each script is reduced from a public one, and followed by the codes that it must have; `-` marks those that
it must not have.
"""

from pathlib import Path

import pytest

from slurmgen.lint import lint_text
from tests.support.examples import Example, examples

SCRIPTS = examples(Path(__file__).with_name("foreign_scripts.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_foreign_script_gets_the_findings_that_are_right(script: Example) -> None:
    found = {report.rule.code for report in lint_text(script.text)}
    for code in script.expected.split():
        assert (code.removeprefix("-") in found) != code.startswith("-")
