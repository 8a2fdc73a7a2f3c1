"""The linter accepts any text, and reports nothing for the scripts that render generates."""

import subprocess
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.lint import fixed, lint, lint_text
from slurmgen.lint.reports import FORMATS, Linted, report
from slurmgen.request.model import merge
from tests.lint import corpus

SITES = {name: load_site(name) for name in ("generic", "daic", "olivia")}
REAL = [path.read_bytes().decode() for path in sorted(Path(corpus.HERE).rglob("*.sbatch"))]
PIECES = sorted({piece for text in REAL for piece in text.split()})

SOFTWARE = [
    {},
    {"container": "img.sif"},
    {"container": "my image.sif", "binds": ("/data",)},
    {"container": "none", "python_env": "none"},
    {"container": "none", "python_env": "uv", "modules": ("cuda", "a b")},
    {"container": "none", "python_env": "uv:sub"},
    {"container": "none", "python_env": "venv:/v", "modules": ()},
    {"container": "none", "python_env": "conda:torch"},
]
SHAPES = [
    *({"framework": name, "gpus": gpus} for name in LAUNCHERS for gpus in (1, 2, 3, 4, 6, 8, 16)),
    {"gpus": 0},
    {"gpus": 0, "cpus": 16},
    {"framework": "ddp", "gpus": 12, "nodes": 4, "rendezvous": "c10d"},
    {"framework": "accelerate", "gpus": 6, "nodes": 3, "mixed_precision": "bf16"},
]
PROGRAMS = [{}, {}, {"module": "pkg.train"}, {"command": ("litgpt", "finetune")}, {"command": ("./a b",)}]
unusual = st.text("a$' \\\"29#|&;", max_size=6)
details = st.fixed_dictionaries(
    {"account": st.just("nn1k")},
    optional={
        "cpus_per_gpu": st.integers(1, 16),
        "mem": st.sampled_from(["64G", "500M"]),
        "time": st.sampled_from(["24:00:00", "30", "1-12"]),
        "env": st.dictionaries(st.sampled_from(["A", "MASTER_PORT", "NCCL_DEBUG"]), unusual, max_size=2),
        "sbatch": st.sampled_from(
            [
                {"array": "0-3"},
                {"exclusive": ""},
                {"comment": "a b # c"},
                {"signal": "USR2@120"},
                {"export": "NONE"},
            ]
        ),
        "script": unusual.map("x{}".format).flatmap(
            lambda name: st.sampled_from([f"{name}.py", f"{name}.sh"])
        ),
        "script_args": st.lists(unusual | st.sampled_from(["--nnodes=9", "--lr"]), max_size=3).map(tuple),
        "log_dir": st.just("logs"),
        "requeue": st.just(True),
    },
)


@given(
    st.sampled_from(SHAPES),
    st.sampled_from(SOFTWARE),
    st.sampled_from(PROGRAMS),
    details,
    st.sampled_from(sorted(SITES)),
)
@settings(max_examples=500, deadline=None)
def test_a_rendered_script_has_no_findings_on_its_site(
    shape: dict[str, Any],
    software: dict[str, Any],
    program: dict[str, Any],
    detail: dict[str, Any],
    site: str,
) -> None:
    request = merge(Request(**shape, **software, **detail), Request(**program))
    try:
        text = render(resolve(request, SITES[site]))
    except RequestError:
        return  # the errors themselves are tested in tests/test_properties.py
    found = {item.rule.code for item in lint(text, SITES[site])}
    # render accepts a request for few CPUs, which lint reports.
    belong = SITES[site].cpu.per_gpu or 0
    few = request.cpus_per_gpu is not None and request.cpus_per_gpu * 2 < belong
    allowed = ({"SG908"} if few else set()) | ({"SG402"} if request.cpus_per_gpu == 1 else set())
    assert found <= allowed, text


def check(text: str) -> None:
    """Lint the text and report it in every format; all findings and fixes lie inside the text."""
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
def test_any_text_is_accepted(text: str) -> None:
    check(text)
    check("#!/bin/bash\n#SBATCH " + text)


@given(
    st.lists(
        st.sampled_from([*PIECES, "\n", "\n", " ", "\\\n", '"', "'", "$(", ")", "}", ";", "\r", "é"]),
        max_size=60,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_sequence_of_real_words_is_accepted(words: list[str]) -> None:
    check("#!/bin/bash\n" + " ".join(words))


@given(st.sampled_from(REAL), st.data())
@settings(max_examples=300, deadline=None)
def test_a_mutated_real_script_is_accepted(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 40))
    new = data.draw(st.sampled_from([*PIECES, "", "\n", "\x00", "\ud800", "\u202e", "`", "${", "((", "<<X"]))
    check(text[:at] + new + text[at + cut :])


def test_a_fixed_script_is_still_valid_bash() -> None:
    for text in REAL:
        if (
            subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False).returncode
            == 0
        ):
            new = fixed(text, lint_text(text, SITES["daic"]))
            checked = subprocess.run(["bash", "-n"], input=new.encode(), capture_output=True, check=False)
            assert checked.returncode == 0, new
