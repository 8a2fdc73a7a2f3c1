"""Environments, containers and secrets of a launch."""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Command, Launch, Script, Span
from slurmgen.lint.rules.common import is_amd, loads_module, steps
from slurmgen.secret_names import has_key, has_secret_name, is_placeholder, keys_in

_HOOK = 'write `eval "$(conda shell.bash hook)"`'
_INITIALIZERS = ("source", ".", "eval", "module", "ml", "spack")
_UNRELATED = re.compile(
    r"(\S*/)?(cuda|cudnn|gcc|nccl|openmpi|mpi|intel|nvhpc|rocm|cmake|git|compilers?|apptainer|singularity)"
    r"([-_/][\w.-]*)*"
)
"Modules that do not contain conda."
_VERBS = ("load", "add", "purge", "reset", "list", "-q")


@rule("SG502", "warning")
def conda_not_set_up(script: Script) -> Iterator[Finding]:
    """conda is not initialized in a batch shell.

    ## What it checks
    Checks for `conda activate` without an earlier command that could initialize conda: a sourced file, a
    loaded module, or an `eval`. `source activate` is not reported: it needs only the PATH, which sbatch
    passes on. Neither are scripts that use a login shell or an interactive shell.

    ## Why it matters
    `conda activate` is a shell function that .bashrc defines, and a batch script does not read .bashrc.

    ## Example
        conda activate torch

    ## Use instead
        eval "$(conda shell.bash hook)"
        conda activate torch

    ## When to ignore
    If the shell that submits the job exports the functions of conda.

    ## Reference
    conda/conda issue 9193
    """
    letters = "".join(word for word in script.first_line.split()[1:] if word.startswith("-"))
    if "l" in letters or "i" in letters:
        return
    for command in script.commands:
        if command.name == "conda" and command.texts[1:2] == ["activate"]:
            fact = "no command before this one initializes conda"
            yield Finding(command.span, fact, f"{_HOOK}, then `conda activate NAME`")
            return
        if _initializes(command) or command.name.startswith("conda_init"):
            return


def _initializes(command: Command) -> bool:
    """Whether a command may initialize conda; a module may, unless it is known to be another tool."""
    if command.name not in ("module", "ml"):
        return command.name in _INITIALIZERS
    names = [text for text in command.texts[1:] if text not in _VERBS]
    return not all(_UNRELATED.fullmatch(name) for name in names)


_GPU_FLAGS = {
    "apptainer": ("nv", "nvccli", "rocm"),
    "podman": ("gpu", "gpus", "device", "privileged", "runtime"),
}
_GPU_VARIABLES = {
    f"{engine}_{flag}" for engine in ("APPTAINER", "SINGULARITY") for flag in ("NV", "ROCM", "NVCCLI")
}


@rule("SG503", "error")
def container_without_gpu(script: Script) -> Iterator[Finding]:
    """A container is started without a GPU option.

    ## What it checks
    In jobs with GPUs, checks for launches in `apptainer` or `singularity` without `--nv` or `--rocm`, and in
    podman or docker without a GPU option. A script that sets a variable such as `APPTAINER_NV`, or loads a
    module whose name contains "bindings", is not reported: at some sites, such a module binds the driver.
    Neither is a launch with ROCm in the name of its image or of a loaded module, or in a GPU partition of
    LUMI: the image then contains the libraries, and the devices are visible in every container.

    ## Why it matters
    The libraries of the GPU driver are not visible in the container. PyTorch finds no GPU, and stops or
    trains on the CPU.

    ## Example
        srun apptainer exec pytorch.sif python train.py

    ## Use instead
        srun apptainer exec --nv pytorch.sif python train.py

    Use `--rocm` for AMD GPUs.

    ## When to ignore
    If the site binds the driver into every container.

    ## Reference
    https://apptainer.org/docs/user/main/gpu.html
    """
    if not script.job.has_gpus or loads_module(script, "bindings") or is_amd(script):
        return
    for launch in script.launches:
        for layer in launch.layers:
            flags = _GPU_FLAGS.get(layer.kind)
            if flags and layer.options.lacks(*flags) and not _gets_gpus_otherwise(launch):
                yield Finding(
                    layer.word.span,
                    f"{layer.word.text.rpartition('/')[2]} has no GPU option, so the container has no GPU",
                    f"add `--{flags[0]}`" + (" (AMD GPUs: `--rocm`)" if layer.kind == "apptainer" else ""),
                )


def _gets_gpus_otherwise(launch: Launch) -> bool:
    uses_rocm = any("rocm" in word.text.lower() for word in launch.command.words)
    return uses_rocm or bool(_GPU_VARIABLES & launch.env.keys())


