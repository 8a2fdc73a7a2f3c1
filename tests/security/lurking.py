"""Traps that let a command go on, so that they can all be in one repository."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import packages_distributions
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from slurmgen.sites.model import Site
from tests.security.ground import SECRET, Builder, Ground, git, make_repository, toml

# RUN stands for a command that leaves a mark, by the name behind it.
GIT_CONFIG = Path(__file__).with_name("hostile.gitconfig").read_text()
PROGRAMS = ("git", "ssh", "tar", "sh", "bash", "python", "python3", "sbatch", "squeue", "scontrol", "uv")
GIT_HOOKS = ("post-index-change", "reference-transaction", "pre-commit", "post-checkout")


def git_config(ground: Ground, label: str) -> str:
    return GIT_CONFIG.replace("RUN", ground.payload(f"git-{label}"))


def jobs(ground: Ground) -> None:
    """Jobs of which every value that may be free text runs a command in a shell."""
    text = toml(
        {
            "site": "generic",
            "job": {
                "a": {"framework": "python", "script": "train.py"},
                "b": {
                    "framework": "ddp",
                    "gpus": 2,
                    "script": "train.py",
                    "script_args": [ground.hostile("script-args"), "--checkpoint-action=exec=sh"],
                    "env": {"PROMPT_COMMAND": ground.hostile("env"), "LD_PRELOAD": "evil.so"},
                },
            },
        }
    )
    ground.write("slurmgen.toml", text)
    ground.write("train.py", f"import os\nos.system({ground.payload('train')!r})\nx = {'-' * 900}1\n")


def profiles(ground: Ground) -> None:
    """A profile that replaces a bundled one, and a new one, with commands in all that may be free text."""
    hostile = ground.hostile
    profile = {
        "extends": "generic",
        "title": hostile("title"),
        "login": {"note": hostile("note")},
        "account": {"hint": hostile("hint")},
        "modules": {
            "init": [ground.payload("init")],
            "load": [hostile("load"), "; " + ground.payload("load")],
        },
        "env": {"always": {"A": hostile("always")}, "notes": {"A": hostile("notes")}},
        "rendezvous": {"suffix": hostile("suffix")},
    }
    for name in ("generic", "lab"):
        ground.write(f"site_profiles/{name}.toml", toml({"name": name} | profile))


def profiles_with_a_command_in_each_field(ground: Ground) -> None:
    """A profile for each field of a site that holds text."""
    for number, (*tables, key) in enumerate(text_fields(Site)):
        profile: dict[str, Any] = {"name": f"field{number}", "extends": "generic"}
        table = profile
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = ground.hostile(f"profile-{'-'.join([*tables, key])}")
        ground.write(f"site_profiles/field{number}.toml", toml(profile))


def text_fields(kind: type) -> Iterator[list[str]]:
    """The keys of every field that holds text, in a struct and those within it."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        yield from ([field.encode_name, *keys] for keys in _keys_below(field.type))


def _keys_below(kind: msgspec.inspect.Type) -> Iterator[list[str]]:
    match kind:
        case msgspec.inspect.UnionType(types=types):
            for one in types:
                yield from _keys_below(one)
        case msgspec.inspect.StructType(cls=cls):
            yield from text_fields(cls)
        case msgspec.inspect.DictType(value_type=value):
            yield from (["one", *keys] for keys in _keys_below(value))
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            yield []


def shadowing_modules(ground: Ground) -> None:
    """A module in the way of each one that Python or slurmgen could import."""
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize", "venv"}
    for name in sorted(name for name in names if name.isidentifier()):
        ground.write(f"{name}.py", f"import posix\nposix.open({str(ground.outside / f'ran-{name}')!r}, 65)\n")
    ground.write("pyvenv.cfg", "home = .\n")
    ground.write("evil.pth", f"import os; os.system({ground.payload('pth')!r})\n")


def shadowing_programs(ground: Ground) -> None:
    """Programs of the names that slurmgen starts."""
    for name, folder in product(PROGRAMS, (".", ".venv/bin")):
        ground.write(f"{folder}/{name}", f"#!/bin/sh\n{ground.payload(f'program-{name}')}\n", 0o755)


