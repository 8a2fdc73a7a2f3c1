"""The linter in Chromium, on desktop and phone: findings in the editor, fixes as a diff, and undo."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from slurmgen.lint import fix, lint_text
from tests.support.web import DESKTOP, PHONE, faults_in_both_themes, opened

EXAMPLE = Path("slurmgen/web/static/linter_example.sbatch").read_text()
REFUSED_ONCE = """
    const answered = fetch;
    window.fetch = () => {
        window.fetch = answered;
        const headers = { "content-type": "text/plain" };
        return Promise.resolve(new Response("Too complex.", { status: 422, headers }));
    };
"""
"A reply with an error would also be an error in the console."
FIRST_REPLY_HELD = """
    const answered = fetch;
    window.fetch = async (address, { signal, ...options }) => {
        window.fetch = answered;
        const answer = await (await answered(address, options)).json();
        await new Promise((release) => { window.release = release; });
        return { ok: true, json: async () => answer };
    };
"""
"The page cannot end this request, as if its end came too late."
FAULTY = "#!/bin/bash\n#SBATCH --time=24:00\n"


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def linter(request: pytest.FixtureRequest, browser: Browser, origin: str) -> Iterator[Page]:
    with opened(browser, f"{origin}/lint", request.param) as page:
        yield page


@pytest.fixture
def desktop(browser: Browser, origin: str) -> Iterator[Page]:
    with opened(browser, f"{origin}/lint") as page:
        yield page


def write(page: Page, text: str) -> None:
    page.get_by_label("Batch script").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(text)


def expect_script(page: Page, text: str) -> None:
    """The page keeps the editor's text for its tab, to the byte."""
    page.wait_for_function("text => sessionStorage.getItem('lint-script') === text", arg=text)


def try_example(page: Page) -> None:
    page.get_by_role("button", name="Try an example").click()
    expect(page.get_by_role("listitem")).to_have_count(len(lint_text(EXAMPLE)))


def test_findings_are_in_the_editor_and_in_the_list(linter: Page) -> None:
    try_example(linter)
    expect(linter.get_by_role("status")).to_have_text("4 errors, 6 warnings")
    assert linter.locator(".cm-lintRange-error").count() >= 4
    assert linter.locator(".cm-lint-marker-warning").count() >= 3
    linter.locator(".cm-lintRange", has_text="24:00").hover()
    tooltip = linter.locator(".cm-tooltip")
    expect(tooltip).to_contain_text("24:00 is 24 minutes, not hours")
    expect(tooltip.get_by_role("link", name="SG110 time-form")).to_have_attribute("href", "/rules/SG110")
    expect(tooltip.get_by_role("button", name="Fix, changes what runs")).to_be_visible()
    assert linter.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_finding_leads_to_its_place(desktop: Page) -> None:
    try_example(desktop)
    desktop.get_by_role("button", name="24:00 is 24 minutes").press("Enter")
    expect(desktop.locator(".cm-activeLine")).to_have_text("#SBATCH --time=24:00")
    desktop.keyboard.press("F8")
    expect(desktop.locator(".cm-activeLine")).to_have_text("#SBATCH --output=train.log")


def test_a_fix_is_shown_made_and_undone(linter: Page) -> None:
    try_example(linter)
    item = linter.get_by_role("listitem").filter(has_text="SG110")
    item.get_by_role("button", name="Fix, changes what runs").click()
    dialog = linter.get_by_role("dialog")
    expect(dialog.locator(".cm-deletedChunk")).to_contain_text("--time=24:00")
    expect(dialog.locator(".cm-changedLine")).to_have_text("#SBATCH --time=24:00:00")
    dialog.get_by_role("button", name="Apply").click()
    expect_script(linter, EXAMPLE.replace("24:00", "24:00:00"))
    expect(linter.get_by_role("listitem").filter(has_text="SG110")).to_have_count(0)
    linter.keyboard.press("Control+Z")
    expect_script(linter, EXAMPLE)
    expect(linter.get_by_role("listitem").filter(has_text="SG110")).to_have_count(1)


def test_a_rejected_fix_changes_nothing(desktop: Page) -> None:
    try_example(desktop)
    desktop.get_by_role("button", name="Fix all safe (1)").click()
    desktop.get_by_role("button", name="Cancel").click()
    desktop.get_by_role("button", name="Fix all safe (1)").click()
    expect(desktop.get_by_role("dialog")).to_be_visible()
    desktop.keyboard.press("Escape")
    expect(desktop.get_by_role("dialog")).to_be_hidden()
    expect_script(desktop, EXAMPLE)


@pytest.mark.parametrize(("name", "unsafe"), [("Fix all safe (1)", False), ("Fix all (4)", True)])
def test_all_fixes_are_made_as_one_step(desktop: Page, name: str, unsafe: bool) -> None:
    try_example(desktop)
    desktop.get_by_role("button", name=name).click()
    desktop.get_by_role("button", name="Apply").click()
    expect_script(desktop, fix(EXAMPLE, unsafe=unsafe).text)
    desktop.keyboard.press("Control+Z")
    expect_script(desktop, EXAMPLE)


