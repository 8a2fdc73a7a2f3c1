#!/usr/bin/env python3
"""A twin's stand-in for `apptainer exec`: checks arguments as Apptainer does, runs the command on the host.

Called as `singularity`, it stands for that. `pull` writes a placeholder.
The image is not opened and nothing is bound; PATH stays the host's, for the command must be found there.
What is checked and set follows Apptainer's own sources (cmd/internal/cli/action_flags.go and apptainer.go,
internal/pkg/util/env/clean.go): a wrong option ends with 1, a wrong value that only shows later with 255.
"""

import csv
import os
import sys
from typing import NoReturn

FLAGS = """nv nvccli rocm no-nv no-rocm cleanenv contain containall compat fakeroot writable writable-tmpfs
no-home no-init no-umask no-eval no-privs keep-privs allow-setuid pid ipc net uts userns disable-cache
underlay unsquash vm vm-err no-https docker-login passphrase oom-kill-disable no-tmp-sandbox no-pid sharens
""".split()
VALUES = """bind env env-file pwd cwd home overlay scratch workdir app mount hostname network network-args dns
security apply-cgroups add-caps drop-caps no-mount fusemount blkio-weight blkio-weight-device cpu-shares cpus
cpuset-cpus cpuset-mems memory memory-reservation memory-swap pids-limit pem-path docker-host authfile
netns-path vm-ram vm-cpu vm-ip containlibs tmpdir dmtcp-launch dmtcp-restart runscript-timeout""".split()
SHORT = {
    "B": "bind", "H": "home", "o": "overlay", "S": "scratch", "W": "workdir", "C": "containall",
    "c": "contain", "e": "cleanenv", "f": "fakeroot", "i": "ipc", "n": "net", "p": "pid", "u": "userns",
    "w": "writable",
}  # fmt: skip
GLOBAL_FLAGS = {"-d", "--debug", "--nocolor", "-s", "--silent", "-q", "--quiet", "-v", "--verbose"}
BIND_OPTIONS = ("ro", "rw", "image-src", "id")
NOT_FROM_HOST = {"LD_LIBRARY_PATH"}
PROXIES = [f"{scheme}_proxy" for scheme in ("http", "https", "no", "all", "ftp")]
KEPT_WHEN_CLEAN = {"TERM", "PATH", "HOME", *PROXIES, *map(str.upper, PROXIES)}

PROGRAM = "singularity" if sys.argv[0].endswith("singularity") else "apptainer"
PREFIX = PROGRAM.upper()
Options = list[tuple[str, str]]


def main(argv: list[str]) -> None:
    """Check the command line, then execute the command."""
    while argv and argv[0] in GLOBAL_FLAGS:
        argv = argv[1:]
    if argv[:1] == ["--version"]:
        sys.stdout.write(f"{PROGRAM} version 1.4.0 (a twin's stand-in)\n")
        return
    if argv[:1] == ["pull"]:
        pull(argv[1:])
        return
    if argv[:1] != ["exec"]:
        given = " ".join(argv[:1]) or "no command"
        fail(f"Error: this stand-in knows only `{PROGRAM} exec` and `pull`, not {given}", 1)
    options, rest = parse(argv[1:])
    if len(rest) < 2:
        usage(f"requires at least 2 arg(s), only received {len(rest)}")
    image, command = rest[0], rest[1:]
    environ = environment(options, dict(os.environ), image)
    binds = [bind for name, value in options if name == "bind" for bind in parse_binds(value)]
    change_directory(options, binds)
    say(f"stand-in for {PROGRAM}: {image} is not opened; running on the host")
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606
    except OSError as error:
        fail(f"FATAL:   {command[0]}: {error.strerror}", 255)


def pull(argv: list[str]) -> None:
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


def parse(argv: list[str]) -> tuple[Options, list[str]]:
    """The options before the first positional argument, and the rest; as Go's pflag reads them."""
    found: Options = []
    argv = list(argv)
    while argv and argv[0].startswith("-") and argv[0] != "-":
        word = argv.pop(0)
        if word == "--":
            break
        if not word.startswith("--"):
            argv[:0] = spelled_out(word)
            continue
        name, equals, value = word[2:].partition("=")
        if name in FLAGS:
            found.append((name, truth(name, value) if equals else "true"))
        elif name not in VALUES:
            usage(f"unknown flag: --{name}")
        elif not equals and not argv:
            usage(f"flag needs an argument: --{name}")
        else:
            value = value if equals else argv.pop(0)
            found += [(name, each) for each in (parse_env(value) if name == "env" else [value])]
    return found, argv


def spelled_out(word: str) -> list[str]:
    """The long options in `-eB/a`: `--cleanenv`, then `-B/a`."""
    name, rest = SHORT.get(word[1]), word[2:]
    if name is None:
        usage(f"unknown shorthand flag: {word[1]!r} in {word}")
    if name in FLAGS and rest and not rest.startswith("="):
        return [f"--{name}", f"-{rest}"]
    return [f"--{name}={rest.removeprefix('=')}" if rest else f"--{name}"]


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


def change_directory(options: Options, binds: list[tuple[str, str]]) -> None:
    """Change to the folder of --pwd, or to the one that is bound there."""
    for name, value in options:
        if name in {"pwd", "cwd"}:
            sources = {destination: source for source, destination in binds if source}
            try:
                os.chdir(sources.get(value, value))
            except OSError as error:
                fail(f"FATAL:   {value}: {error.strerror}", 255)


def say(text: str) -> None:
    """One line about this stand-in."""
    sys.stderr.write(f"twin: {text}\n")


def usage(text: str) -> NoReturn:
    """End as Apptainer ends on a command line that it cannot read."""
    syntax = f"{PROGRAM} exec [exec options...] <container> <command>"
    fail(f'Error for command "exec": {text}\n\nUsage:\n  {syntax}', 1)


def fail(text: str, code: int) -> NoReturn:
    """Print the reason, and exit."""
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
