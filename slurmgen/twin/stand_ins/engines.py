#!/usr/bin/env python3
"""A twin's stand-in for podman-hpc and shifter: checks arguments as they do, runs the command on the host.

Which of them it stands for is the name that it is called by. Images are names in a folder beside this file:
`podman-hpc pull` and `shifterimg pull` add one, and a container needs one. Nothing is downloaded or bound.
The options are those of Podman 4.3 with the modules of podman-hpc (https://github.com/NERSC/podman-hpc,
etc/modules.d), and of Shifter (https://github.com/NERSC/shifter, src/shifter.c).
"""

import os
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, NoReturn

PROGRAM = Path(sys.argv[0]).name
STORE = Path(sys.argv[0]).resolve().parent / "images"


class Syntax(NamedTuple):
    """The options of a command."""

    flags: frozenset[str]
    values: frozenset[str]
    short: dict[str, str]


def syntax(flags: str, values: str, short: str) -> Syntax:
    """The options in three lists of words; a word of `short` is a letter and its long option."""
    letters = {word[0]: word[2:] for word in short.split()}
    return Syntax(frozenset(flags.split()), frozenset(values.split()), letters)


PODMAN_RUN = syntax(
    """detach disable-content-trust env-host http-proxy init interactive no-healthcheck no-hosts
    oom-kill-disable passwd privileged publish-all quiet read-only read-only-tmpfs replace rm rmi rootfs
    sig-proxy tls-verify tty unsetenv-all
    gpu nccl mpich cuda-mpich openmpi-pmi2 openmpi-pmix pmi2 pmix cvmfs cfs home scratch exec-wait""",
    """add-host annotation arch attach authfile blkio-weight cap-add cap-drop cgroup-conf cgroup-parent
    cgroupns cgroups cidfile cpu-period cpu-quota cpu-shares cpus cpuset-cpus cpuset-mems
    device device-cgroup-rule dns
    dns-option dns-search entrypoint env env-file env-merge expose gidmap group-add hostname hostuser
    image-volume init-path ip ip6 ipc label label-file log-driver log-opt mac-address memory
    memory-reservation memory-swap mount name network network-alias oom-score-adj os passwd-entry
    personality
    pid pidfile pids-limit platform pod preserve-fds publish pull requires restart secret security-opt
    shm-size stop-signal stop-timeout subgidname subuidname sysctl systemd timeout tmpfs tz uidmap ulimit
    umask unsetenv user userns uts variant volume volumes-from workdir""",
    """a=attach c=cpu-shares d=detach e=env h=hostname i=interactive l=label m=memory p=publish P=publish-all
    q=quiet t=tty u=user v=volume w=workdir""",
)
SHIFTER = syntax(
    "verbose clearenv", "volume image module env env-file", "v=verbose E=clearenv V=volume i=image e=env"
)
PODMAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Options = list[tuple[str, str]]


def main(argv: list[str]) -> None:
    """Run the command of the program that this stands for."""
    commands = {
        ("podman-hpc", "run"): podman_run,
        ("podman-hpc", "pull"): pull,
        ("podman-hpc", "image"): image,
        ("shifterimg", "lookup"): lookup,
        ("shifterimg", "pull"): pull,
    }
    if PROGRAM == "shifter":
        shifter(argv)
    elif command := commands.get((PROGRAM, argv[0] if argv else "")):
        command(argv[1:])
    else:
        fail(f"Error: this stand-in knows no command `{PROGRAM} {' '.join(argv[:1])}`", 125)


def podman_run(argv: list[str]) -> None:
    """`podman-hpc run`: only the named variables reach the command."""
    options, rest = parse(PODMAN_RUN, argv, 125)
    if not rest:
        fail("Error: requires at least 1 arg(s), only received 0", 125)
    given = dict(options)
    if given.get("pull") == "never" and not in_store(rest[0]):
        fail(f"Error: {rest[0]}: image not known", 125)
    mounts = podman_mounts([value for name, value in options if name == "volume"])
    environ = {"PATH": os.environ.get("PATH", PODMAN_PATH), "HOME": "/root", "container": "podman"}
    for name in (value for name, value in options if name == "env"):
        environ |= named(name)
    if workdir := given.get("workdir"):
        change_directory(workdir, mounts, 126)
    run(rest[0], rest[1:], environ, 127)


def podman_mounts(volumes: list[str]) -> dict[str, str]:
    """The source of each destination in `--volume SOURCE:DESTINATION[:OPTIONS]`."""
    mounts: dict[str, str] = {}
    for volume in volumes:
        source, *rest = volume.split(":")
        if len(rest) not in {1, 2}:
            fail(f"Error: incorrect volume format, should be [host-dir:]ctr-dir[:option]: {volume}", 125)
        if not rest[0].startswith("/"):
            fail(f"Error: invalid container path {rest[0]!r}, must be an absolute path", 125)
        if rest[0] in mounts:
            fail(f"Error: {rest[0]}: duplicate mount destination", 125)
        mounts[rest[0]] = source
    return mounts


