"""For any text the linter answers, and for any script that render makes it is silent."""

import subprocess
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.lint import all_rules, fixed, lint, lint_text
from slurmgen.lint.reader import read
from slurmgen.lint.reports import FORMATS, Linted, report
from slurmgen.lint.rules import SITE_CODES
from tests.lint import corpus

SITES = {name: load_site(name) for name in ("generic", "daic", "olivia")}
REAL = [path.read_bytes().decode() for path in sorted(Path(corpus.HERE).rglob("*.sbatch"))]
PIECES = sorted({piece for text in REAL for piece in text.split()})

requests = st.builds(
    Request,
    framework=st.sampled_from(sorted(LAUNCHERS)),
    gpus=st.integers(1, 32),
    nodes=st.none() | st.integers(1, 8),
    gpu_type=st.sampled_from([None, None, "a40", "turing"]),
    cpus_per_gpu=st.none() | st.integers(1, 18).map(lambda n: 4 * n),
    mem=st.sampled_from([None, "64G", "500M"]),
    time=st.sampled_from([None, "24:00:00", "30", "1-12"]),
    account=st.just("nn1k"),
    container=st.sampled_from([None, "none", "img.sif", "my image.sif"]),
    binds=st.just(None),
    env=st.dictionaries(
        st.sampled_from(["A", "MASTER_PORT", "NCCL_DEBUG"]), st.text("a$' \\\"29", max_size=5), max_size=2
    ),
    modules=st.none() | st.lists(st.sampled_from(["cuda", "a b"]), max_size=2).map(tuple),
    python_env=st.sampled_from([None, "none", "uv", "uv:sub", "venv:/v", "conda:torch"]),
    sbatch=st.sampled_from([{}, {"array": "0-3"}, {"exclusive": ""}, {"comment": "a b # c"}]),
    script=st.sampled_from([None, "train.py", "my train.py", "$x.py"]),
    script_args=st.none()
    | st.lists(st.sampled_from(["--lr", "0.1", "a'b", "$HOME", "#", "|", "&"]), max_size=3).map(tuple),
    rendezvous=st.none() | st.sampled_from(["static", "c10d"]),
    name=st.sampled_from([None, "x"]),
    log_dir=st.sampled_from([None, "logs"]),
)


@given(requests, st.sampled_from(sorted(SITES)))
@settings(max_examples=300, deadline=None)
def test_what_render_makes_is_clean_on_its_site(request: Request, site: str) -> None:
    try:
        text = render(resolve(request, SITES[site]))
    except RequestError:
        assume(False)
    found = {item.rule.code for item in lint(text, SITES[site])}
    # Who asks for few CPUs gets them from render, and hears of it from lint.
    belong = SITES[site].cpu.per_gpu or 0
    few = request.cpus_per_gpu is not None and request.cpus_per_gpu * 2 < belong
    assert found <= ({"SG908"} if few else set()), text


def answer(text: str) -> None:
    """Lint and report in every way, and see that fixes are changes to this very text."""
    reports = lint_text(text, SITES["olivia"])
    for item in reports:
        assert 0 <= item.finding.span.start <= item.finding.span.end <= len(text)
        for edit in item.finding.edits:
            assert 0 <= edit.span.start <= edit.span.end <= len(text)
    fixed(text, reports)
    for name in FORMATS:
        report(name, [Linted("x", text, reports)])


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_is_answered(text: str) -> None:
    answer(text)
    answer("#!/bin/bash\n#SBATCH " + text)


@given(
    st.lists(
        st.sampled_from([*PIECES, "\n", "\n", " ", "\\\n", '"', "'", "$(", ")", "}", ";", "\r", "é"]),
        max_size=60,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_salad_of_real_words_is_answered(words: list[str]) -> None:
    answer("#!/bin/bash\n" + " ".join(words))


@given(st.sampled_from(REAL), st.data())
@settings(max_examples=300, deadline=None)
def test_a_mutated_real_script_is_answered(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 40))
    new = data.draw(st.sampled_from([*PIECES, "", "\n", "\x00", "\ud800", "\u202e", "`", "${", "((", "<<X"]))
    answer(text[:at] + new + text[at + cut :])


@given(st.sampled_from(REAL), st.data())
@settings(max_examples=100, deadline=None)
def test_a_rule_without_its_words_would_have_found_nothing(text: str, data: st.DataObject) -> None:
    """Rules are not even imported for a text that has none of their words: nothing is lost by that."""
    words = data.draw(st.sampled_from(PIECES))
    text = text.replace(words, "")
    script = read(text)
    every = {
        (code, item.span)
        for code, rule in all_rules().items()
        if not code.startswith(SITE_CODES)
        for item in rule.check(script, None)
    }
    assert {(item.rule.code, item.finding.span) for item in lint_text(text)} == every


def test_a_fixed_script_is_still_bash() -> None:
    for text in REAL:
        if (
            subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False).returncode
            == 0
        ):
            mended = fixed(text, lint_text(text, SITES["daic"]))
            checked = subprocess.run(["bash", "-n"], input=mended.encode(), capture_output=True, check=False)
            assert checked.returncode == 0, mended