def git_configuration(ground: Ground) -> None:
    """A repository unpacked from an archive: its configuration, hooks and attributes name programs.

    So do those of a submodule, and those of a bare repository among the files, which any clone can have.
    """
    top, sub, bare = ground.project, ground.project / "sub", ground.project / "exp"
    make_repository(top)
    make_repository(sub)
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{git(sub, 'rev-parse', 'HEAD')},sub")
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    ground.write("exp/HEAD", "ref: refs/heads/main\n")
    ground.write("exp/config", "[core]\n  repositoryformatversion = 0\n  bare = false\n  worktree = ..\n")
    for label, config in {"top": ".git/config", "sub": "sub/.git/config", "bare": "exp/config"}.items():
        ground.write(config, (top / config).read_text() + git_config(ground, label))
    ground.write("more.gitconfig", git_config(ground, "included"))
    url, update = ground.payload("submodule-url"), ground.payload("submodule-update")
    ground.write(
        ".gitmodules", f'[submodule "sub"]\n  path = sub\n  url = ext::{url}\n  update = !{update}\n'
    )
    for folder in (".", "sub", "exp"):
        ground.write(f"{folder}/.gitattributes", "* filter=f diff=f merge=f\n")
    for hook, folder in product(GIT_HOOKS, ("hooks", ".git/hooks", "sub/.git/hooks")):
        ground.write(f"{folder}/{hook}", f"#!/bin/sh\n{ground.payload(f'hook-{hook}')}\n", 0o755)


def odd_files(ground: Ground) -> None:
    """Files that block, never end or are no files, where slurmgen looks for scripts and data."""
    ground.fifo("data.fifo")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        folder = os.open(ground.project, os.O_RDONLY)  # the path of a socket has at most 108 bytes
        server.bind(f"/proc/self/fd/{folder}/a.sock")
        os.close(folder)
    for name, target in {"zero": "/dev/zero", "loop": "loop", "root": "/", "up": ".."}.items():
        ground.link(name, target)
    ground.link("environ", "/proc/self/environ")
    ground.link("secret", ground.outside / "secret.toml")


def odd_names(ground: Ground) -> None:
    """Names that are options, commands, several lines or control sequences to a careless reader."""
    names = [
        *("-rf", "--checkpoint-action=exec=sh x.sh", "--to-command=sh x.sh", "-T", "--files-from=x"),
        *(ground.hostile("name").replace("/", "\\57"), "new\nline", "\x1b]0;title\x07\x1b[2J", "\x9b2J"),
        *("::error file=x::y", "::stop-commands::x", "##[add-mask]x", " leading", "trailing ", "a" * 250),
    ]
    for name in names:
        ground.write(f"names/{name}", "x\n")
    os.close(os.open(os.fsencode(ground.project / "names") + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))


def secrets(ground: Ground) -> None:
    """Files that hold secrets, which .slurmgenignore asks to send."""
    for name in (".env", "id_rsa", ".netrc", ".aws/credentials", "key.pem"):
        ground.write(name, SECRET)
    ground.write(".gitignore", ".env\nid_rsa\n")
    ground.write(".slurmgenignore", "!.env\n!id_rsa\n!key.pem\n")


def links_out_of_the_project(ground: Ground) -> None:
    """Links at the names that commands read and write."""
    outside = ground.outside
    ground.link("out.sbatch", outside / "made-by-output")
    ground.link("linked.sbatch", outside / "dos.sbatch")
    ground.link("linked.svg", outside / "made-by-plot")
    ground.link("device.svg", "/dev/full")
    ground.link("folder-link", outside)
    ground.link("training", outside / "made-by-init")
    ground.link("results/made.txt", outside / "made-by-fetch")
    ground.link("results/folder", outside)


def scripts(ground: Ground) -> None:
    """Batch scripts: one that can be fixed, one in the place of a job's, and one that no job has."""
    lines = ("#!/bin/bash", f"#SBATCH --output={ground.hostile('output')}", "srun python train.py", "")
    ground.write("hand.sbatch", "\r\n".join(lines))
    ground.write("-x.sbatch", "\n".join(lines))
    ground.write(
        "slurm/a.generic.sbatch", "#!/bin/bash\n\x1b]0;title\x07\n::error::x\n ::error::x\n##[group]x\n"
    )
    ground.write("slurm/none\x1b[2J\n::error::x.generic.sbatch", "#!/bin/bash\n")
    ground.write("named\x1b]0;x\x07\n::error::y.sbatch", "\n".join(lines))


LURKING: tuple[Builder, ...] = (
    jobs,
    profiles,
    profiles_with_a_command_in_each_field,
    shadowing_modules,
    shadowing_programs,
    git_configuration,
    odd_files,
    odd_names,
    secrets,
    links_out_of_the_project,
    scripts,
)
"Together in one repository, since none of them stops a command."
