"""The linter knows every launcher: its scripts have no finding on any site."""

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.lint import lint_text
from slurmgen.sites.nodes import shape_request
from slurmgen.sites.profiles import profile_paths

SITES = sorted(profile_paths(personal=False))
PROGRAM = Request(script="train.py")


@pytest.mark.parametrize("framework", LAUNCHERS)
def test_the_linter_finds_nothing_in_its_script_for_any_site(framework: str) -> None:
    size = "1gpu" if LAUNCHERS[framework].max_nodes == 1 else "2nodes"
    found = {}
    for name in SITES:
        site = load_site(name, personal=False)
        try:
            plan = resolve(shape_request(site, framework, size, PROGRAM), site)
        except RequestError as error:
            found[name] = error.fact if "does not work in" not in error.fact else ""
        else:
            found[name] = "\n".join(map(str, lint_text(render(plan), site)))
    assert {name: text for name, text in found.items() if text} == {}
