"""What brings PyTorch to a job, by the project's environment files and the plan."""

import re
from collections.abc import Iterator
from pathlib import Path

from slurmgen.files import read_text
from slurmgen.plan.model import Plan
from slurmgen.program.framework import Program

_PACKAGES = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed")
"Modules that need PyTorch."
_NEEDS_TORCH = re.compile(
    r"(?<![\w.-])(?:torch|pytorch|torchvision|pytorch[-_]lightning|lightning|accelerate|deepspeed|timm"
    r"|transformers\[torch\])(?![\w-])",
    re.IGNORECASE,
)
_BROUGHT = re.compile(r"torch|conda|mamba|miniforge|python-ml|/ml\b|deep", re.IGNORECASE)
"Words in the name of a module that may have PyTorch in its Python."
_CHOICES = {
    "uv.lock": "--python-env uv",
    "pixi.toml": "--python-env pixi",
    "pyproject.toml": "--python-env uv",
    "environment.yml": "--python-env conda:NAME, made from it on the cluster",
    "requirements.txt": "--python-env venv:FOLDER, made from it on the cluster",
    ".venv": "--python-env venv:FOLDER of the cluster; the .venv of this machine is not sent",
}


def missing_software(program: Program, plan: Plan, project_dir: Path) -> Iterator[str]:
    """A warning if nothing of the plan is known to bring PyTorch to a program that imports it."""
    imported = {one.module.partition(".")[0] for one in program.source.imports}
    needed = next((name for name in _PACKAGES if name in imported), None)
    setup = plan.setup
    if needed is None or setup.container:
        return
    kind, _, where = setup.python_env.partition(":")
    if kind == "uv" and not _lists_torch(project_dir / where):
        fact = f"neither uv.lock nor pyproject.toml lists torch, which {program.file} needs"
        yield f"{fact}; add it with `uv add torch`"
    elif kind == "none" and not any(map(_BROUGHT.search, setup.modules)):
        fact = f"nothing in the job is known to bring {needed}, which {program.file} imports"
        yield f"{fact}; {_advice(project_dir)}"


def _lists_torch(folder: Path) -> bool:
    """Whether the lock file, or without one the project, lists PyTorch; True if neither can be read."""
    for name in ("uv.lock", "pyproject.toml"):
        try:
            text = read_text(folder / name)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return True
        return _NEEDS_TORCH.search(text) is not None
    return True


def _advice(project_dir: Path) -> str:
    found = next((name for name in _CHOICES if (project_dir / name).exists()), None)
    return f"{found} is here: add {_CHOICES[found]}" if found else "add --python-env or --container"
