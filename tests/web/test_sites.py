"""The pages of sites: the list, one site, and two side by side."""

import re
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from slurmgen import load_site
from slurmgen.files import config_folder
from slurmgen.sites.profiles import profile_paths
from tests.support.web import opened

BUNDLED = sorted(profile_paths(personal=False))
HOSTILE = "<script>alert(1)</script>\" onload='x'"


@pytest.fixture
def local(user: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a user whose project is empty."""
    monkeypatch.chdir(tmp_path)
    return user


def write_profile(folder: Path, name: str, text: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)


def own_profile(name: str, text: str) -> None:
    config_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    write_profile(config_folder() / "site_profiles", name, text)


def links(html: str) -> list[str]:
    return [unescape(address) for address in re.findall(r'href="([^"]*)"', html)]


def test_the_list_has_every_bundled_site(public: TestClient) -> None:
    found = links(public.get("/sites").text)
    assert [name for name in BUNDLED if f"/sites/{name}" not in found] == []


@pytest.mark.parametrize("name", BUNDLED)
def test_a_site_has_every_source_and_six_scripts_or_refusals(public: TestClient, name: str) -> None:
    reply = public.get(f"/sites/{name}")
    assert reply.status_code == 200
    sources = load_site(name, personal=False).sources
    found = links(reply.text)
    assert [source.url for source in sources.values() if source.url and source.url not in found] == []
    assert [key for key in sources if f'id="source-{key}"' not in reply.text] == []
    assert reply.text.count('class="shape') == 6


def test_a_fact_links_to_its_source_and_names_an_inferred_one(public: TestClient) -> None:
    rows = re.findall(r"<tr>.*?</tr>", public.get("/sites/lumi-g").text, re.DOTALL)
    (host,) = [row for row in rows if "<code>lumi.csc.fi</code>" in row]
    assert links(host) == ["https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/partitions/"]
    (architecture,) = [row for row in rows if "architecture</th>" in row]
    assert links(architecture) == ["#source-reading"]
    assert "(inferred)" in architecture


def test_a_link_to_the_outside_passes_nothing_on(public: TestClient) -> None:
    outside = re.findall(r'<a href="http[^>]*>', public.get("/sites/lumi-g").text)
    assert outside
    assert [link for link in outside if 'rel="noopener noreferrer"' not in link] == []


def test_a_script_links_to_the_generator_with_its_fields(public: TestClient) -> None:
    assert "/#site=lumi-g&framework=ddp&gpus=16" in links(public.get("/sites/lumi-g").text)


def test_an_unknown_site_is_not_found_and_a_similar_one_is_proposed(public: TestClient) -> None:
    for address in ["/sites/lumi", "/sites/compare?a=daic&b=lumi"]:
        reply = public.get(address)
        assert reply.status_code == 404
        assert "/sites/lumi-g" in links(reply.text)


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "daic.toml", "x" * 5000])
def test_a_name_from_the_address_is_never_a_path(public: TestClient, name: str) -> None:
    assert public.get(f"/sites/{name}").status_code == 404
    assert public.get(f"/sites/{name}/profile-0.toml").status_code == 404


@pytest.mark.parametrize("layer", ["1", "00", "-1", "x", "9" * 5000])
def test_a_layer_that_a_profile_does_not_have_is_not_found(public: TestClient, layer: str) -> None:
    assert public.get(f"/sites/daic/profile-{layer}.toml").status_code == 404


def test_the_profile_is_shown_as_it_is_written(public: TestClient) -> None:
    reply = public.get("/sites/daic/profile-0.toml")
    assert reply.text == profile_paths(personal=False)["daic"].read_text()
    assert reply.headers["content-type"].startswith("text/plain")


def test_a_public_server_shows_only_bundled_profiles(public: TestClient) -> None:
    own_profile("mine", 'title = "Mine"\n')
    own_profile("daic", 'extends = "daic"\ntitle = "Secret"\n')
    assert "mine" not in links(public.get("/sites").text)
    assert public.get("/sites/mine").status_code == 404
    assert "Secret" not in public.get("/sites/daic").text
    for address in ["/generator", "/lint/findings"]:
        reply = public.post(address, data={"site": "mine", "script": "#!/bin/bash\n"})
        assert "there is no site" in reply.text
        assert str(config_folder()) not in reply.text


def test_own_profiles_and_those_of_the_project_are_marked(local: TestClient, tmp_path: Path) -> None:
    own_profile("mine", 'title = "Mine"\nextends = "daic"\n')
    write_profile(tmp_path / "site_profiles", "ours", 'title = "Ours"\n')
    rows = re.findall(r"<tr>.*?</tr>", local.get("/sites").text, re.DOTALL)
    marks = {name: re.findall(r'class="badge"[^>]*>(\w+)<', row) for row in rows for name in links(row)}
    assert (marks["/sites/mine"], marks["/sites/ours"], marks["/sites/daic"]) == (["yours"], ["project"], [])
    page = local.get("/sites/mine").text
    assert "which extends" in page
    assert local.get("/sites/mine/profile-1.toml").text == profile_paths(personal=False)["daic"].read_text()


def test_a_profile_that_is_not_valid_is_listed_with_its_error(local: TestClient) -> None:
    own_profile("broken", 'titel = "x"\n')
    assert "titel" in local.get("/sites").text
    assert local.get("/sites/broken").status_code == 422


def test_hostile_text_of_a_profile_is_escaped(local: TestClient) -> None:
    quoted = HOSTILE.replace('"', '\\"')
    own_profile(
        "evil",
        f'''title = "{quoted}"
notes."{quoted}" = "{quoted}"
[account]
hint = "`{quoted}`"
[gpu.types.a100]
label = "{quoted}"
[refusals]
"{quoted}" = "{quoted}"
[sources.guide]
mark = "documentation"
title = "{quoted}"
url = "https://example.com/\\"><script>"
''',
    )
    for address in ["/sites", "/sites/evil", "/sites/compare?a=evil&b=daic"]:
        reply = local.get(address)
        assert reply.status_code == 200
        assert "<script>alert" not in reply.text
        assert re.findall(r"<[^>]*\sonload=", re.sub(r'"[^"]*"', "", reply.text)) == []
    own_profile("linked", '[sources.a]\nmark = "users"\ntitle = "x"\nurl = "javascript:alert(1)"\n')
    assert local.get("/sites/linked").status_code == 422


def test_two_sites_are_compared_by_fact(public: TestClient) -> None:
    page = public.get("/sites/compare", params={"a": "lumi-g", "b": "frontier"}).text
    rows = {row[1]: row[0] for row in re.findall(r'<tr class="(\w+)">\s*<th scope="row">(.*?)</th>', page)}
    assert rows["GPUs of a node"] == "same"
    assert rows["longest time"] == "different"
    assert public.get("/sites/compare", params={"a": "daic"}).status_code == 200


def test_the_list_is_searched_and_sorted(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/sites") as page:
        rows = page.locator("#sites tbody tr:visible")
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.get_by_role("searchbox").fill("AMD csc")
        expect(rows).to_have_count(1)
        expect(page.get_by_role("status")).to_have_text(f"1 of {len(BUNDLED)} sites")
        page.get_by_role("searchbox").fill("no such site")
        expect(page.get_by_text("No site matches")).to_be_visible()
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Longest time").click()
        page.get_by_role("button", name="Longest time").press("Enter")
        expect(rows.first.get_by_role("link")).to_have_text("saga")
        expect(rows.last.locator("td").nth(3)).to_have_text("")
        expect(page.get_by_role("columnheader", name="Longest time")).to_have_attribute(
            "aria-sort", "descending"
        )


def test_two_sites_are_chosen_and_only_differences_shown(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/sites/lumi-g") as page:
        page.get_by_role("link", name="Compare").click()
        page.wait_for_url("**/sites/compare**")  # loaded: before that, its script is not there
        page.get_by_label("Second site").select_option("frontier")
        same = page.get_by_role("row", name=re.compile("^GPUs of a node"))
        expect(same).to_be_visible()
        page.get_by_label("Only differences").check()
        expect(same).to_be_hidden()
        expect(page.get_by_role("row", name=re.compile("^longest time"))).to_be_visible()


def test_a_script_of_a_site_opens_in_the_generator(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/sites/daic") as page:
        page.get_by_text("ddp on two nodes").click()
        page.get_by_role("link", name="Change it in the generator").click()
        expect(page.get_by_label("GPUs in total")).to_have_value("6")
        expect(page.locator("#site")).to_have_value("daic")
