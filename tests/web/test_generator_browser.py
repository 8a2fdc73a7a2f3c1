"""The generator in Chromium: what happens while a user types."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.web import DESKTOP, PHONE, faults_in_both_themes, opened

OLIVIA = "#site=olivia&account=nn1234k"


@pytest.fixture
def olivia(browser: Browser, origin: str) -> Iterator[Page]:
    """The generator with a request for that site."""
    with opened(browser, f"{origin}/{OLIVIA}") as page:
        yield page


def _lines(page: Page, text: str) -> None:
    """Wait until a script with a line is shown; the one before is hidden until then."""
    expect(page.locator("#lines code").get_by_text(text, exact=True)).to_be_visible()


def stop_clock(page: Page) -> None:
    """Let no timer of the page run, however long the test takes."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


def test_the_script_follows_what_is_typed(olivia: Page) -> None:
    olivia.get_by_label("GPUs in total").fill("8")
    _lines(olivia, "#SBATCH --nodes=2")
    olivia.get_by_label("Framework").select_option("srun")
    _lines(olivia, "#SBATCH --ntasks-per-node=4")
    expect(olivia.locator("#as-command")).to_contain_text("--framework srun --gpus 8")
    expect(olivia.locator("#as-toml")).to_contain_text('site = "olivia"')


def test_the_site_decides_choices_and_hints(browser: Browser, origin: str) -> None:
    with opened(browser, origin) as page:
        expect(page.locator("#hint-gpus")).to_have_text("")
        page.get_by_label("Site", exact=True).select_option("olivia")
        expect(page.locator("#hint-gpus")).to_have_text("Up to 4 per node, at most 32 per job.")
        expect(page.locator("#hint-partition")).to_have_text("Default: accel; others: small, large.")
        expect(page.get_by_role("link", name="Facts and sources")).to_have_attribute("href", "/sites/olivia")
        assert page.locator("#choices-partition option").evaluate_all("all => all.map(one => one.value)") == [
            "accel",
            "small",
            "large",
        ]


def test_a_refusal_is_announced_once_the_user_pauses(browser: Browser, origin: str) -> None:
    with opened(browser, "about:blank") as page:
        stop_clock(page)
        page.goto(f"{origin}/{OLIVIA}")
        announced = page.get_by_role("status")
        for text in ("1", "12:", "12:x"):
            page.get_by_label("Time limit").fill(text)
        expect(page.locator(".problem")).to_contain_text("12:x")
        expect(announced).to_be_empty()
        page.clock.run_for(1000)
        expect(announced).to_contain_text("'12:x' is not a Slurm time")
        expect(page.locator("#request [aria-live], .result [aria-live]")).to_have_count(0)


def test_a_refusal_is_at_its_field_and_its_button_corrects_it(olivia: Page) -> None:
    _lines(olivia, "#SBATCH --nodes=1")
    gpus = olivia.get_by_label("GPUs in total")
    gpus.fill("40")
    expect(gpus).to_have_attribute("aria-invalid", "true")
    expect(gpus).to_have_accessible_description(re.compile("40 GPUs exceed the limit"))
    expect(olivia.locator("#answer")).to_have_class("stale")
    _lines(olivia, "#SBATCH --nodes=1")
    olivia.locator("#problem-gpus").get_by_role("button", name="32").click()
    _lines(olivia, "#SBATCH --nodes=8")
    expect(gpus).to_have_value("32")
    expect(gpus).not_to_have_attribute("aria-invalid", "true")
    expect(olivia.locator("#answer")).not_to_have_class("stale")


def test_a_refusal_of_a_narrow_field_has_the_full_width(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}&gpus=5&nodes=2", PHONE) as page:
        problem = page.locator("#problem-gpus .problem")
        expect(problem).to_have_text(re.compile("or for Nodes 5"))
        boxes = [one.bounding_box() for one in (page.locator("#gpus"), page.locator("#nodes"), problem)]
        gpus, nodes, text = (box or {} for box in boxes)
        assert text["width"] > gpus["width"] + nodes["width"]
        assert text["y"] > max(one["y"] + one["height"] for one in (gpus, nodes))


