#!/usr/bin/env python3
"""A twin's stand-in for container engines: checks arguments as they do, runs the command on the host.

Which of them it stands for is the name that it is called by: apptainer, singularity, podman-hpc, shifter or
shifterimg. Nothing is downloaded or bound, and PATH stays the host's, for the command must be found there.

`apptainer pull` writes a placeholder. What is checked and set follows Apptainer's own sources
(cmd/internal/cli/action_flags.go and apptainer.go, internal/pkg/util/env/clean.go): a wrong option ends with
1, a wrong value that only shows later with 255.

Images of the others are names in a folder beside this file: `podman-hpc pull` and `shifterimg pull` add one,
and a container needs one. The options are those of Podman 4.3 with the modules of podman-hpc
(https://github.com/NERSC/podman-hpc, etc/modules.d), and of Shifter (https://github.com/NERSC/shifter,
src/shifter.c).
"""

import csv
import os
import re
import sys
from collections.abc import Callable
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
APPTAINER_EXEC = syntax(
    """nv nvccli rocm no-nv no-rocm cleanenv contain containall compat fakeroot writable writable-tmpfs
    no-home no-init no-umask no-eval no-privs keep-privs allow-setuid pid ipc net uts userns
    disable-cache underlay unsquash vm vm-err no-https docker-login passphrase oom-kill-disable
    no-tmp-sandbox no-pid sharens""",
    """bind env env-file pwd cwd home overlay scratch workdir app mount hostname network network-args dns
    security apply-cgroups add-caps drop-caps no-mount fusemount blkio-weight blkio-weight-device
    cpu-shares cpus cpuset-cpus cpuset-mems memory memory-reservation memory-swap pids-limit pem-path
    docker-host authfile netns-path vm-ram vm-cpu vm-ip containlibs tmpdir dmtcp-launch dmtcp-restart
    runscript-timeout""",
    """B=bind H=home o=overlay S=scratch W=workdir C=containall c=contain e=cleanenv f=fakeroot i=ipc
    n=net p=pid u=userns w=writable""",
)
PODMAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GLOBAL_FLAGS = {"-d", "--debug", "--nocolor", "-s", "--silent", "-q", "--quiet", "-v", "--verbose"}
BIND_OPTIONS = ("ro", "rw", "image-src", "id")
NOT_FROM_HOST = {"LD_LIBRARY_PATH"}
PROXIES = [f"{scheme}_proxy" for scheme in ("http", "https", "no", "all", "ftp")]
KEPT_WHEN_CLEAN = {"TERM", "PATH", "HOME", *PROXIES, *map(str.upper, PROXIES)}
PREFIX = PROGRAM.upper()
Options = list[tuple[str, str]]
Refuse = Callable[[str], NoReturn]


def main(argv: list[str]) -> None:
    """Run the command of the program that this stands for."""
    commands = {
        ("podman-hpc", "run"): podman_run,
        ("podman-hpc", "pull"): pull,
        ("podman-hpc", "image"): image,
        ("shifterimg", "lookup"): lookup,
        ("shifterimg", "pull"): pull,
    }
    if PROGRAM in {"apptainer", "singularity"}:
        apptainer(argv)
    elif PROGRAM == "shifter":
        shifter(argv)
    elif command := commands.get((PROGRAM, argv[0] if argv else "")):
        command(argv[1:])
    else:
        fail(f"Error: this stand-in knows no command `{PROGRAM} {' '.join(argv[:1])}`", 125)


def apptainer(argv: list[str]) -> None:
    """`apptainer exec IMAGE COMMAND` and `apptainer pull`."""
    while argv and argv[0] in GLOBAL_FLAGS:
        argv = argv[1:]
    if argv[:1] == ["--version"]:
        sys.stdout.write(f"{PROGRAM} version 1.4.0 (a twin's stand-in)\n")
    elif argv[:1] == ["pull"]:
        pull_file(argv[1:])
    elif argv[:1] == ["exec"]:
        apptainer_exec(argv[1:])
    else:
        given = " ".join(argv[:1]) or "no command"
        fail(f"Error: this stand-in knows only `{PROGRAM} exec` and `pull`, not {given}", 1)


