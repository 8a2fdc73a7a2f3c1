"""The parts that every table of a profile is made of."""

from typing import Annotated

from msgspec import Meta, Struct

from slurmgen.slurm.shell import VariableName

MOST = 1_000_000
"A larger number is a typing error, whatever it counts."

Count = Annotated[int, Meta(ge=1, le=MOST)]
Limit = Annotated[int, Meta(ge=0, le=MOST)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z",
        description="letters, digits and _ . + -, beginning with none of . + -",
    ),
]
PartitionName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+:-]*\Z",
        description="letters, digits and _ . + : -, beginning with none of . + : -",
    ),
]
Folder = Annotated[
    str, Meta(pattern=r"^/[A-Za-z0-9_./+-]*\Z", description="a full path of letters, digits and _ . / + -")
]
Environment = dict[VariableName, str]


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every part of a profile: frozen, and closed to unknown keys."""
