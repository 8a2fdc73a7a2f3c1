"""Where the data files that come with slurmgen are."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(name: str) -> Path:
    """The folder `templates`, `site_profiles` or `training`.

    A wheel carries it inside the package; in a checkout it stands beside it.
    """
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
