"""Excluded nodes in a plan, and the options of a job that leaves bad nodes."""

import re

import pytest

from slurmgen import render
from slurmgen.errors import RequestError
from slurmgen.plan.explain import explain
from slurmgen.sites.model import Site
from tests.support.plans import plan_of


def test_excluded_nodes_are_one_directive_without_duplicates() -> None:
    plan = plan_of(exclude=("n1", "n2=slow", "n1"), sbatch={"exclude": "old"})
    assert dict(plan.directives)["exclude"] == "old,n1,n2"
    assert explain(plan)["directives.exclude"].text == "the nodes of --exclude and of --sbatch exclude"


def test_only_a_node_with_a_reason_has_a_comment() -> None:
    comments = re.findall(r"^# Excludes .*", render(plan_of(exclude=("n1", "gpu[2-3]=slow"))), re.MULTILINE)
    assert comments == ["# Excludes gpu[2-3]: slow"]


@pytest.mark.parametrize("node", ["", "=why", "-n1", "n1,n2", "n 1", "n1$(id)", "n1\nx", "n[1"])
def test_what_is_not_the_name_of_a_node_is_refused(node: str) -> None:
    with pytest.raises(RequestError):
        plan_of(exclude=(node,))


@pytest.mark.parametrize("why", ["a\nb", "a\x1b[2J", "\u202e"])
def test_a_reason_with_control_characters_is_refused(why: str) -> None:
    with pytest.raises(RequestError, match="control character"):
        plan_of(exclude=(f"n1={why}",))


def test_a_job_that_leaves_bad_nodes_may_be_requeued_and_appends_to_its_log() -> None:
    directives = dict(plan_of(preflight=True, on_bad_node="retry").directives)
    assert (directives["requeue"], directives["open-mode"]) == ("", "append")


def test_the_reason_for_requeue_names_bad_nodes() -> None:
    plan = plan_of(preflight=True, on_bad_node="retry")
    assert "only a bad node requeues the job" in explain(plan)["requeue"].text


def test_a_job_that_stops_at_a_bad_node_has_no_further_option() -> None:
    assert plan_of(on_bad_node="stop").directives == plan_of().directives


def test_a_job_without_requeue_cannot_leave_bad_nodes() -> None:
    with pytest.raises(RequestError, match="exclude each other"):
        plan_of(preflight=True, on_bad_node="retry", sbatch={"no-requeue": True})


def test_a_site_that_refuses_requeue_refuses_to_leave_bad_nodes() -> None:
    site = Site(name="strict", refused_options={"requeue": "JobRequeue is 0"})
    with pytest.raises(RequestError, match=r"JobRequeue is 0\. Leave --on-bad-node retry out"):
        plan_of(site, preflight=True, on_bad_node="retry")


def test_leaving_bad_nodes_needs_a_preflight() -> None:
    with pytest.raises(RequestError, match="no effect without --preflight"):
        plan_of(on_bad_node="retry")
