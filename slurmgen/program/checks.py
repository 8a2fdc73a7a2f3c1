"""What a program contradicts in a plan, found before the job waits in the queue."""

import platform
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from slurmgen.errors import RequestError
from slurmgen.files import is_there, read_text
from slurmgen.plan.model import Plan
from slurmgen.program.framework import Program, calls_of
from slurmgen.python_source import Call
from slurmgen.request.model import Request
from slurmgen.text import counted


def refuse_failing(program: Program, plan: Plan) -> None:
    """Refuse a program that must fail.

    Raises:
        RequestError: Python cannot compile it, or Lightning would stop with the ranks of the plan.
    """
    fault = program.source.fault
    if fault and fault.certain:
        raise RequestError(
            f"{program.file}:{fault.line}: Python cannot compile it: {fault.text}", "Correct the line."
        )
    wrong = list(_trainers(program, plan))
    if wrong and len(wrong) == len(_made(program)):
        raise RequestError(wrong[0], _TRAINER)


_TRAINER = (
    'Write devices="auto" and num_nodes=int(os.environ["SLURM_NNODES"]), or ask for as many GPUs and nodes '
    "with --gpus and --nodes."
)


def warnings_of(program: Program, plan: Plan, project_dir: Path) -> Iterator[str]:
    """What may be wrong with a program in a plan."""
    fault = program.source.fault
    if fault and not fault.certain:
        version = platform.python_version()
        yield f"{program.file}:{fault.line}: Python {version} cannot compile it: {fault.text}"
    wrong = list(_trainers(program, plan))
    if len(wrong) < len(_made(program)):
        yield from wrong
    yield from _fixed_ranks(program, plan)
    yield from _first_gpu(program, plan)
    yield from _gloo(program, plan)
    yield from _missing_software(program, plan, project_dir)


def unsent(job: Request, program: Program | None, project_dir: Path, sent: Collection[str]) -> Iterator[str]:
    """Data of the project that a job is given by name, and that is not sent.

    Args:
        job: the request, whose arguments may name data.
        program: its program, if it was read; the constant texts of it may be names of data.
        project_dir: the folder of the project.
        sent: the files that are sent.
    """
    words = job.script_args or ()
    given = [
        word.rpartition("=")[2]
        for before, word in zip(("", *words), words, strict=False)
        if _is_data(before, word)
    ]
    named = [text for text in (program.source.texts if program else {}) if _DATA_FILE.fullmatch(text)]
    for path in dict.fromkeys([*given, *named]):
        name = str(PurePosixPath(path))
        is_sent = any(one == name or one.startswith(f"{name}/") for one in sent)
        if not path.startswith(("/", "-", "..")) and is_there(project_dir / path) and not is_sent:
            yield f"{path} is not sent, because it is ignored, empty or held back; --send {path} sends it"


_DATA_FILE = re.compile(
    r"[^\s/][^\s]{0,200}\.(?:csv|tsv|jsonl?|parquet|npy|npz|h5|hdf5|txt|tar|zip|lmdb|arrow|safetensors)"
)
_INPUT = re.compile(r"data|input|train|val|test|root|resume|config|pretrained|weights", re.IGNORECASE)
"Options of a program that name what it reads, and not what it writes."


def _is_data(before: str, word: str) -> bool:
    name, is_one_word, _ = word.partition("=")
    return _INPUT.search(name if is_one_word else before) is not None


def _made(program: Program) -> list[Call]:
    """The trainers whose arguments are in the call."""
    calls = calls_of(program, "lightning")
    return [call for call in calls if call.name.endswith((".Trainer", ".Fabric")) and not call.is_base]


def _trainers(program: Program, plan: Plan) -> Iterator[str]:
    """Where Lightning has other devices or nodes than the plan; it then stops, or leaves GPUs idle."""
    ranks = plan.ranks
    if ranks.launcher.name != "lightning" or not ranks.layout.gpus:
        return
    wanted = {"devices": ranks.layout.gpus_per_node, "num_nodes": ranks.layout.nodes}
    for call in _made(program):
        given = {"devices": call.number("devices"), "num_nodes": call.number("num_nodes", 1)}
        differs = [f"{key}={given[key]}" for key in wanted if given[key] not in (None, wanted[key])]
        if differs:
            nodes, gpus = counted(ranks.layout.nodes, "node"), counted(ranks.layout.gpus_per_node, "GPU")
            each = " each" if ranks.layout.nodes > 1 else ""
            fact = f"the Trainer has {' and '.join(differs)}, but the job has {nodes} with {gpus}{each}"
            yield f"{program.file}:{call.line}: {fact}"


_RANK_VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


def _fixed_ranks(program: Program, plan: Plan) -> Iterator[str]:
    """Variables of the launcher that the program overwrites."""
    ranks = plan.ranks
    if ranks.layout.gpus <= 1 or ranks.launcher.shape == "process-per-node" or ranks.launcher.name == "spawn":
        return
    for name in _RANK_VARIABLES:
        call = program.source.variables.get(name)
        if call and str(call.constants["value"]) != (str(ranks.layout.gpus) if name == "WORLD_SIZE" else ""):
            yield (
                f"{program.file}:{call.line}: it sets {name} to {call.constants['value']}, in each of "
                f"{ranks.layout.gpus} ranks; {ranks.launcher.name} sets it"
            )
    address = program.source.variables.get("MASTER_ADDR")
    if address and ranks.layout.nodes > 1:
        yield (
            f"{program.file}:{address.line}: it sets MASTER_ADDR to {address.constants['value']}, so that "
            f"the ranks of {ranks.layout.nodes} nodes cannot meet; the script sets it to the first node"
        )


def _first_gpu(program: Program, plan: Plan) -> Iterator[str]:
    line = program.source.texts.get("cuda:0")
    ranks = plan.ranks
    if (
        line
        and ranks.layout.gpus_per_node > 1
        and ranks.launcher.name in ("ddp", "srun", "deepspeed", "hf-trainer")
    ):
        fact = "each rank that uses cuda:0 takes the first GPU of its node; use LOCAL_RANK"
        yield f"{program.file}:{line}: {fact}"


def _gloo(program: Program, plan: Plan) -> Iterator[str]:
    groups = [call for call in program.source.calls if call.name.endswith(".init_process_group")]
    backends = {call.constants.get("backend", call.first) for call in groups}
    if backends == {"gloo"} and plan.ranks.layout.gpus:
        yield f"{program.file}:{groups[0].line}: the backend gloo is slow on GPUs; use nccl, or leave it out"


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


def _missing_software(program: Program, plan: Plan, project_dir: Path) -> Iterator[str]:
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
        yield f"{fact}; {_software_advice(project_dir)}"


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


def _software_advice(project_dir: Path) -> str:
    found = next((name for name in _CHOICES if (project_dir / name).exists()), None)
    return f"{found} is here: add {_CHOICES[found]}" if found else "add --python-env or --container"
