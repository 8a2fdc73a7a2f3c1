"""What a plan says where compute nodes do not reach the internet."""

import pytest

from slurmgen.plan import Plan
from slurmgen.plan.explain import explain
from slurmgen.plan.placement import notes
from tests.support import plans


def plan_of(internet: str | None) -> Plan:
    return plans.plan_of(plans.site_with(internet=internet))


@pytest.mark.parametrize(("internet", "text"), [("no", "login node"), ("proxy", "http_proxy")])
def test_explain_says_what_compute_nodes_reach(internet: str, text: str) -> None:
    plan = plan_of(internet)
    assert text in notes(plan)["internet"]
    assert explain(plan)["notes.internet"].source == "profile"


@pytest.mark.parametrize("internet", [None, "yes"])
def test_otherwise_there_is_nothing_to_say(internet: str | None) -> None:
    assert notes(plan_of(internet)) == {}
