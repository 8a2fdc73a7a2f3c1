"""The linter's answers: the same findings as `slurmgen lint`, in the units of an editor, within limits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from slurmgen.lint import all_rules, chosen, fix, lint_text
from slurmgen.lint.reports import Linted, report
from slurmgen.sites.profiles import load_site
from slurmgen.worker import Busy, Stopped, Workers
from tests.lint import corpus
from tests.lint.corpus import Sample
from tests.lint.test_limits import HARMLESS, HEAD, TOO_MUCH

Check = Callable[..., Any]
EXAMPLE = Path("slurmgen/web/static/linter_example.sbatch")


@pytest.fixture
def check(public: TestClient) -> Check:
    def check(script: str, **more: str) -> Any:
        reply = public.post("/lint/findings", data={"script": script, **more})
        assert reply.status_code == 200, reply.text
        return reply.json()

    return check


def samples() -> list[Sample]:
    golden = [Sample(path, None, frozenset()) for path in sorted(Path("tests/golden").glob("*.sbatch"))]
    of_rules = [sample for code in all_rules() for sample in corpus.of_rule(code, "bad")]
    return [*golden, *corpus.published(), *of_rules]


def test_the_findings_are_those_of_the_command(check: Check) -> None:
    for sample in samples():
        site = load_site(sample.site) if sample.site else None
        linted = Linted("x", sample.text, lint_text(sample.text, site))
        expected = json.loads(report("json", [linted]))
        found = check(sample.text, site=sample.site or "")["findings"]
        keys = {"line", "column", "code", "rule", "severity", "message", "advice"}
        assert [{key: finding[key] for key in keys} for finding in found] == [
            {key: finding[key] for key in keys} for finding in expected
        ], sample.path


def in_editor(text: str, changes: list[dict[str, Any]]) -> str:
    """The text after changes, with the positions of JavaScript."""
    units = text.encode("utf-16-le")
    for change in sorted(changes, key=lambda change: -change["from"]):
        insert = change["insert"].encode("utf-16-le")
        units = units[: 2 * change["from"]] + insert + units[2 * change["to"] :]
    return units.decode("utf-16-le")


@pytest.mark.parametrize("text", ["ä é ß", "🐌🐌 👩‍🚀", "\u202e\ufeff\x07", "\0"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_position_is_that_of_the_editor(check: Check, text: str, end: str) -> None:
    script = end.join(["#!/bin/bash", f"# {text}", f"#SBATCH --job-name='{text}' --time=24:00", ""])
    finding = next(found for found in check(script)["findings"] if found["code"] == "SG110")
    units = script.encode("utf-16-le")
    assert units[2 * finding["from"] : 2 * finding["to"]].decode("utf-16-le") == "24:00"
    assert in_editor(script, finding["changes"]) == script.replace("24:00", "24:00:00")


def test_windows_line_ends_are_found_and_removed(check: Check) -> None:
    script = "#!/bin/bash\r\n#SBATCH --time=1:00:00\r\nsrun python 🐌.py\r\n"
    (finding,) = check(script)["findings"]
    assert (finding["code"], finding["safe"]) == ("SG102", True)
    assert in_editor(script, finding["changes"]) == script.replace("\r", "")


@pytest.mark.parametrize("kind", ["safe", "unsafe"])
def test_all_fixes_together_are_those_of_the_command(check: Check, kind: str) -> None:
    text = "# 🐌\n" + EXAMPLE.read_text()
    answer = check(text, fixes=kind)
    after = fix(text, unsafe=kind == "unsafe")
    assert in_editor(text, answer["changes"]) == after.text != text
    assert answer["applied"] == [report.rule.code for report in after.applied]


def test_notes_are_reported_on_request(check: Check) -> None:
    script = corpus.of_rule("SG601", "bad")[0].text
    codes = {finding["code"] for finding in check(script, notes="on")["findings"]}
    assert "SG601" in codes - {finding["code"] for finding in check(script)["findings"]}


@pytest.mark.parametrize(
    "name",
    ["NUL", "calls of calls", "launches", "loops in loops", "one word", "unbalanced quotes", "directives"],
)
def test_a_hostile_script_ends_within_the_limits(public: TestClient, name: str) -> None:
    """A limit of its worker holds on any machine; a busy one may refuse."""
    script = HEAD + (TOO_MUCH | HARMLESS)[name]
    reply = public.post("/lint/findings", data={"script": script})
    assert reply.status_code in (200, 413, 422), reply.text


def test_a_script_with_very_many_findings_shows_the_first_of_them(check: Check) -> None:
    answer = check("#!/bin/bash\n" + "".join(f"python{i} = 3\n" for i in range(900)))
    assert (answer["total"], len(answer["findings"])) == (900, 500)


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        ({"script": "x", "site": "nowhere"}, 422, "there is no site 'nowhere'"),
        ({"script": "x", "site": "../../etc/passwd"}, 422, "there is no site"),
        ({"script": "x" * 1_000_001}, 413, "Too Large"),
    ],
)
def test_a_refusal_is_a_sentence(public: TestClient, data: dict[str, str], status: int, text: str) -> None:
    reply = public.post("/lint/findings", data=data)
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (status, "text/plain")
    assert text in reply.text


@pytest.mark.parametrize(("error", "status"), [(Busy, 503), (Stopped, 422)])
def test_a_busy_linter_says_so(
    public: TestClient, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int
) -> None:
    def refuse(*_args: object) -> bytes:
        raise error

    monkeypatch.setattr(Workers, "call", refuse)
    reply = public.post("/lint/findings", data={"script": "x"})
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (status, "text/plain")


def test_bytes_that_are_not_text_are_refused(public: TestClient) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert public.post("/lint/findings", content=b"script=%ff%fe", headers=headers).status_code == 400


def test_a_local_server_has_the_rules_and_the_sites_of_its_folder(
    public: TestClient, user: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurmgen.toml").write_text('[lint]\nignore = ["SG110"]\n')
    profiles = tmp_path / "site_profiles"
    profiles.mkdir()
    (profiles / "ours.toml").write_text('extends = "daic"\nname = "ours"\n')
    monkeypatch.chdir(tmp_path)
    data = {"script": "#!/bin/bash\n#SBATCH --time=24:00\n"}
    for client, is_local in ((user, True), (public, False)):
        assert ("<option>ours</option>" in client.get("/lint").text) == is_local
        found = client.post("/lint/findings", data=data).json()["findings"]
        assert [finding["code"] for finding in found] == ([] if is_local else ["SG110"])


def test_an_unknown_site_is_not_repeated_at_length(public: TestClient) -> None:
    reply = public.post("/lint/findings", data={"script": "", "site": "a" * 900_000})
    assert (reply.status_code, len(reply.text) < 1000) == (422, True)
    assert "there is no site 'aaa" in reply.text


def test_a_page_says_where_the_script_goes(public: TestClient) -> None:
    page = public.get("/lint").text
    assert "sent over the network to this host" in page
    assert "Nothing leaves this machine" not in page


def test_every_rule_has_a_page(public: TestClient) -> None:
    listed = public.get("/rules").text
    for code, rule in all_rules().items():
        assert f'href="/rules/{code}"' in listed
        shown = public.get(f"/rules/{code}")
        assert shown.status_code == 200
        assert rule.name in shown.text
        for heading in ["What it checks", "Why it matters", "Example", "Use instead", "When to ignore"]:
            assert f"<h2>{heading}</h2>" in shown.text


@pytest.mark.parametrize("code", ["SG999", "sg110", "..%2f..%2fetc%2fpasswd"])
def test_there_is_no_page_of_another_rule(public: TestClient, code: str) -> None:
    assert public.get(f"/rules/{code}").status_code == 404


def test_the_example_has_safe_and_unsafe_fixes(check: Check) -> None:
    found = check(EXAMPLE.read_text())["findings"]
    assert {finding["safe"] for finding in found if finding["changes"]} == {True, False}
    assert len({finding["code"] for finding in found}) >= 8
    assert {finding["code"] for finding in found} <= set(chosen())
