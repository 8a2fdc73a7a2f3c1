"""Parse option words as getopt_long does: for sbatch, srun, and launchers that follow its rules."""

from collections.abc import Sequence
from typing import NamedTuple

from slurmgen.slurm import sbatch_options


class Syntax(NamedTuple):
    """The options that a program takes."""

    flags: frozenset[str]
    "Options that take no value."
    optional: frozenset[str]
    "Options whose value, if any, follows an equals sign."
    valued: frozenset[str]
    short: dict[str, str]
    "Long names by letter."
    one_dash: bool = False
    "Long names may have a single dash, as in mpirun."
    underscores: bool = False
    "Names may have underscores instead of dashes, as in torchrun. getopt_long accepts no underscores."

    @property
    def names(self) -> frozenset[str]:
        """All long names."""
        return self.flags | self.optional | self.valued

    def matches(self, name: str) -> tuple[str, ...]:
        """The options that a long name may mean: the one with that name, or all that it abbreviates."""
        if self.stands_alone(name) or name in self.valued:
            return (name,)
        return tuple(sorted(n for n in self.names if n.startswith(name)))

    def stands_alone(self, name: str) -> bool:
        """Whether an option takes no value from the next word."""
        return name in self.flags or name in self.optional


class Option(NamedTuple):
    """One option as written, and its meaning."""

    name: str
    "Long name without dashes; as written if no option, or several options, match."
    written: str
    "The name with its dashes, without the value."
    value: str | None
    at: int
    "Index of its word."
    value_at: int
    "Index of the word that holds the value."
    matches: tuple[str, ...]
    "The known options that it may mean."
    lacks_value: bool = False


def parse(words: Sequence[str], syntax: Syntax, at: int = 0) -> tuple[list[Option], int]:
    """The options up to the first word that is not an option, and the index of that word."""
    found: list[Option] = []
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return found, at + 1
        read = _long if words[at].startswith("--") or _is_long(words[at], syntax) else _short
        found += read(words, syntax, at)
        at = max(found[-1].value_at, at) + 1
    return found, at


def _is_long(word: str, syntax: Syntax) -> bool:
    return syntax.one_dash and len(word) > 2 and word[1:].partition("=")[0] in syntax.names


def _long(words: Sequence[str], syntax: Syntax, at: int) -> list[Option]:
    written, equals, value = words[at].partition("=")
    name = written.lstrip("-")
    name = name.replace("_", "-") if syntax.underscores else name
    matches = syntax.matches(name)
    meant = matches[0] if len(matches) == 1 else name
    if equals:
        return [Option(meant, written, value, at, at, matches)]
    if syntax.stands_alone(meant):
        return [Option(meant, written, None, at, at, matches)]
    return [_with_next(words, Option(meant, written, None, at, at, matches))]


def _short(words: Sequence[str], syntax: Syntax, at: int) -> list[Option]:
    """A cluster of letters; the first that takes a value takes the rest of the word, or the next word."""
    found: list[Option] = []
    for index, letter in enumerate(words[at][1:], start=2):
        name = syntax.short.get(letter, letter)
        matches = (name,) if letter in syntax.short else ()
        option = Option(name, f"-{letter}", None, at, at, matches)
        if not syntax.stands_alone(name):
            rest = words[at][index:]
            return [*found, option._replace(value=rest) if rest else _with_next(words, option)]
        found.append(option)
    return found


def _with_next(words: Sequence[str], option: Option) -> Option:
    """The option with the next word as its value; an unknown option takes only a word without a dash."""
    after = option.at + 1
    if after >= len(words):
        return option._replace(lacks_value=bool(option.matches))
    if not option.matches and words[after].startswith("-"):
        return option
    return option._replace(value=words[after], value_at=after)


_FLAGS, _OPTIONAL = sbatch_options.FLAGS, sbatch_options.OPTIONAL
_SHORT = {
    **{"A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus"},
    **{"H": "hold", "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit"},
    **{"Q": "quiet", "S": "core-spec", "V": "version", "b": "begin", "c": "cpus-per-task", "d": "dependency"},
    **{"e": "error", "h": "help", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks"},
    **{"o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose"},
    **{"w": "nodelist", "x": "exclude"},
}
_ALL = sbatch_options.OTHERS | sbatch_options.MANAGED.keys()

SBATCH = Syntax(
    _FLAGS,
    _OPTIONAL,
    _ALL - _FLAGS - _OPTIONAL | {"tasks-per-node"},
    {**_SHORT, "W": "wait", "a": "array"},
)

# The last lines of the next two sets are options of the plug-ins pyxis, uenv and Container Engine.
_SRUN_FLAGS = frozenset(
    """
    disable-status exact external external-launcher label multi-prog no-allocate overlap preserve-env pty
    quit-on-interrupt unbuffered whole
    container-mount-home no-container-mount-home container-remap-root no-container-remap-root
    container-writable container-readonly container-entrypoint no-container-entrypoint
    """.split()
)
_SRUN_OPTIONAL = frozenset("compress immediate kill-on-bad-exit label pty send-libs".split())
_SRUN_VALUED = frozenset(
    """
    bcast bcast-exclude cpu-bind cpu_bind epilog gpu-bind het-group jobid mem-bind mpi prolog relative
    slurmd-debug task-epilog task-prolog threads tasks-per-node wait
    container-image container-name container-mounts container-workdir container-save container-env
    environment uenv view
    """.split()
)

SRUN = Syntax(
    _FLAGS - {"wait", "parsable", "requeue", "no-requeue", "test-only"}
    | _SRUN_FLAGS - _SRUN_OPTIONAL
    | {"test-only"},
    _OPTIONAL | _SRUN_OPTIONAL,
    _ALL - _FLAGS - _OPTIONAL | _SRUN_VALUED,
    {
        **_SHORT,
        **{"E": "preserve-env", "I": "immediate", "K": "kill-on-bad-exit", "T": "threads", "W": "wait"},
        **{"X": "disable-status", "Z": "no-allocate", "l": "label", "r": "relative", "u": "unbuffered"},
    },
)
