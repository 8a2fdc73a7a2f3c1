"""Faults of the network between eight nodes, each in a network namespace: is the node named, and no other?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.preflight import networks
from tests.preflight.checks import Checked, check

pytestmark = pytest.mark.skipif(
    not networks.can_be_made(), reason="this user cannot make network namespaces and a bridge"
)
COUNT, NODE, PORT = 8, 3, 23457
NAMES = networks.addresses(COUNT)


@pytest.fixture
def on_network() -> Iterator[None]:
    with networks.network(COUNT):
        yield


def checked(folder: Path, *options: str, count: int = COUNT) -> Checked:
    """The result of a check with each node in its namespace, and the job's part in the first one."""
    before = {node: networks.inside(node) for node in range(count)}
    return check(folder, count, names=NAMES[:count], before=before, options=options, port=PORT)


@pytest.mark.usefixtures("on_network")
def test_a_healthy_network_passes(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert (result.status, result.findings) == (0, {}), result.output


@pytest.mark.usefixtures("on_network")
def test_a_port_that_one_node_cannot_reach_is_named(tmp_path: Path) -> None:
    networks.drop(NODE, PORT)
    result = checked(tmp_path)
    text = f"cannot reach port {PORT} of {NAMES[0]}: timed out"
    assert (result.status, result.findings) == (79, {NAMES[NODE]: {"port": text}}), result.output


@pytest.mark.usefixtures("on_network")
def test_a_port_that_no_node_reaches_is_one_of_the_first_node(tmp_path: Path) -> None:
    for node in range(1, COUNT):
        networks.drop(node, PORT)
    result = checked(tmp_path)
    text = f"no other node reaches its port {PORT}: timed out"
    assert (result.status, result.findings) == (79, {NAMES[0]: {"port": text}}), result.output


@pytest.mark.usefixtures("on_network")
def test_a_slow_link_is_named(tmp_path: Path) -> None:
    networks.limit(NODE, "20mbit")
    result = checked(tmp_path)
    assert result.status == 79, result.output
    assert set(result.findings) == {NAMES[NODE]}, result.output
    assert " MB/s, the median is " in result.findings[NAMES[NODE]]["link"]
    assert result.seconds < 60


@pytest.mark.usefixtures("on_network")
def test_the_slow_link_of_the_middle_one_of_three_nodes_is_named(tmp_path: Path) -> None:
    networks.limit(1, "20mbit")
    result = checked(tmp_path, count=3)
    assert set(result.findings) == {NAMES[1]}, result.output


@pytest.mark.usefixtures("on_network")
def test_a_floor_applies_to_all_nodes(tmp_path: Path) -> None:
    result = checked(tmp_path, "--min-bandwidth=1000000")
    assert result.status == 79
    assert set(result.findings) == set(NAMES)
    text = "less than the 1000000.0 MB/s that this site demands"
    assert all(text in findings["link"] for findings in result.findings.values())
