"""The list of the training scripts that come with slurmgen, by their paths in a job's folder."""

from pathlib import PurePosixPath

FOLDER = "training"
"Their folder, both in slurmgen and in a job's folder; it has its own pyproject.toml."
PREFLIGHT = "slurmgen_preflight"
"The folder of the program that checks nodes, in slurmgen and in a job's folder."

_FRAMEWORKS = ("ddp", "fsdp", "lightning", "accelerate")
BUNDLED_SCRIPTS = frozenset(
    [
        *(f"{FOLDER}/train_{framework}.py" for framework in _FRAMEWORKS),
        *(f"{FOLDER}/{name}.py" for name in ("benchmark", "fetch_data", "scaling")),
    ]
)

_TASKS = {"cifar": "cifar10", "cifar100": "cifar100", "mnist": "mnist"}
REPLACED = {
    f"{FOLDER}/{data}_{framework}.py": (f"{FOLDER}/train_{framework}.py", task)
    for data, task in _TASKS.items()
    for framework in ("ddp", "lightning", "accelerate")
}
"The scripts of earlier versions: each is now a script and its `--task`."


def is_bundled(script: str) -> bool:
    """Whether a path from the job's folder on is that of a bundled script."""
    return str(PurePosixPath(script)) in BUNDLED_SCRIPTS
