"""Request: what a person asks for, before any site has a say."""

import shlex
from typing import Annotated, Literal

from msgspec import Meta, Struct

from slurmgen.errors import RequestError
from slurmgen.slurm.shell import unprintable

Rendezvous = Literal["static", "c10d"]
Precision = Literal["no", "fp16", "bf16", "fp8"]
VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

DEFAULT_SCRIPT = "training/cifar_{framework}.py"
"The bundled training script that a request without a script runs."


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one job should be. What is None is decided by the site, else by a stated default."""

    framework: str | None = None
    gpus: int | None = None
    "GPUs of the whole job, as in Slurm's --gpus."
    nodes: int | None = None
    gpu_type: str | None = None
    cpus_per_gpu: int | None = None
    mem: str | None = None
    "Memory of one node, as in Slurm's --mem."
    time: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    container: str | None = None
    "Path of the image, or `none` for no container where the site has one."
    binds: tuple[str, ...] | None = None
    env: dict[VariableName, str] = {}
    modules: tuple[str, ...] | None = None
    "Instead of the site's modules; an empty list loads none."
    python_env: str | None = None
    "Where Python comes from: none, uv, uv:FOLDER, venv:FOLDER or conda:NAME."
    sbatch: dict[str, str] = {}
    script: str | None = None
    script_args: tuple[str, ...] | None = None
    rendezvous: Rendezvous | None = None
    mixed_precision: Precision | None = None
    "For accelerate's launcher."
    name: str | None = None
    "Name of the job."
    log_dir: str | None = None
    "Folder for the logs; it must exist when the job starts (submit makes it)."


def merge(*layers: Request) -> Request:
    """One request out of several: what a later layer says overrules; `env` and `sbatch` add up."""
    said: dict[str, object] = {}
    for layer in layers:
        for key in Request.__struct_fields__:
            value = getattr(layer, key)
            if isinstance(value, dict):
                said[key] = {**said.get(key, {}), **value}  # type: ignore[dict-item]
            elif value is not None:
                said[key] = value
    return Request(**said)  # type: ignore[arg-type]


def check_text(request: Request) -> None:
    """Refuse a value that no script can hold.

    Raises:
        RequestError: a value has a newline, a NUL or another control character.
    """
    for key in Request.__struct_fields__:
        text = unprintable(getattr(request, key))
        if text is not None:
            raise RequestError(
                f"{key} has a control character: {text!r}",
                "Newlines, tabs and NULs cannot stand in a batch script; take it out.",
            )


def command_line(site: str, request: Request, job: str | None = None) -> str:
    """The slurmgen command that says just this, the same text every time."""
    words = ["slurmgen", "render", *([job] if job else []), "--site", site]
    for key in Request.__struct_fields__:
        if key != "script_args":
            words += _option(key, getattr(request, key))
    if request.script_args:
        words += ["--", *request.script_args]
    return shlex.join(words)


_FLAG_NAMES = {"modules": "--module", "binds": "--bind"}


def _option(key: str, value: object) -> list[str]:
    flag = _FLAG_NAMES.get(key, f"--{key.replace('_', '-')}")
    if value is None:
        return []
    if isinstance(value, dict):
        is_flag = key == "sbatch"  # an sbatch option may have no value; a variable has one, if empty
        return [
            word
            for name, text in value.items()
            for word in (flag, name if is_flag and not text else f"{name}={text}")
        ]
    if isinstance(value, tuple):
        return [word for text in value for word in (flag, text)]
    return [flag, str(value)]