def test_of_a_script_and_a_command_either_can_be_cleared(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}&framework=python&script=a.py&command=./b") as page:
        problem = page.locator("#problem-script")
        expect(problem.get_by_role("button")).to_have_text(["Clear Script", "Clear Command"])
        problem.get_by_role("button", name="Clear Script").click()
        expect(page.locator("#as-command")).to_contain_text("--command ./b")


def test_a_refused_field_of_a_closed_group_is_shown(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}&mem=9999T") as page:
        expect(page.locator("#problem-mem")).to_be_visible()
        expect(page.locator("#answer")).to_be_hidden()


def test_a_value_that_another_site_does_not_know_can_be_cleared(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}&partition=accel") as page:
        _lines(page, "#SBATCH --partition=accel")
        page.get_by_label("Site", exact=True).select_option("lumi-g")
        page.get_by_role("button", name="Clear Partition").click()
        _lines(page, "#SBATCH --partition=small-g")
        expect(page.locator("#hint-partition")).to_contain_text("Default: standard-g or small-g")


def test_a_variable_becomes_a_secret_without_its_value(browser: Browser, origin: str) -> None:
    with opened(browser, origin) as page:
        page.get_by_text("Environment variables").click()
        page.get_by_label("Variables", exact=True).fill("A=1\nHF_TOKEN=abc")
        page.get_by_role("button", name="Secret variables: HF_TOKEN").click()
        _lines(page, "export A=1")
        page.wait_for_url("**secrets=HF_TOKEN**")
        assert "abc" not in page.url
        expect(page.get_by_label("Secret variables")).to_have_value("HF_TOKEN")


def test_a_possible_secret_is_not_in_the_address_while_another_field_is_refused(
    browser: Browser, origin: str
) -> None:
    with opened(browser, "about:blank") as page:
        stop_clock(page)
        page.goto(f"{origin}/{OLIVIA}")
        page.get_by_text("Environment variables").click()
        page.get_by_label("Variables", exact=True).fill("HF_TOKEN=abc")
        expect(page.locator("#problem-env")).not_to_be_empty()
        page.get_by_label("GPUs in total").fill("x")
        expect(page.locator("#problem-gpus")).not_to_be_empty()
        page.clock.run_for(1000)
        assert page.url.endswith(OLIVIA)


def test_the_linter_opens_the_script_with_its_site(olivia: Page) -> None:
    _lines(olivia, "#SBATCH --account=nn1234k")
    olivia.get_by_role("button", name="Lint this script").click()
    expect(olivia.get_by_label("Site")).to_have_value("olivia")
    expect(olivia.locator(".cm-content")).to_contain_text("#SBATCH --account=nn1234k")
    expect(olivia.locator("#summary")).to_have_text("No findings")


def test_an_address_brings_the_same_job(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}") as page:
        page.get_by_text("Environment variables").click()
        page.get_by_label("Variables", exact=True).fill("A=x&y=z #+%\nB=ü")
        page.get_by_label("Arguments").fill("--name 'a b'")
        page.get_by_text("Longer than one job").click()
        page.get_by_label("Requeue if unfinished").select_option("yes")
        _lines(page, "#SBATCH --requeue")
        page.wait_for_url("**requeue=yes**")
        script, address = page.locator("#lines").text_content(), page.url
    with opened(browser, address) as page:
        _lines(page, "#SBATCH --requeue")
        assert page.locator("#lines").text_content() == script
        expect(page.get_by_label("Variables", exact=True)).to_have_value("A=x&y=z #+%\nB=ü")


@pytest.mark.parametrize(
    ("address", "fact"),
    [
        ("#site=nowhere", "there is no site 'nowhere'"),
        ("#gpus=%3Cscript%3Ealert(1)%3C/script%3E", "'<script>alert(1)</script>' is not a valid integer"),
        ("#colour=red", "a form has no field 'colour'"),
        ("#framework=dpp", "unknown framework 'dpp'"),
        ("#%E0%A4%A=%00&&&=", "a form has no field"),
        ("#innerHTML=x&elements=y&action=z", "a form has no field 'innerHTML'"),
    ],
)
def test_a_hostile_address_is_refused(browser: Browser, origin: str, address: str, fact: str) -> None:
    with opened(browser, f"{origin}/{address}") as page:
        expect(page.locator(".problem, #refusal .notice").get_by_text(fact).first).to_be_visible()


