#!/usr/bin/env python3
"""A twin's stand-in for what pyxis and CSCS's Container Engine add to srun, and for `enroot import`.

It comes before the real srun in PATH. It checks the options of the plug-ins as they do and takes them out.
In each task, it sets the environment and the folder as the container would, and runs the command on the host.
The image is not opened and nothing is bound. It counts as one with PyTorch, for which enroot's hook sets
variables. The rules are those of pyxis (https://github.com/NVIDIA/pyxis, args.c and pyxis_slurmstepd.c), of
enroot (https://github.com/NVIDIA/enroot, conf/hooks/extra/50-slurm-pytorch.sh) and of
https://docs.cscs.ch/software/container-engine/.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(sys.argv[0]).resolve().parent
VALUES = {"image", "mounts", "workdir", "name", "save", "env"}
FLAGS = """mount-home remap-root entrypoint entrypoint-log writable readonly""".split()
EDF_KEYS = set("base_environment image workdir entrypoint writable mounts env annotations devices".split())
REFERENCE = re.compile(
    r"(?:[\w$.-]+@)?(?:[\w.-]+(?::\d+)?#)?[a-z0-9._/-]+(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?"
)

Spec = dict[str, Any]


def main(argv: list[str]) -> None:
    """Run the part that the name and the first argument choose."""
    if Path(sys.argv[0]).name == "enroot":
        enroot(argv)
    elif argv[:1] == ["--in-task"]:
        in_task(json.loads(argv[1]), argv[2:])
    else:
        srun(argv)


def srun(argv: list[str]) -> NoReturn:
    """Start the real srun; the command runs as in a container where the options name one."""
    real = real_srun()
    if not any(word.startswith(("--container-", "--no-container-", "--environment")) for word in argv):
        os.execv(real, ["srun", *argv])  # noqa: S606
    options, plugin, command = split(argv, with_values(real))
    if not plugin:
        os.execv(real, ["srun", *options, *command])  # noqa: S606
    task = [sys.executable, sys.argv[0], "--in-task", json.dumps(container(plugin)), *command]
    os.execv(real, ["srun", *options, *task])  # noqa: S606


def real_srun() -> str:
    """The next srun in PATH."""
    paths = (Path(folder, "srun") for folder in os.get_exec_path())
    path = next((path for path in paths if path.resolve().parent != HERE and os.access(path, os.X_OK)), None)
    if path is None:
        fail("srun: command not found", 127)
    return str(path)


def with_values(real: str) -> set[str]:
    """The options of srun that take a value, by its own help."""
    text = subprocess.run([real, "--help"], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^\s+(?:(-\w), )?(--[\w-]+)=", text, re.MULTILINE)
    return {name for pair in found for name in pair if name}


def split(argv: list[str], valued: set[str]) -> tuple[list[str], Spec, list[str]]:
    """The options of srun, those of the plug-ins, and the command."""
    options: list[str] = []
    plugin: Spec = {}
    words = list(argv)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name == "--environment" or (name.startswith("--container-") and name[12:] in VALUES):
            if name in plugin:
                fail(f"srun: error: pyxis: {name} specified multiple times", 1)
            plugin[name] = value if equals else words.pop(0)
            if not plugin[name]:
                fail(f"srun: error: pyxis: {name}: argument required", 1)
        elif re.fullmatch(f"--(no-)?container-({'|'.join(FLAGS)})", name):
            plugin[name] = True
        else:
            options.append(word)
            if name in valued and not equals and words:
                options.append(words.pop(0))
    return options, plugin, words


def container(plugin: Spec) -> Spec:
    """The mounts, the folder and the variables of the container that the options ask for."""
    if "--environment" in plugin:
        return of_definition(plugin)
    if "--container-image" not in plugin:
        fail("srun: error: pyxis: --container-image or --container-name is required", 1)
    check_image(plugin["--container-image"])
    mounts = [part for part in plugin.get("--container-mounts", "").split(",") if part]
    return {
        "engine": "pyxis",
        "image": plugin["--container-image"],
        "mounts": dict(map(mount, mounts)),
        "workdir": plugin.get("--container-workdir"),
        "kept": plugin.get("--container-env", "").split(","),
        "env": {},
    }


def check_image(image: str) -> None:
    """A path has a slash at its beginning or after a dot; anything else is a reference to a registry."""
    if image.startswith(("/", "./", "../")) or (image.endswith((".sqsh", ".squashfs")) and "/" in image):
        return
    if not REFERENCE.fullmatch(image):
        fail(f"pyxis: failed to import docker image: [ERROR] Invalid image reference: {image}", 1)
    if "#" not in image and re.match(r"[\w-]+\.[\w.-]+/", image):
        fail(f"pyxis: failed to import docker image: Docker Hub has no {image}; a registry ends with #", 1)


def mount(text: str) -> tuple[str, str]:
    """Target and source of SOURCE:TARGET[:FLAGS]."""
    source, _, rest = text.partition(":")
    target = rest.partition(":")[0] or source
    if not source or text.endswith(":") or text.count(":") > 2:
        fail(f"srun: error: pyxis: --container-mounts: invalid format: {text}", 1)
    if source[0] not in "./" or target[0] not in "./" or re.search(r"\s", text):
        fail(f"srun: error: pyxis: could not add mount entry: {source}:{target}", 1)
    return target, source


def of_definition(plugin: Spec) -> Spec:
    """The container of an environment definition file: a path with a slash, or a name in EDF_PATH."""
    import tomllib

    name = plugin["--environment"]
    folders = os.environ.get("EDF_PATH", f"{Path.home()}/.edf").split(":")
    paths = [Path(name)] if "/" in name else [Path(folder, f"{name}.toml") for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        fail(f"srun: error: [Container Engine] environment {name} not found", 1)
    try:
        content = tomllib.loads(path.read_text())
    except ValueError as error:
        fail(f"srun: error: [Container Engine] {path}: {error}", 1)
    if unknown := sorted(content.keys() - EDF_KEYS) or (
        ["image is missing"] if "image" not in content else []
    ):
        fail(f"srun: error: [Container Engine] {path}: {', '.join(unknown)}", 1)
    check_image(content["image"])
    return {
        "engine": "the Container Engine",
        "image": content["image"],
        "mounts": dict(mount(os.path.expandvars(text)) for text in content.get("mounts", [])),
        "workdir": plugin.get("--container-workdir", os.path.expandvars(content.get("workdir", "/"))),
        "kept": None,
        "env": content.get("env", {}),
    }


def in_task(spec: Spec, command: list[str]) -> NoReturn:
    """Run the command of one task as in the container."""
    environ = dict(os.environ)
    if spec["kept"] is not None:
        environ |= {name: value for name, value in of_hook().items() if name not in spec["kept"]}
    environ |= {name: os.path.expandvars(value) for name, value in spec["env"].items()}
    change_directory(spec["workdir"] or "/", spec["mounts"])
    sys.stderr.write(
        f"twin: stand-in for {spec['engine']}: {spec['image']} is not opened; running on the host\n"
    )
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606
    except OSError as error:
        fail(f"slurmstepd: error: execve(): {command[0]}: {error.strerror}", 2)


def of_hook() -> dict[str, str]:
    """What enroot's hook and pyxis set in a container with PyTorch, over variables that it does not keep."""
    task = os.environ
    several = int(task.get("SLURM_STEP_NUM_TASKS", "1")) > int(task.get("SLURM_STEP_NUM_NODES", "1"))
    return {
        "MASTER_ADDR": "set-by-the-hook",
        "MASTER_PORT": str(int(task.get("SLURM_JOB_ID", "0")) % 4536 + 61000),
        "WORLD_SIZE": task.get("SLURM_NTASKS", "1"),
        "RANK": task.get("SLURM_PROCID", "0"),
        "LOCAL_RANK": task.get("SLURM_LOCALID", "0"),
    } | ({"OMP_NUM_THREADS": "1"} if several else {})


