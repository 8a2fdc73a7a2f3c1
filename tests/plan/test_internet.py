"""What a plan says and refuses where compute nodes do not reach the internet."""

import pytest
from msgspec import structs

from slurmgen import Request, load_site, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import Plan
from slurmgen.sites.model import Container, EngineName, Site


def site_of(internet: str | None, engine: EngineName = "apptainer", image: str | None = None) -> Site:
    container = Container(engine=engine, image=image)
    return structs.replace(load_site("generic"), internet=internet, container=container)


def plan_of(site: Site, **asked: object) -> Plan:
    return resolve(Request(**asked), site)  # type: ignore[arg-type]


REMOTE: list[tuple[EngineName, str]] = [
    ("apptainer", "docker://pytorch/pytorch"),
    ("singularity", "oras://registry/image"),
    ("pyxis", "nvcr.io/nvidia/pytorch:25.06-py3"),
]
LOCAL: list[tuple[EngineName, str]] = [
    ("apptainer", "$HOME/a.sif"),
    ("apptainer", "docker-archive:///work/a.tar"),
    ("pyxis", "/work/image"),
    ("pyxis", "image.sqsh"),
]


@pytest.mark.parametrize(("engine", "image"), REMOTE)
def test_an_image_of_a_registry_is_refused(engine: EngineName, image: str) -> None:
    for site, asked in ((site_of("no", engine), {"container": image}), (site_of("no", engine, image), {})):
        with pytest.raises(RequestError, match="is on the internet") as error:
            plan_of(site, **asked)
        assert "name that file" in error.value.hint


@pytest.mark.parametrize(("engine", "image"), LOCAL)
def test_an_image_in_a_file_is_not_refused(engine: EngineName, image: str) -> None:
    assert plan_of(site_of("no", engine), container=image).setup.call


@pytest.mark.parametrize("internet", [None, "yes", "proxy"])
@pytest.mark.parametrize(("engine", "image"), REMOTE)
def test_elsewhere_any_image_is_used(internet: str | None, engine: EngineName, image: str) -> None:
    assert plan_of(site_of(internet, engine), container=image).setup.call


@pytest.mark.parametrize(("internet", "text"), [("no", "login node"), ("proxy", "http_proxy")])
def test_explain_says_what_compute_nodes_reach(internet: str, text: str) -> None:
    plan = plan_of(site_of(internet))
    assert text in plan.notes["internet"]
    assert plan.why["notes.internet"].source == "profile"


@pytest.mark.parametrize("internet", [None, "yes"])
def test_otherwise_there_is_nothing_to_say(internet: str | None) -> None:
    assert plan_of(site_of(internet)).notes == {}