def apptainer_exec(argv: list[str]) -> None:
    """`apptainer exec`: the host's variables reach the command, unless it is to be clean."""
    found, rest = parse(APPTAINER_EXEC, argv, usage)
    options = [
        (name, each) for name, value in found for each in (parse_env(value) if name == "env" else [value])
    ]
    options = [
        (name, truth(name, value)) if name in APPTAINER_EXEC.flags else (name, value)
        for name, value in options
    ]
    if len(rest) < 2:
        usage(f"requires at least 2 arg(s), only received {len(rest)}")
    environ = environment(options, dict(os.environ), rest[0])
    binds = [bind for name, value in options if name == "bind" for bind in parse_binds(value)]
    change_to_pwd(options, binds)
    run(rest[0], rest[1:], environ, 255, "FATAL:  ")


def pull_file(argv: list[str]) -> None:
    """`apptainer pull [FILE] URI`."""
    force = argv[:1] in (["--force"], ["-F"])
    names = argv[1:] if force else argv
    if not 1 <= len(names) <= 2 or any(name.startswith("-") for name in names) or "://" not in names[-1]:
        fail(
            f'Error for command "pull": this stand-in reads only [--force] [FILE] URI, not {" ".join(argv)}',
            1,
        )
    path = names[0] if len(names) == 2 else names[-1].rpartition("/")[2].replace(":", "_") + ".sif"
    if os.path.exists(path) and not force:  # noqa: PTH110
        fail(f'FATAL:   Image file already exists: "{path}" - will not overwrite', 255)
    with open(path, "w") as file:  # noqa: PTH123
        file.write("a twin's stand-in for an image\n")
    say(f"stand-in for {PROGRAM}: {names[-1]} is not pulled; {path} is a placeholder")


def truth(name: str, value: str) -> str:
    """The value in `--nv=false`, as Go reads booleans."""
    if value.lower() not in {"1", "0", "t", "f", "true", "false"}:
        usage(f'invalid argument "{value}" for "--{name}" flag')
    return "true" if value.lower() in {"1", "t", "true"} else "false"


def parse_env(value: str) -> list[str]:
    """The pairs in `--env A=1,B=2`: with one `=` it is one pair, commas and all; with more it is CSV."""
    pairs = [value.strip('"')] if value.count("=") == 1 else next(csv.reader([value], strict=True), [""])
    for pair in pairs:
        if "=" not in pair:
            usage(f'invalid argument "{value}" for "--env" flag: {pair} must be formatted as key=value')
    return pairs


def parse_binds(value: str) -> list[tuple[str, str]]:
    """Source and destination of each bind in `src[:dest[:opts]],...`; sources need not exist here."""
    binds: list[tuple[str, str]] = []
    for part in value.split(","):
        if binds and part.partition("=")[0] in BIND_OPTIONS:
            continue  # a further option of the preceding bind
        source, _, rest = part.partition(":")
        destination, _, option = rest.partition(":")
        if option and option.partition("=")[0] not in BIND_OPTIONS:
            fail(f"FATAL:   while parsing bind path: {option} is not a valid bind option", 255)
        if not (destination or source).startswith("/"):
            fail(f"FATAL:   while parsing bind path: {part!r}: the destination must be an absolute path", 255)
        if not source:
            say(f"bind {part!r} has no source; is a variable in it unset?")
        binds.append((source, destination or source))
    return binds


def environment(options: Options, host: dict[str, str], image: str) -> dict[str, str]:
    """The command's environment: --env over the host's APPTAINERENV_NAME over the host's NAME."""
    clean = ("cleanenv", "true") in options or ("containall", "true") in options
    chosen = {name.removeprefix(f"{PREFIX}ENV_"): value for name, value in host.items() if is_chosen(name)}
    chosen |= dict(value.split("=", 1) for name, value in options if name == "env")
    chosen.pop("HOME", None)  # Apptainer does not permit it
    passed = {
        name: value
        for name, value in host.items()
        if not name.startswith((f"{PREFIX}_", f"{PREFIX}ENV_"))
        and (name in KEPT_WHEN_CLEAN if clean else name not in NOT_FROM_HOST)
    }
    path = [
        chosen.pop("PREPEND_PATH", ""),
        chosen.pop("PATH", passed.get("PATH", "")),
        chosen.pop("APPEND_PATH", ""),
    ]
    own = {f"{PREFIX}_CONTAINER": image, f"{PREFIX}_NAME": os.path.basename(image)}  # noqa: PTH119
    return passed | ({"LANG": "C"} if clean else {}) | chosen | own | {"PATH": ":".join(filter(None, path))}


