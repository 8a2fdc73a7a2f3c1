"""The hash at the end of a script in a file."""

from hypothesis import assume, given
from hypothesis import strategies as st

from slurmgen.render import as_written, has_mark, signed

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(texts)
def test_signing_is_deterministic_and_valid(text: str) -> None:
    data = signed(text)
    assert as_written(data)
    assert has_mark(data)
    assert data == signed(text)
    assert data.decode().startswith(text)


@given(texts, st.data())
def test_any_edit_invalidates_the_signature(text: str, data: st.DataObject) -> None:
    whole = signed(text)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 3, len(whole))))
    edited = whole[:start] + data.draw(st.binary(max_size=3)) + whole[end:]
    assume(edited != whole)
    assert not as_written(edited)


@given(texts)
def test_an_unsigned_script_is_not_valid(text: str) -> None:
    assert not as_written(text.encode())