def named(text: str) -> dict[str, str]:
    """The variables of `--env NAME=VALUE`, `--env NAME` and `--env 'NAME*'`."""
    name, equals, value = text.partition("=")
    if equals:
        return {name: value}
    return {each: value for each, value in os.environ.items() if fnmatchcase(each, name)}


def shifter(argv: list[str]) -> None:
    """`shifter --image=TYPE:NAME COMMAND`: all variables reach the command."""
    argv = [word for word in argv if not re.fullmatch(r"(--workdir|-w|--entrypoint|--entry)(=?\S+)?", word)]
    options, command = parse(SHIFTER, argv, 1)
    images = [value for name, value in options if name == "image"]
    if not images or not images[-1].strip(":"):
        fail(
            'Incorrect format for image identifier: need "image_type:image_desc", e.g., docker:ubuntu:17.10',
            1,
        )
    if not in_store(full_name(images[-1])):
        fail(f"FAILED to lookup image {images[-1]}", 1)
    for volume in (part for name, value in options if name == "volume" for part in value.split(";")):
        if not re.fullmatch(r"/[^:]*:/[^:]*(:[^:]+)?", volume):
            fail(f"Failed to parse volume map option {volume}", 1)
    for name, value in options:
        if name == "env" and not re.fullmatch("[^=]+=.+", value):
            fail(f"Improperly formatted environment variable: {value}", 1)
    extra = dict(value.split("=", 1) for name, value in options if name == "env")
    run(images[-1], command or [os.environ.get("SHELL", "/bin/sh")], dict(os.environ) | extra, 127)


def full_name(name: str) -> str:
    """An image of shifter with its type, which is docker by default."""
    return name if re.match("(docker|id|custom):", name) else f"docker:{name}"


def pull(argv: list[str]) -> None:
    """`pull NAME` adds a name to the store."""
    names = [word for word in argv if not word.startswith("-")]
    if len(names) != 1 or re.search(r"[\s#]|://", names[0]):
        fail(f"Error: invalid reference format: {' '.join(names)}", 125)
    STORE.mkdir(exist_ok=True)
    (STORE / key(names[0])).touch()
    say(f"{names[0]} is not pulled, but its name is known now")


def image(argv: list[str]) -> None:
    """`podman-hpc image exists NAME`."""
    if argv[:1] != ["exists"] or len(argv) != 2:
        fail(f"Error: this stand-in knows only `image exists NAME`, not {' '.join(argv)}", 125)
    sys.exit(0 if in_store(argv[1]) else 1)


def lookup(argv: list[str]) -> None:
    """`shifterimg lookup NAME`."""
    if not in_store(full_name("".join(argv[:1]))):
        fail("Image not found", 1)
    sys.stdout.write("0000\n")


def in_store(name: str) -> bool:
    """Whether an image is in the store: pulled, or one that is never pulled."""
    return name.startswith(("localhost/", "id:")) or (STORE / key(name)).exists()


def key(name: str) -> str:
    """The file name of an image in the store."""
    return re.sub(r"[^\w.-]", "+", full_name(name) if PROGRAM.startswith("shifter") else name)


def parse(syntax: Syntax, argv: list[str], code: int) -> tuple[Options, list[str]]:
    """The options before the first positional argument, and the rest."""
    found: Options = []
    argv = list(argv)
    while argv and argv[0].startswith("-"):
        word = argv.pop(0)
        if word == "--":
            break
        if not word.startswith("--"):
            argv[:0] = spelled_out(syntax, word, code)
            continue
        name, equals, value = word[2:].partition("=")
        if name not in syntax.flags | syntax.values:
            fail(f"Error: unknown flag: --{name}", code)
        if name in syntax.values and not equals and not argv:
            fail(f"Error: flag needs an argument: --{name}", code)
        if name in syntax.values and not equals:
            value = argv.pop(0)
        found.append((name, value))
    return found, argv


def spelled_out(syntax: Syntax, word: str, code: int) -> list[str]:
    """The long options in `-vVa`: `--verbose`, then `-Va`."""
    long, rest = syntax.short.get(word[1:2]), word[2:]
    if long is None:
        fail(f"Error: unknown shorthand flag: {word[1:2]!r} in {word}", code)
    if long in syntax.flags:
        return [f"--{long}", *([f"-{rest}"] if rest else [])]
    return [f"--{long}={rest.removeprefix('=')}"] if rest else [f"--{long}"]


def change_directory(path: str, mounts: dict[str, str], code: int) -> None:
    """Change to a folder of the container, which a mount must make visible."""
    for target, source in mounts.items():
        if path == target or path.startswith(f"{target.rstrip('/')}/"):
            os.chdir(source + path[len(target) :])
            return
    fail(f'Error: workdir "{path}" does not exist on container', code)


def run(image: str, command: list[str], environ: dict[str, str], code: int) -> NoReturn:
    """Execute the command on the host."""
    say(f"stand-in for {PROGRAM}: {image} is not opened; running on the host")
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606
    except (OSError, IndexError) as error:
        fail(f"Error: {' '.join(command[:1])}: {error}", code)


def say(text: str) -> None:
    """One line about this stand-in."""
    sys.stderr.write(f"twin: {text}\n")


def fail(text: str, code: int) -> NoReturn:
    """Print the reason, and exit."""
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
