"""The scripts that the linter is measured on, and what is true of them."""

import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Sample(NamedTuple):
    """One script and the rules that must speak, and no others."""

    path: Path
    site: str | None
    codes: frozenset[str]

    @property
    def text(self) -> str:
        """The script."""
        return self.path.read_bytes().decode()


def of_rule(code: str, kind: str) -> list[Sample]:
    """The bad or the good scripts of one rule."""
    folder = HERE / "rules" / code
    site = folder / "site"
    name = site.read_text().strip() if site.exists() else None
    codes = frozenset([code] if kind == "bad" else [])
    return [Sample(path, name, codes) for path in sorted(folder.glob(f"{kind}_*.sbatch"))]


def published() -> list[Sample]:
    """The published scripts, with every fault that they have."""
    table = tomllib.loads((HERE / "published" / "faults.toml").read_text())
    return [
        Sample(HERE / "published" / name / "job.sbatch", said.get("site"), frozenset(said["faults"]))
        for name, said in table.items()
    ]


def correct() -> list[Sample]:
    """Scripts of many styles and sites without a fault."""
    return [Sample(path, None, frozenset()) for path in sorted((HERE / "correct").glob("*.sbatch"))]