def test_one_of_all_fixes_is_left_out(desktop: Page) -> None:
    try_example(desktop)
    desktop.get_by_role("button", name="Fix all (4)").click()
    desktop.get_by_role("button", name="Leave out").first.click()
    desktop.get_by_role("button", name="Apply").click()
    expect_script(desktop, fix(EXAMPLE, unsafe=True).text.replace("24:00:00", "24:00"))


def drop(page: Page, name: str, content: bytes, onto: str = ".cm-content") -> None:
    make = """([name, content]) => {
        const data = new DataTransfer();
        const bytes = Uint8Array.from(content, (character) => character.charCodeAt(0));
        data.items.add(new File([bytes], name));
        return data;
    }"""
    transfer = page.evaluate_handle(make, [name, content.decode("latin-1")])
    page.dispatch_event(onto, "drop", {"dataTransfer": transfer})


def test_a_file_from_windows_is_dropped_and_repaired(linter: Page) -> None:
    text = "#!/bin/bash\r\n# 🐌 ä\r\n#SBATCH --time=1:00:00\r\nsrun python train.py\r\n"
    drop(linter, "job.sbatch", text.encode())
    expect_script(linter, text)
    expect(linter.get_by_role("listitem")).to_contain_text("SG102")
    expect(linter.get_by_label("Control character carriage return")).to_have_count(4)
    linter.get_by_role("button", name="Fix: ").click()
    linter.get_by_role("button", name="Apply").click()
    expect_script(linter, text.replace("\r", ""))
    expect(linter.get_by_role("status")).to_have_text("No findings")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf#!/bin/bash\n", b"\xff\xfe\0x\n", b"x" * 900_000])
def test_any_file_can_be_dropped(desktop: Page, content: bytes) -> None:
    drop(desktop, "job", content)
    expect(desktop.get_by_role("listitem").filter(has_text="SG101")).to_have_count(1)


def test_a_file_that_is_dropped_beside_the_editor_is_opened(desktop: Page) -> None:
    drop(desktop, "job.sbatch", FAULTY.encode(), onto="#findings-title")
    expect_script(desktop, FAULTY)


def test_a_chosen_file_is_opened_and_saved(desktop: Page, tmp_path: Path) -> None:
    path = tmp_path / "train.sbatch"
    path.write_text(FAULTY)
    desktop.get_by_label("Open a file").set_input_files(path)
    expect_script(desktop, FAULTY)
    with desktop.expect_download() as saved:
        desktop.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "train.sbatch"
    assert saved.value.path().read_text() == FAULTY


def test_a_hostile_script_stays_text(desktop: Page) -> None:
    write(desktop, "#!/bin/bash\n#SBATCH --output='<img src=x onerror=alert(1)>\u202e'\n")
    expect(desktop.get_by_role("listitem").first).to_contain_text("<img")
    assert desktop.locator("img[src=x]").count() == 0


def test_the_rules_of_a_site_are_checked_when_it_is_chosen(desktop: Page) -> None:
    write(desktop, "#!/bin/bash\n#SBATCH --partition=small --gpus=1 --time=1:00:00 --account=a\ntrue\n")
    expect(desktop.get_by_role("status")).to_have_text("No findings")
    desktop.get_by_label("Site").select_option("olivia")
    expect(desktop.get_by_role("listitem").filter(has_text="SG901")).to_have_count(1)


def test_an_older_answer_does_not_replace_a_newer_one(desktop: Page) -> None:
    desktop.add_init_script(FIRST_REPLY_HELD)
    desktop.reload()
    write(desktop, FAULTY)
    desktop.wait_for_function("() => window.release")
    write(desktop, "#!/bin/bash\nsrun python train.py # new\n")
    expect(desktop.get_by_role("status")).to_have_text("No findings")
    # Everything that follows a reply has run when the next task does.
    desktop.evaluate("() => { release(); return new Promise((done) => setTimeout(done)); }")
    assert desktop.get_by_role("status").text_content() == "No findings"


def test_a_refusal_is_shown_until_the_server_answers_again(desktop: Page) -> None:
    desktop.add_init_script(REFUSED_ONCE)
    desktop.reload()
    write(desktop, FAULTY)
    expect(desktop.get_by_role("alert")).to_have_text("Too complex.")
    expect(desktop.get_by_role("status")).to_have_text("Not checked")
    desktop.keyboard.insert_text("#")
    expect(desktop.get_by_role("alert")).to_be_hidden()
    expect(desktop.get_by_role("listitem")).to_have_count(1)


def test_the_script_is_still_there_after_reading_about_a_rule(linter: Page) -> None:
    try_example(linter)
    linter.get_by_role("link", name="SG110 time-form").click()
    expect(linter.get_by_role("heading", level=1)).to_contain_text("SG110 time-form")
    linter.get_by_role("link", name="Linter").last.click()
    expect(linter.get_by_role("listitem").filter(has_text="SG110")).to_have_count(1)


def test_axe_has_no_serious_finding(desktop: Page) -> None:
    try_example(desktop)
    assert faults_in_both_themes(desktop) == []
    desktop.get_by_role("button", name="Fix all (4)").click()
    expect(desktop.get_by_role("dialog")).to_be_visible()
    assert faults_in_both_themes(desktop) == []
