"""Any request gives a script that satisfies the invariant, or a clean error."""

import re
import subprocess

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.slurm import units
from slurmgen.slurm.shell import expandable, word

SITES = {name: load_site(name) for name in ("generic", "daic", "olivia")}

words = st.text(max_size=8)
values = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"]), max_size=8)
maybe = st.none()
LAYOUTS = {
    "no GPU": [(0, None), (0, 1)],
    "one node": [(1, None), (2, None), (3, None), (4, None), (1, 1), (2, 1)],
    "several nodes": [(8, None), (12, None), (2, 2), (4, 2), (6, 2), (8, 4)],
}

CPU_PARTITION = {"daic": "all"}  # its profile knows no partition without GPUs

# Values that at least one site accepts, so that most requests give a script.
GOOD: dict[str, st.SearchStrategy[object]] = {
    "framework": st.sampled_from(["ddp", "lightning", "accelerate"]),
    "gpu_type": st.one_of(maybe, maybe, maybe, st.sampled_from(["a40", "turing"])),
    "cpus_per_gpu": st.one_of(maybe, st.sampled_from([2, 4, 8])),
    "mem": st.one_of(maybe, st.integers(1, 400).map("{}G".format)),
    "time": st.one_of(maybe, st.from_regex(r"([0-5]-)?[1-9]:[0-5][0-9]:[0-5][0-9]", fullmatch=True)),
    "account": st.just("nn1k"),
    "qos": st.one_of(maybe, maybe, st.just("devel")),
    "container": st.one_of(maybe, st.just("none"), values.map("/images/{}".format)),
    "binds": maybe,
    "env": st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True), values, max_size=2),
    "modules": st.one_of(maybe, maybe, st.tuples(values)),
    "python_env": maybe,
    "sbatch": st.dictionaries(
        st.sampled_from(["hold", "array", "export"]), st.sampled_from(["", "1-3"]), max_size=1
    ),
    "script": st.one_of(maybe, values.map("train{}.py".format)),
    "module": maybe,
    "command": maybe,
    "script_args": st.one_of(maybe, st.lists(values, max_size=3).map(tuple)),
    "rendezvous": maybe,
    "mixed_precision": maybe,
    "requeue": st.one_of(maybe, st.just(True)),
    "name": st.just("job"),
    "log_dir": st.one_of(maybe, st.just("logs")),
}
# At most one field gets one of these invalid values.
ANYTHING = st.one_of(words, st.integers(-1, 1000), st.lists(words, max_size=2).map(tuple))


@st.composite
def requests(draw: st.DrawFn, layouts: list[tuple[int, int | None]]) -> Request:
    fields = {key: draw(strategy) for key, strategy in GOOD.items()}
    fields["gpus"], fields["nodes"] = draw(st.sampled_from(layouts))
    if fields["gpus"] == 0:
        fields |= {"framework": None, "gpu_type": None, "cpus_per_gpu": None}
        fields["cpus"] = draw(st.sampled_from([None, 4, 8]))
    if fields["framework"] == "ddp":
        fields["rendezvous"] = draw(st.sampled_from([None, None, "static", "c10d"]))
    return Request(**fields)  # type: ignore[arg-type]


@st.composite
def spoiled(draw: st.DrawFn) -> Request:
    request = draw(requests([*LAYOUTS["one node"], *LAYOUTS["several nodes"]]))
    field = draw(st.sampled_from(sorted({*GOOD, "gpus", "nodes"})))
    return msgspec.structs.replace(request, **{field: draw(ANYTHING)})


def number(pattern: str, text: str) -> int:
    """The one number that a pattern finds in a script; 1 if it finds none."""
    found = set(re.findall(pattern, text, re.MULTILINE))
    assert len(found) <= 1, found
    return int(found.pop()) if found else 1


