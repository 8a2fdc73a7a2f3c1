"""The training scripts that come with slurmgen, by their paths in a job's folder: the one list of them."""

from pathlib import PurePosixPath

FOLDER = "training"
"Where they are, both in slurmgen and in a job's folder; it has a pyproject.toml of its own."

_DATA = ("cifar", "cifar100", "mnist")
_FRAMEWORKS = ("ddp", "lightning", "accelerate")
BUNDLED_SCRIPTS = frozenset(
    [
        *(f"{FOLDER}/{data}_{framework}.py" for data in _DATA for framework in _FRAMEWORKS),
        *(f"{FOLDER}/{name}.py" for name in ("benchmark", "fetch_data", "scaling")),
    ]
)


def is_bundled(script: str) -> bool:
    """Whether a training script, from the job's folder on, is one of them."""
    return str(PurePosixPath(script)) in BUNDLED_SCRIPTS
