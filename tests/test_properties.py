"""For any request: a script that keeps the invariant, or a clean error."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.slurm import durations, sizes
from slurmgen.slurm.shell import expandable

SITES = {name: load_site(name) for name in ("generic", "daic", "olivia")}

words = st.text(max_size=8)
maybe = st.none()
texts = st.one_of(maybe, words)
requests = st.builds(
    Request,
    framework=st.one_of(maybe, st.sampled_from(sorted(LAUNCHERS)), words),
    gpus=st.one_of(maybe, st.integers(-1, 40)),
    nodes=st.one_of(maybe, maybe, st.integers(-1, 10)),
    gpu_type=st.one_of(maybe, maybe, st.sampled_from(["a40", "turing", "x"])),
    cpus_per_gpu=st.one_of(maybe, st.integers(-1, 100)),
    mem=st.one_of(maybe, st.from_regex(r"\d{1,4}[KMGT]?", fullmatch=True), words),
    time=st.one_of(maybe, st.from_regex(r"(\d-)?\d{1,2}(:\d\d){0,2}", fullmatch=True), words),
    account=st.one_of(st.just("nn1k"), texts),
    partition=st.one_of(maybe, maybe, st.sampled_from(["accel", "all", "small"]), words),
    qos=st.one_of(maybe, st.just("devel"), words),
    container=st.one_of(maybe, st.just("none"), words),
    binds=st.one_of(maybe, st.tuples(words)),
    env=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), words, max_size=2),
    modules=st.one_of(maybe, st.tuples(words)),
    python_env=st.one_of(maybe, st.sampled_from(["uv", "none"]), words.map("venv:{}".format)),
    sbatch=st.dictionaries(st.sampled_from(["comment", "hold", "array", "gres", "x"]), words, max_size=1),
    script=texts,
    script_args=st.one_of(maybe, st.lists(words, max_size=3).map(tuple)),
    rendezvous=st.one_of(maybe, st.sampled_from(["static", "c10d"])),
    name=texts,
    log_dir=texts,
)


@given(requests, st.sampled_from(sorted(SITES)))
@settings(max_examples=400, deadline=None)
def test_a_request_gives_a_right_script_or_a_clean_error(request: Request, site: str) -> None:
    try:
        plan = resolve(request, SITES[site])
    except RequestError:
        return  # test_plan.py says what a clean error is
    assert plan.nodes * plan.ntasks_per_node * plan.procs_per_task == plan.nodes * plan.gpus_per_node
    assert plan.world_size == (request.gpus or 1)
    text = render(plan)
    assert text == render(plan)
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
@settings(max_examples=200, deadline=None)
def test_a_value_of_a_profile_keeps_only_its_variables(text: str) -> None:
    """With every variable empty, the shell sees the text with just its `$NAME`s taken out."""
    shown = subprocess.run(
        ["env", "-i", "bash", "-c", f"printf %s {expandable(text)}"], capture_output=True, check=True
    ).stdout.decode()
    assert "$" not in text or len(shown) <= len(text)
    assert "$" in text or shown == text


@given(st.integers(1, 10**7))
def test_a_time_limit_survives_its_canonical_form(total: int) -> None:
    assert durations.seconds(durations.canonical(total)) == total


@given(st.integers(1, 10**7))
def test_a_size_survives_its_canonical_form(mebibytes: int) -> None:
    assert sizes.megabytes(sizes.canonical(mebibytes)) == mebibytes


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "1-", "-1", "1.5", "٣"])
def test_what_is_no_slurm_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        durations.seconds(text)
