"""Structs as text, as a column of the ledger keeps them. Pure."""

from typing import TypeVar

from msgspec import DecodeError, Struct, json

Kept = TypeVar("Kept", bound=Struct)


def to_text(value: Struct | None) -> str:
    """The text of a struct; empty if there is none."""
    return json.encode(value).decode() if value else ""


def from_text(text: str, kind: type[Kept]) -> Kept | None:
    """The struct of a text; None if there is none, or if the text cannot be read."""
    try:
        return json.decode(text, type=kind) if text else None
    except DecodeError:
        return None
