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
JobFolder = Annotated[
    str,
    Meta(
        pattern=r"^(/|\$[A-Za-z_])[A-Za-z0-9_./+$-]*\Z",
        description="a full path of letters, digits and _ . / + -, in which a $NAME expands in the job",
    ),
]
Host = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z",
        description="the name of a host, without user and port",
    ),
]
JumpHost = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*(:[0-9]{1,5})?\Z",
        description="[USER@]HOST[:PORT]",
    ),
]
Address = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^\s/]+(/\S*)?\Z",
        description="an address that begins with https:// or http://",
    ),
]
Date = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?\Z",
        description="a date as YYYY-MM-DD, YYYY-MM or YYYY",
    ),
]
Environment = dict[VariableName, str]


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every part of a profile: frozen, and closed to unknown keys."""