def change_directory(path: str, mounts: dict[str, str]) -> None:
    """Change to a folder of the container, which a mount must make visible."""
    if path == "/":
        os.chdir("/")
        return
    for target, source in mounts.items():
        if path == target or path.startswith(f"{target.rstrip('/')}/"):
            os.chdir(source + path[len(target) :])
            return
    fail(f"slurmstepd: error: pyxis: couldn't chdir to {path}: No such file or directory", 1)


def enroot(argv: list[str]) -> None:
    """`enroot import [--output FILE] URI`, which writes a placeholder."""
    words = list(argv)
    output = None
    if words[:1] != ["import"]:
        fail("[ERROR] this stand-in knows only `enroot import`", 1)
    words.pop(0)
    while words and words[0].startswith("-") and words[0] != "--":
        name, equals, value = words.pop(0).partition("=")
        if name not in {"-o", "--output"}:
            fail(f"[ERROR] Invalid argument: {name}", 1)
        output = value if equals else words.pop(0)
    uri = "".join(words[-1:])
    if not uri.startswith("docker://"):
        fail(f"[ERROR] Invalid argument: {uri}", 1)
    check_image(uri.removeprefix("docker://"))
    path = Path(output or uri.removeprefix("docker://").replace("/", "+").replace(":", "+") + ".sqsh")
    if path.exists():
        fail(f"[ERROR] File already exists: {path}", 1)
    path.write_text("a twin's stand-in for an image\n")


def fail(text: str, code: int) -> NoReturn:
    """Print the reason, and exit."""
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
