"""Variables that are not set, or that the shell reads differently than intended."""

import re
from collections.abc import Iterator
from itertools import pairwise

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Command, Launch, Script, Span
from slurmgen.lint.reader.words import Word
from slurmgen.lint.rules.common import in_force, is_literal

_TASK_OPTIONS = (
    "ntasks",
    "ntasks-per-node",
    "tasks-per-node",
    "ntasks-per-gpu",
    "ntasks-per-socket",
    "ntasks-per-core",
)
SET_BY = {
    "SLURM_NTASKS": _TASK_OPTIONS,
    "SLURM_NPROCS": _TASK_OPTIONS,
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node", "tasks-per-node"),
    "SLURM_CPUS_PER_TASK": ("cpus-per-task", "tres-per-task"),
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
    "SLURM_GPUS": ("gpus",),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task", "tres-per-task"),
    "SLURM_MEM_PER_GPU": ("mem-per-gpu",),
}
"The options that set a variable, as jobs of Slurm 22.05 reported it."
_IN_STEPS = {"SLURM_GPUS_PER_NODE"}
"Variables that srun does not set in a step either."
_PRINTS = ("echo", "printf")
_MAY_NOT_RUN = {"if", "else", "case", "while"}


@rule("SG209", "warning")
def slurm_variable_unset(script: Script) -> Iterator[Finding]:
    """The script uses a variable that Slurm does not set with this header.

    ## What it checks
    Checks the batch script for variables such as `$SLURM_GPUS_PER_NODE` and `$SLURM_NTASKS_PER_NODE`, which
    Slurm sets only if the header has the option with that name, and for `$SLURM_GPUS_PER_NODE` with a GPU
    type in it. Scripts without a header are not checked, nor uses with a default, such as
    `${SLURM_NTASKS:-1}`, nor uses in a branch or in a loop with a condition, which the job may never reach.

    ## Why it matters
    The variable is empty. A command such as `torchrun --nproc-per-node=$SLURM_GPUS_PER_NODE` fails, or uses
    the next word as the value.

    ## Example
        #SBATCH --gres=gpu:4
        srun torchrun --standalone --nproc-per-node=$SLURM_GPUS_PER_NODE train.py

    ## Use instead
        #SBATCH --gres=gpu:4
        srun torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE train.py

    ## When to ignore
    If the option is always given on the command line of sbatch.

    ## Reference
    https://slurm.schedmd.com/sbatch.html (output environment variables)
    """
    header = script.header
    if not header.directives or header.components > 1:
        return
    has_gpus = script.job.has_gpus or any(header.last(name) for name in ("nodes", "ntasks"))
    uses = sorted(_uses(script))
    for name, options in SET_BY.items():
        first = next((span for span, used, raw in uses if used == name and _is_plain(name, raw)), None)
        if first is None or script.sets(name):
            continue
        if "GPU" in name and not has_gpus:
            continue  # the size of the job comes from the command line
        if not any(header.last(option) for option in options):
            yield Finding(
                first,
                f"${name} is empty: the header has no --{options[0]}",
                _SET_INSTEAD.get(name, f"add `--{options[0]}` to the header"),
            )
        elif name == "SLURM_GPUS_PER_NODE" and not (header.value("gpus-per-node") or "1").isdigit():
            yield Finding(
                first,
                f"$SLURM_GPUS_PER_NODE is {header.value('gpus-per-node')!r}, with the GPU type",
                "write `$SLURM_GPUS_ON_NODE`, which is a number",
            )


_SET_INSTEAD = {
    "SLURM_GPUS_PER_NODE": "write `$SLURM_GPUS_ON_NODE`, or request the GPUs with `--gpus-per-node`"
}


def _uses(script: Script) -> Iterator[tuple[Span, str, str]]:
    """Where the batch script expands a variable outside a message: the place, the name, the source text."""
    for command in script.commands:
        if command.name not in _PRINTS and _MAY_NOT_RUN.isdisjoint(command.place):
            guards = " ".join(command.conditions)
            for word in command.words:
                yield from ((word.span, name, word.raw) for name in word.names if name not in guards)
    yield from _uses_in_steps(script)
    for found in script.shell.assignments:
        if not found.conditional:
            yield from ((found.span, name, found.raw) for name in found.names)


def _uses_in_steps(script: Script) -> Iterator[tuple[Span, str, str]]:
    """The same for the options of launches in a `bash -c` string."""
    for launch in script.launches:
        is_set = launch.step is not None and "gpus-per-node" in launch.step.options.given
        if launch.under("shell") and not is_set:
            for word in (given.word for given in launch.options.given.values()):
                yield from ((word.span, name, word.raw) for name in word.names & _IN_STEPS)


def _is_plain(name: str, raw: str) -> bool:
    """Whether a text expands the variable without a default."""
    return bool(re.search(rf"\b{name}\b(?!:?[-=?+])", raw))


_PROFILES = ("/etc/profile", "bashrc", "setvars.sh")
_PATHS = ("LD_LIBRARY_PATH", "PYTHONPATH", "LIBRARY_PATH", "CPATH")
"Variables that are often unset."
_NOUNSET = re.compile(r" -\w*u|-o nounset")


