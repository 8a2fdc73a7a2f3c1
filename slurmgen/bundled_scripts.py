"""The list of the training scripts that come with slurmgen, by their paths in a job's folder."""

from pathlib import PurePosixPath

FOLDER = "training"
"Their folder, both in slurmgen and in a job's folder; it has its own pyproject.toml."

_DATA = ("cifar", "cifar100", "mnist")
_FRAMEWORKS = ("ddp", "lightning", "accelerate")
BUNDLED_SCRIPTS = frozenset(
    [
        *(f"{FOLDER}/{data}_{framework}.py" for data in _DATA for framework in _FRAMEWORKS),
        *(f"{FOLDER}/{name}.py" for name in ("benchmark", "fetch_data", "scaling")),
    ]
)


def is_bundled(script: str) -> bool:
    """Whether a path from the job's folder on is that of a bundled script."""
    return str(PurePosixPath(script)) in BUNDLED_SCRIPTS