def test_an_older_answer_never_replaces_a_newer_one(olivia: Page) -> None:
    held: list[Route] = []
    _lines(olivia, "#SBATCH --nodes=1")
    olivia.route("**/generator", lambda route: route.continue_() if held else held.append(route))
    with olivia.expect_request("**/generator"):
        olivia.get_by_label("GPUs in total").fill("8")
    for gpus in ("12", "20", "16"):
        olivia.get_by_label("GPUs in total").fill(gpus)
    held[0].continue_()
    _lines(olivia, "#SBATCH --nodes=4")


def test_the_page_says_when_the_server_does_not_answer(browser: Browser, origin: str) -> None:
    with opened(browser, origin, may_fail=True) as page:
        page.route("**/generator", lambda route: route.abort())
        page.get_by_label("GPUs in total").fill("2")
        expect(page.locator("#refusal")).to_have_text(
            "The server does not answer. Is it still running? The script below shows the previous request."
        )
        page.unroute("**/generator")
        page.get_by_label("GPUs in total").fill("4")
        _lines(page, "#SBATCH --gres=gpu:4")
        expect(page.locator("#refusal")).to_be_empty()


def test_copy_and_download_give_the_script(browser: Browser, origin: str, tmp_path: Path) -> None:
    with opened(browser, "about:blank") as page:
        stop_clock(page)
        page.goto(f"{origin}/{OLIVIA}")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        _lines(page, "#SBATCH --nodes=1")
        page.get_by_role("button", name="Copy script").click()
        expect(page.get_by_role("status")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        with page.expect_download() as started:
            page.get_by_role("button", name="Download").click()
        started.value.save_as(tmp_path / "script")
        assert started.value.suggested_filename == "train_ddp.olivia.sbatch"
        assert (tmp_path / "script").read_text() == copied
        assert copied.startswith("#!/bin/bash\n# train_ddp on olivia")
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator("[data-copy=link]")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_a_button_that_is_pressed_twice_gets_its_label_back(browser: Browser, origin: str) -> None:
    with opened(browser, "about:blank") as page:
        stop_clock(page)
        page.goto(f"{origin}/{OLIVIA}")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        button = page.locator("[data-copy=script]")
        for _ in range(2):
            page.evaluate("document.getElementById('said').textContent = ''")
            button.click()
            expect(page.get_by_role("status")).to_have_text("Copied")
        page.clock.run_for(2000)
        expect(button).to_have_text("Copy script")


def test_the_keyboard_reaches_every_line_with_its_reason(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/{OLIVIA}", PHONE) as page:
        _lines(page, "#SBATCH --nodes=1")
        first = page.locator("#lines li[tabindex='0']")
        first.focus()
        expect(first.locator(".why")).to_be_visible()
        page.keyboard.press("ArrowDown")
        second = page.locator("#lines li:focus")
        expect(second).to_contain_text("--account=nn1234k")
        expect(second.locator(".why")).to_have_text("as requested")
        page.keyboard.press("End")
        expect(page.locator("#lines li:focus .why")).to_have_text("the bundled script, because none is named")


def test_a_reason_links_to_its_source(olivia: Page) -> None:
    line = olivia.locator("#lines li").filter(has_text="--mem=").first
    expect(line.get_by_role("link", name="[guide]")).to_have_attribute(
        "href", "https://documentation.sigma2.no"
    )


@pytest.mark.parametrize("more", ["&gpus=8", "&gpus=40"], ids=["valid", "refused"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_is_accessible_at_any_width(
    browser: Browser, origin: str, size: tuple[int, int], more: str
) -> None:
    with opened(browser, f"{origin}/{OLIVIA}&requeue=yes{more}", size) as page:
        expect(page.locator("#problem-gpus .problem" if more == "&gpus=40" else "#lines")).to_be_visible()
        assert faults_in_both_themes(page) == []