def is_chosen(name: str) -> bool:
    """Whether a host variable is meant for the container."""
    return name.startswith(f"{PREFIX}ENV_") and name != f"{PREFIX}ENV_"


def change_to_pwd(options: Options, binds: list[tuple[str, str]]) -> None:
    """Change to the folder of --pwd, or to the one that is bound there."""
    for name, value in options:
        if name in {"pwd", "cwd"}:
            sources = {destination: source for source, destination in binds if source}
            try:
                os.chdir(sources.get(value, value))
            except OSError as error:
                fail(f"FATAL:   {value}: {error.strerror}", 255)


def usage(text: str) -> NoReturn:
    """End as Apptainer ends on a command line that it cannot read."""
    syntax = f"{PROGRAM} exec [exec options...] <container> <command>"
    fail(f'Error for command "exec": {text}\n\nUsage:\n  {syntax}', 1)


def podman_run(argv: list[str]) -> None:
    """`podman-hpc run`: only the named variables reach the command."""
    options, rest = parse(PODMAN_RUN, argv, lambda text: fail(f"Error: {text}", 125))
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
    options, command = parse(SHIFTER, argv, lambda text: fail(f"Error: {text}", 1))
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


def parse(syntax: Syntax, argv: list[str], refuse: Refuse) -> tuple[Options, list[str]]:
    """The options before the first positional argument, and the rest; as Go's pflag reads them."""
    found: Options = []
    argv = list(argv)
    while argv and argv[0].startswith("-") and argv[0] != "-":
        word = argv.pop(0)
        if word == "--":
            break
        if not word.startswith("--"):
            argv[:0] = spelled_out(syntax, word, refuse)
            continue
        name, equals, value = word[2:].partition("=")
        if name in syntax.flags:
            found.append((name, value if equals else "true"))
        elif name not in syntax.values:
            refuse(f"unknown flag: --{name}")
        elif not equals and not argv:
            refuse(f"flag needs an argument: --{name}")
        else:
            found.append((name, value if equals else argv.pop(0)))
    return found, argv


def spelled_out(syntax: Syntax, word: str, refuse: Refuse) -> list[str]:
    """The long options in `-vVa`: `--verbose`, then `-Va`."""
    long, rest = syntax.short.get(word[1]), word[2:]
    if long is None:
        refuse(f"unknown shorthand flag: {word[1]!r} in {word}")
    if long in syntax.flags and rest and not rest.startswith("="):
        return [f"--{long}", f"-{rest}"]
    return [f"--{long}={rest.removeprefix('=')}" if rest else f"--{long}"]


def change_directory(path: str, mounts: dict[str, str], code: int) -> None:
    """Change to a folder of the container, which a mount must make visible."""
    for target, source in mounts.items():
        if path == target or path.startswith(f"{target.rstrip('/')}/"):
            os.chdir(source + path[len(target) :])
            return
    fail(f'Error: workdir "{path}" does not exist on container', code)


def run(
    image: str, command: list[str], environ: dict[str, str], code: int, failure: str = "Error:"
) -> NoReturn:
    """Execute the command on the host."""
    say(f"stand-in for {PROGRAM}: {image} is not opened; running on the host")
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606
    except (OSError, IndexError) as error:
        fail(f"{failure} {' '.join(command[:1])}: {getattr(error, 'strerror', error)}", code)


def say(text: str) -> None:
    """One line about this stand-in."""
    sys.stderr.write(f"twin: {text}\n")


def fail(text: str, code: int) -> NoReturn:
    """Print the reason, and exit."""
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