@rule("SG504", "warning")
def uv_run_in_tasks(script: Script) -> Iterator[Finding]:
    """Several tasks run `uv run` at the same time.

    ## What it checks
    Checks for `uv run` without `--no-sync` under an srun with several tasks.

    ## Why it matters
    Each task updates the environment before it starts. On a shared file system the updates race, and some
    tasks see an incomplete environment. The updates also delay every start of the job.

    ## Example
        srun uv run python train.py

    ## Use instead
        uv sync --locked
        srun .venv/bin/python train.py

    Or run `srun uv run --no-sync python train.py` after `uv sync`.

    ## When to ignore
    If the environment is on a local disk of each node, and each node has one task.

    ## Reference
    https://docs.astral.sh/uv/reference/cli/#uv-run
    """
    for launch, _ in steps(script):
        tasks, uv = script.step(launch).least_tasks, launch.under("uv")
        if not uv or tasks < 2 or "UV_NO_SYNC" in launch.env:
            continue
        kinds = [layer.kind for layer in launch.layers]
        if kinds.index("srun") < kinds.index("uv") and uv.options.lacks("no-sync"):
            yield Finding(
                uv.word.span,
                f"{tasks} tasks run `uv run` at the same time and update one environment",
                "run `uv sync` before srun, and `.venv/bin/python` or `uv run --no-sync` in the step",
            )


@rule("SG513", "warning")
def conda_init(script: Script) -> Iterator[Finding]:
    """`conda init` runs in a job.

    ## What it checks
    Checks for `conda init` and `mamba init`.

    ## Why it matters
    The command changes ~/.bashrc, which the batch shell does not read again, so `conda activate` fails in
    this shell. Several jobs that write the file at the same time can damage it.

    ## Example
        conda init bash
        conda activate torch

    ## Use instead
        eval "$(conda shell.bash hook)"
        conda activate torch

    ## When to ignore
    Never in a job.

    ## Reference
    https://docs.conda.io/projects/conda/en/stable/commands/init.html
    """
    for command in script.commands:
        if command.name in ("conda", "mamba", "micromamba") and command.texts[1:2] == ["init"]:
            fact = f"`{command.name} init` changes ~/.bashrc, and has no effect in this shell"
            yield Finding(command.span, fact, _HOOK)


_DEFAULT_VALUE = re.compile(r"\$\{\w+:?[-=]['\"]?([^'\"{}$]+)['\"]?\}")
_KEY = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_-]{20,}")


@rule("SG514", "warning")
def secret(script: Script) -> Iterator[Finding]:
    """The script contains a key or a token.

    ## What it checks
    Checks for variables such as `WANDB_API_KEY`, `HF_TOKEN` or `OPENAI_API_KEY` with a literal value, also as
    the default in `${NAME:-VALUE}`, for `wandb login KEY`, and in the whole script, comments included, for
    the forms of over 30 kinds of keys: those of GitHub, GitLab, Hugging Face, OpenAI, Anthropic, AWS, Google,
    Azure, Slack and other services, JSON web tokens, private keys, and passwords in URLs.

    ## Why it matters
    Slurm stores the script of a job, and administrators can read it. In a repository everybody who reads it
    has the key.

    ## Example
        export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567

    ## Use instead
        export WANDB_API_KEY="$(cat ~/.secrets/wandb)"

    ## When to ignore
    If the value is not a secret.
    """
    reported: list[Span] = []
    for span, what in (*_secret_variables(script), *_secret_arguments(script)):
        reported.append(span)
        yield _secret(span, f"{what} looks like a secret")
    for key in keys_in(script.source.plain):
        if not any(span.start <= key.start < span.end for span in reported):
            yield _secret(Span(key.start, key.end), f"this looks like {key.kind}")


def _secret_variables(script: Script) -> Iterator[tuple[Span, str]]:
    for found in script.shell.assignments:
        default = _DEFAULT_VALUE.fullmatch(found.raw.strip('"'))
        value = default[1] if default else found.value
        if has_key(found.name, value) or (has_secret_name(found.name) and _is_key(value)):
            yield found.span, found.name


def _secret_arguments(script: Script) -> Iterator[tuple[Span, str]]:
    for command in script.commands:
        if "login" in command.texts[:3]:
            for word in command.words[1:]:
                if _is_key(word.text):
                    yield word.span, f"an argument of {command.name}"


def _is_key(value: str) -> bool:
    return bool(_KEY.fullmatch(value)) and not is_placeholder(value)


def _secret(span: Span, message: str) -> Finding:
    return Finding(span, message, "read it from a file that only you can read, and revoke it")


_REGISTRIES = ("docker://", "oras://", "library://", "shub://")


@rule("SG515", "warning")
def image_per_rank(script: Script) -> Iterator[Finding]:
    """Every task of a step pulls the image of its container.

    ## What it checks
    Checks for apptainer or singularity with an image in a registry, such as `docker://`, under an srun with
    several tasks.

    ## Why it matters
    All tasks download and convert the image at the same time. They fill the cache in the home directory, and
    the registry may reject them.

    ## Example
        srun apptainer exec --nv docker://pytorch/pytorch python train.py

    ## Use instead
        apptainer pull pytorch.sif docker://pytorch/pytorch
        srun apptainer exec --nv pytorch.sif python train.py

    ## When to ignore
    If the image is already in the cache of every node.

    ## Reference
    https://apptainer.org/docs/user/main/cli/apptainer_pull.html
    """
    for launch, _ in steps(script):
        tasks = script.step(launch).least_tasks
        image = next((word for word in launch.command.words if word.text.startswith(_REGISTRIES)), None)
        if image and tasks > 1 and launch.under("apptainer"):
            yield Finding(
                image.span,
                f"each of the {tasks} tasks pulls the image",
                "pull it once before srun: `apptainer pull image.sif URL`",
            )
