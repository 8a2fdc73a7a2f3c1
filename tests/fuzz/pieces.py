"""Inputs made of pieces, so that a large one has a short name in a report."""

from typing import NamedTuple

from hypothesis import strategies as st

LARGEST = 200_000
"Characters of an input."
COUNTS = (1, 1, 1, 1, 1, 1, 1, 2, 3, 40, 1000, 30_000)
"How often a piece stands there; large counts show what takes more than linear time."


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
    """Pieces of a language: its words, and what opens and closes in it."""
    counts = st.sampled_from(COUNTS)
    anything = st.text(max_size=8)
    some = [
        st.builds(Piece, st.sampled_from(words), counts),
        st.builds(Piece, st.sampled_from(words), st.just(1)),
        st.builds(Piece, anything, counts),
        *([st.builds(_pair, st.sampled_from(pairs), counts)] if pairs else []),
    ]
    return st.lists(st.one_of(some), max_size=30)


def _pair(pair: tuple[str, str], count: int) -> Piece:
    return Piece(pair[0], count, pair[1])
