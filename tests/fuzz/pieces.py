"""Inputs made of pieces, so that a large one has a short name in a report."""

from typing import NamedTuple

from hypothesis import strategies as st

LARGEST = 200_000
"Characters of an input."


class Piece(NamedTuple):
    """A text, so many times; then another as often, such as brackets that close."""

    text: str
    count: int = 1
    after: str = ""

    def __str__(self) -> str:
        count = min(self.count, LARGEST // max(len(self.text) + len(self.after), 1))
        return self.text * count + self.after * count


def joined(pieces: list[Piece]) -> str:
    return "".join(map(str, pieces))[:LARGEST]


def pieces(words: list[str], pairs: list[tuple[str, str]]) -> st.SearchStrategy[list[Piece]]:
    """Words of a language, what opens and closes in it, and any text; one of them perhaps many times."""
    texts = [*((word, "") for word in words), *pairs]
    some = st.one_of(
        st.sampled_from(texts), st.sampled_from(texts), st.tuples(st.text(max_size=8), st.just(""))
    )
    few = st.lists(st.builds(_piece, some, st.sampled_from([1, 1, 1, 1, 2, 3])), max_size=30)
    many = st.builds(_piece, some, st.sampled_from([40, 1000, 30_000, LARGEST]))
    return st.one_of(few, few, few, st.builds(_with, few, many, few))


def _piece(text: tuple[str, str], count: int) -> Piece:
    return Piece(text[0], count, text[1])


def _with(before: list[Piece], piece: Piece, after: list[Piece]) -> list[Piece]:
    return [*before, piece, *after]
