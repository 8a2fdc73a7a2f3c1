"""The curves in what a run wrote."""

import json

from hypothesis import given
from hypothesis import strategies as st

from slurmgen.status.sweep_results import MOST_POINTS, curves


def text(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_the_finest_value_that_all_lines_have_is_the_axis() -> None:
    found = curves(
        text({"epoch": 1, "step": 10, "loss": 2}, {"epoch": 1, "step": 20, "loss": 1, "val": {"acc": 0.5}})
    )
    assert (found.axis, found.x) == ("step", (10, 20))
    assert found.values == {"epoch": (1, 1), "loss": (2, 1), "val.acc": (None, 0.5)}


def test_lines_without_an_axis_are_numbered() -> None:
    found = curves(text({"loss": 2}, {"loss": 1, "epoch": 2}))
    assert (found.axis, found.x) == ("line", (1, 2))


def test_of_a_repeated_step_the_last_counts() -> None:
    rows = [{"step": 1, "loss": 5}, {"step": 2, "loss": 4}, {"step": 1, "loss": 3}]
    found = curves(text(*rows))
    assert (found.x, found.values["loss"]) == ((1, 2), (3, 4))


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    found = curves(
        b'{"step": 1, "loss": NaN, "name": "a", "ok": true}\n{"step": 2, "loss": 1e400}\nnot json\n{"st'
    )
    assert found.values == {"loss": (None, None)}
    assert found.rows == 2


def test_many_lines_keep_their_first_and_last() -> None:
    found = curves(text(*({"step": number, "loss": 1} for number in range(3 * MOST_POINTS))))
    assert (len(found.x), found.x[0], found.x[-1]) == (MOST_POINTS, 0, 3 * MOST_POINTS - 1)
    assert found.rows == 3 * MOST_POINTS


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(['{"step":', "1", "}", "\n", "[", "NaN", ","])).map("".join).map(str.encode)
)
def test_any_content_has_curves(content: bytes) -> None:
    found = curves(content)
    assert list(found.x) == sorted(found.x)
    assert all(len(values) == len(found.x) for values in found.values.values())