@rule("SG501", "warning")
def nounset(script: Script) -> Iterator[Finding]:
    """`set -u` is in effect while a profile is loaded.

    ## What it checks
    Checks for a sourced `/etc/profile`, `.bashrc` or `setvars.sh` while `set -u` is in effect. `module load`
    and conda are not reported: their current versions work with `set -u`.

    ## Why it matters
    Many profiles use unset variables. The job ends there with
    "unbound variable", often only on the compute node.

    ## Example
        set -euo pipefail
        source ~/.bashrc

    ## Use instead
        set -eo pipefail
        source ~/.bashrc

    ## When to ignore
    If the profile is known to work with `set -u`.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
    """
    for index, command in enumerate(script.commands):
        if "nounset" in command.settings and _uses_unset_variables(command):
            yield Finding(
                command.span,
                f"`{' '.join(command.texts[:2])}` runs under `set -u`, but may use unset variables",
                "remove the u from `set`, or write `set +u` before this line",
                _without_u(script, script.commands[:index]),
            )
            return
    yield from _path_variables(script)


def _path_variables(script: Script) -> Iterator[Finding]:
    """Additions to a path variable that may be unset, before a module or a file can set it."""
    others = [c for c in script.commands if c.name in ("module", "ml", "source", ".", "conda", "eval")]
    set_u = [c for c in script.commands if c.name == "set" and _NOUNSET.search(" ".join(c.texts))]
    if not set_u:
        return
    for found in script.assigned(*_PATHS):
        is_plain = re.search(rf"\$({found.name}\b|\{{{found.name}\}})", found.raw)
        first = next(script.assigned(found.name)) is found
        before = any(command.span.start < found.span.start for command in others)
        if is_plain and first and not before and set_u[0].span.start < found.span.start:
            yield Finding(
                found.span,
                f"under `set -u`, the script ends here if ${found.name} is not set",
                f"write `${{{found.name}:-}}`",
            )
            return


def _uses_unset_variables(command: Command) -> bool:
    words = command.texts
    return command.name in ("source", ".") and len(words) > 1 and words[1].endswith(_PROFILES)


def _without_u(script: Script, commands: tuple[Command, ...]) -> tuple[Edit, ...]:
    for command in reversed(commands):
        for word in command.words[1:] if command.name == "set" else ():
            letters = word.text.removeprefix("-")
            if word.text[:1] == "-" and "u" in letters and is_literal(script, word):
                return (Edit(word.span, f"-{letters.replace('u', '')}" if letters != "u" else "+u"),)
    return ()


_QUOTED = re.compile(r"""(['"])(.*?)\1""", re.DOTALL)


@rule("SG505", "warning")
def command_in_a_string(script: Script) -> Iterator[Finding]:
    """A command is stored in a string variable and split into words.

    ## What it checks
    Checks for a launcher that comes from an unquoted string variable, such as `srun $CMD`, if the string
    contains a quoted part with a space, which the quotes do not keep together.

    ## Why it matters
    The shell splits the string at every space; quotes inside the string have no effect. A path with a space,
    or a JSON argument, breaks the command.

    ## Example
        CMD="torchrun --standalone train.py --name 'my run'"
        srun $CMD

    ## Use instead
        cmd=(torchrun --standalone train.py --name 'my run')
        srun "${cmd[@]}"

    ## When to ignore
    If the quotes in the string are meant for the program.

    ## Reference
    https://www.shellcheck.net/wiki/SC2086 ; stanford-crfm/helm pull request 1636
    """
    for launch in script.launches:
        word = launch.word
        is_array = any(mark in word.raw for mark in ("[@]", "[*]", "$@", "$*", "${@"))
        if word.spliced and not is_array and _is_harmed(script, launch):
            yield Finding(
                word.span,
                f"the shell splits {word.raw} at every space, even inside quotes, and keeps the quotes",
                'store the command in an array: `cmd=(...)`, then `"${cmd[@]}"`',
            )


def _is_harmed(script: Script, launch: Launch) -> bool:
    values = [found.value for found in in_force(script, launch, set(launch.word.names))]
    return any(" " in part for value in values for _, part in _QUOTED.findall(value))


@rule("SG508", "warning")
def array_without_index(script: Script) -> Iterator[Finding]:
    """An array is copied by its name alone, which is its first element.

    ## What it checks
    Checks for `name=($array)` in a script that sets `array` to an array, and uses more than the first element
    of the copy.

    ## Why it matters
    Without an index, `$array` is the first element. The copy of a list of nodes then has a single node,
    whatever the size of the job, and `${copy[1]}` is empty.

    ## Example
        nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
        nodes_array=($nodes)
        echo "${nodes_array[1]}"

    ## Use instead
        nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))

    ## When to ignore
    If only the first element is meant.

    ## Reference
    https://www.shellcheck.net/wiki/SC2128
    """
    # More than the first element: another one, all of them, or their number.
    indexed = set(re.findall(r"\$\{#?!?(\w+)\[(?!0\])", script.source.plain))
    for target, name, span in script.shell.array_copies:
        if target in indexed:
            whole = f'("${{{name}[@]}}")'
            fact = f"${name} is an array; without an index it is only the first element"
            yield Finding(span, fact, f"write `{whole}`", (Edit(span, whole),))