def assert_ranks_are_gpus(text: str, framework: str) -> None:
    """In the script, nodes x tasks x ranks per task = nodes x GPUs per node, and the CPUs agree."""
    nodes = number(r"^#SBATCH --nodes=(\d+)$", text)
    tasks = number(r"^#SBATCH --ntasks-per-node=(\d+)$", text)
    gpus = number(r"^#SBATCH --(?:gres=gpu|gpus-per-node)[:=](?:\w+:)?(\d+)$", text)
    if LAUNCHERS[framework].shape == "process-per-node":
        assert tasks == 1
        return
    ranks = {
        "lightning": 1,
        "ddp": number(r" --nproc-per-node=(\d+)", text),
        "accelerate": number(r" --num_processes=(\d+)", text) // nodes,
    }[framework]
    assert nodes * tasks * ranks == nodes * gpus
    assert number(r" --nnodes=(\d+)", text) in (1, nodes)
    assert number(r" --num_machines=(\d+)", text) in (1, nodes)
    assert number(r"^#SBATCH --cpus-per-task=(\d+)$", text) == number(r"^srun --cpus-per-task=(\d+)", text)


def right_script(request: Request, site: str) -> bool:
    """Whether the request gives a script. Checks that the script is correct, or the error clean."""
    try:
        plan = resolve(request, SITES[site])
    except RequestError:
        return False  # test_plan.py defines a clean error
    text = render(plan)
    assert text == render(plan)
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
    script = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# Made by"))
    without_values = script.rpartition(plan.ranks.program.words[0])[0]
    assert_ranks_are_gpus(without_values, plan.framework)
    return True


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("site", SITES)
def test_a_request_gives_a_correct_script_or_a_clean_error(layouts: str, site: str) -> None:
    outcomes = []

    @given(requests(LAYOUTS[layouts]))
    @settings(max_examples=100, deadline=None)
    def drawn(request: Request) -> None:
        partition = CPU_PARTITION.get(site) if request.gpus == 0 else None
        outcomes.append(right_script(msgspec.structs.replace(request, partition=partition), site))

    drawn()
    assert sum(outcomes) >= 25, "too few of the drawn requests reached a script"


@given(spoiled(), st.sampled_from(sorted(SITES)))
@settings(max_examples=300, deadline=None)
def test_an_invalid_request_gives_a_correct_script_or_a_clean_error(request: Request, site: str) -> None:
    right_script(request, site)


@given(st.text(st.sampled_from(list("$AB{}()`\\\"' *~!#;&|<>\u00e9/:"))))
@settings(max_examples=300, deadline=None)
def test_only_the_variables_in_a_value_of_a_profile_expand(text: str) -> None:
    """The shell prints every character except `$NAME` and `${NAME}`, which are empty in this test."""
    shown = subprocess.run(
        ["env", "-i", "bash", "-c", f"printf %s {expandable(text)}"], capture_output=True, check=True
    ).stdout.decode()
    assert shown == re.sub(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})", "", text)


@given(st.text(st.sampled_from(list("$AB{}()`\\\"' *~!#;&|<>\u00e9/:"))))
@settings(max_examples=300, deadline=None)
def test_two_dollars_are_one_literal_dollar(text: str) -> None:
    """A value is split at each `$$`. The parts expand as usual, and a leading `~/` does too."""
    shown = subprocess.run(
        ["env", "-i", "HOME=/h", "bash", "-c", f"printf %s {word(text)}"], capture_output=True, check=True
    ).stdout.decode()
    home = re.sub(r"\A~(?=/|\Z)", "/h", text)
    parts = [
        re.sub(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})", "", part, flags=re.A) for part in home.split("$$")
    ]
    assert shown == "$".join(parts)


@given(st.integers(1, 10**7))
def test_the_canonical_form_keeps_a_time_limit(total: int) -> None:
    assert units.seconds(units.canonical_time(total)) == total


@given(st.integers(1, 10**7))
def test_the_canonical_form_keeps_a_size(mebibytes: int) -> None:
    assert units.megabytes(units.canonical_size(mebibytes)) == mebibytes


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "1-", "-1", "1.5", "٣"])
def test_an_invalid_slurm_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        units.seconds(text)
