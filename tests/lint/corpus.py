"""The scripts that the linter is tested on, and their faults."""

import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Sample(NamedTuple):
    """A script, and the codes of exactly the rules that must report a finding."""

    path: Path
    site: str | None
    codes: frozenset[str]

    @property
    def text(self) -> str:
        """The script."""
        return self.path.read_bytes().decode()


def of_rule(code: str, kind: str) -> list[Sample]:
    """The bad or the good scripts of a rule."""
    folder = HERE / "rules" / code
    site = folder / "site"
    name = site.read_text().strip() if site.exists() else None
    codes = frozenset([code] if kind == "bad" else [])
    return [Sample(path, name, codes) for path in sorted(folder.glob(f"{kind}_*.sbatch"))]


def published() -> list[Sample]:
    """The published scripts, with all their faults."""
    table = tomllib.loads((HERE / "published" / "faults.toml").read_text())
    return [
        Sample(HERE / "published" / name / "job.sbatch", facts.get("site"), frozenset(facts["faults"]))
        for name, facts in table.items()
    ]


def correct() -> list[Sample]:
    """Scripts without a fault, in the styles of many sites."""
    return [Sample(path, None, frozenset()) for path in sorted((HERE / "correct").glob("*.sbatch"))]