_GIVEN = re.compile(r"SLURM_\w+|CONDA_\w+|SHELL|EDITOR|PYTHON|HOME|[@*#?$!_]|\d")
"Variables that the environment may set."
_SHORT = 4
"Shorter names are alike by chance."


@rule("SG512", "warning")
def unset_launcher(script: Script) -> Iterator[Finding]:
    """The script uses a variable that it never sets.

    ## What it checks
    Checks for a command, or a command under srun, whose name is a variable that neither the script nor a file
    that it sources sets, and for a variable that the script does not set while it sets one with a similar
    name: `$MODEL_v1` reads MODEL_v1 and not MODEL, and `$JOBDIR` is not `$JOB_DIR`.

    ## Why it matters
    If the variable is empty, the shell or srun runs the next word instead: a training script that is not
    executable, or an option.

    ## Example
        LAUNCH="torchrun --standalone --nproc-per-node=4"
        srun $LAUNCHER train.py

    ## Use instead
        LAUNCHER="torchrun --standalone --nproc-per-node=4"
        srun $LAUNCHER train.py

    ## When to ignore
    If the variable is passed with `sbatch --export`, or set in the shell that submits the job.
    """
    if script.shell.sourced:
        return
    known = _set_names(script.source.plain)
    for command in script.commands:
        word = _program(command)
        name = _variable(word) if word else None
        if word and name and name not in known:
            yield Finding(word.span, f"the script never sets ${name}", f"set `{name}`, or write the command")
    yield from _misspelt(script, known)


def _misspelt(script: Script, known: set[str]) -> Iterator[Finding]:
    """Unset variables with the name of one that is set and more letters, or with other underscores."""
    plain = {name.replace("_", "").lower(): name for name in known if len(name) > _SHORT}
    uses = [(word.span, word.raw, word.names) for command in script.commands for word in command.words]
    uses += [(found.span, found.raw, found.names) for found in script.shell.assignments]
    for span, raw, names in uses:
        for name in sorted(names - known):
            joined = next((part for part in _fronts(name) if part in known and f"${name}" in raw), None)
            meant = joined or plain.get(name.replace("_", "").lower())
            if meant and not _GIVEN.fullmatch(name) and not re.search(rf"\b{name}:?[-=?+]", raw):
                advice = f"write `${{{meant}}}` in braces" if joined else f"write `${meant}`"
                yield Finding(span, f"the script sets ${meant}, but not ${name}", advice)
                return


def _fronts(name: str) -> list[str]:
    """The parts of a name that end before an underscore."""
    return [name[:at] for at in range(1, len(name)) if name[at] == "_" and at > 1]


def _program(command: Command) -> Word | None:
    """The word that names the program: the first one, or under srun the one before a training script."""
    if command.name != "srun":
        return command.words[0]
    pairs = pairwise(command.words[1:])
    return next((word for word, after in pairs if word.loose and after.text.endswith(".py")), None)


def _variable(word: Word) -> str | None:
    """The variable that a word consists of, unless the environment may set it."""
    match = re.fullmatch(r"\$\{?(\w+)\}?", word.raw)
    return match[1] if match and word.loose and not _GIVEN.fullmatch(match[1]) else None


def _set_names(text: str) -> set[str]:
    """The names that a script sets: by assignments, by loops, and by builtins."""
    assigned = re.findall(r"\b(\w{1,80})(?:\[[^]\n]{0,80}\])?\+?=", text)
    lines = re.findall(r"\b(?:read|for|mapfile|readarray|printf)\b([^\n]*)", text)
    return {*assigned, *(name for line in lines for name in re.findall(r"\w+", line))}


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@rule("SG516", "error")
def blank_in_assignment(script: Script) -> Iterator[Finding]:
    """A blank before the equals sign makes an assignment a command.

    ## What it checks
    Checks for commands such as `NAME = value` and `NAME =value`, outside `[`, `test` and `(( ))`.

    ## Why it matters
    The shell runs a program called NAME, with `=` as its first argument: "NAME: command not found". The
    variable stays unset, and without `set -e` the script continues with an empty value.

    ## Example
        data = /scratch/data
        python train.py --data "$data"

    ## Use instead
        data=/scratch/data
        python train.py --data "$data"

    ## When to ignore
    If a program of this name exists and takes `=` as an argument.

    ## Reference
    https://www.shellcheck.net/wiki/SC2283
    """
    for command in script.commands:
        first, *rest = command.words
        if rest and _IDENTIFIER.fullmatch(first.raw) and rest[0].raw.startswith("=") and first.raw != "test":
            yield Finding(
                first.span,
                f"the shell runs {first.raw!r} as a command, and does not set the variable",
                f"write `{first.raw}=` without blanks",
            )
