"""The job step: how srun starts the ranks."""

from collections.abc import Sequence

from msgspec import Struct

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS, Launcher, Layout, Options
from slurmgen.plan.environment import Setup
from slurmgen.request import Request
from slurmgen.sites.settings import Settings
from slurmgen.slurm.shell import Variable, quote, word


class Step(Struct, frozen=True):
    """The job step."""

    lines: tuple[tuple[str, ...], ...]
    "Shell words by part: srun, the container, the launcher, the script with its arguments."
    expands_in_task: bool
    "Each task, not the batch script, expands some variables."
    variables: tuple[Variable, ...] = ()
    "The variables that each task exports for itself."


def find_step(
    request: Request,
    settings: Settings,
    further: dict[str, str],
    setup: Setup,
    launcher: Launcher,
    layout: Layout,
    cpus_per_task: int,
    script: str,
    variables: tuple[Variable, ...],
    exported: tuple[str, ...],
) -> Step:
    """How srun starts the ranks.

    Args:
        request: the request.
        settings: options of srun and torchrun.
        further: the sbatch options beyond those of every plan.
        setup: its container, if any.
        launcher: the framework that each task runs.
        layout: nodes and GPUs.
        cpus_per_task: the value of the header.
        script: the training script.
        variables: the variables that each task exports for itself.
        exported: the names of the variables that the script exports.

    `--cpus-per-task` is repeated because srun does not inherit it since Slurm 22.05.

    Raises:
        RequestError: an option has no effect with this launcher, or a bind has no container.
    """
    folders = setup.container.multi_node_library_path if setup.container and layout.nodes > 1 else ()
    launch = settings.launch
    options = _options(request, launcher)._replace(
        torchrun=tuple(map(word, launch.torchrun)), torchrun_options=tuple(map(word, launch.torchrun_options))
    )
    head, in_task = _head(launcher.name, layout, options, folders)
    in_srun, in_task_words = _container_words(setup, (*exported, *(one.name for one in variables)))
    export, own = _export(further), _in_each_task(variables, _ignored_signal(further))
    srun = (*export, *map(quote, launch.srun), *in_srun)
    lines = (
        ("srun", f"--cpus-per-task={cpus_per_task}", "--kill-on-bad-exit=1", *srun),
        own,
        in_task_words,
        *_joined(head, (quote(script), *map(word, request.script_args or ()))),
    )
    return Step(tuple(filter(None, lines)), in_task or bool(own), variables)


def _export(further: dict[str, str]) -> tuple[str, ...]:
    """Override sbatch's --export=NONE, which srun inherits: the ranks need what the script exports."""
    return ("--export=ALL",) if {"export", "export-file"} & further.keys() else ()


def _ignored_signal(further: dict[str, str]) -> str | None:
    """The signal that the launcher must ignore, because only the ranks handle it.

    None with `B:`, which sends the signal to the batch shell only.
    """
    flags, _, name = further.get("signal", "").partition("@")[0].rpartition(":")
    return None if "B" in flags else name or None


def _in_each_task(variables: tuple[Variable, ...], signal: str | None) -> tuple[str, ...]:
    """A shell that starts each task: it exports the task's variables and ignores a signal."""
    commands = [f"export {variable.name}={variable.word};" for variable in variables]
    commands += [f'trap "" {signal};'] if signal else []
    return ("bash", "-c", *_quoted([*commands, 'exec "$@"']), "bash") if commands else ()


def _joined(head: tuple[str, ...], script: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The launcher and the script as two parts, but `python SCRIPT` as one."""
    return ((*head, *script),) if len(head) == 1 else (head, script)


def _container_words(setup: Setup, exported: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of srun for the container, and the words before each task's command."""
    if not (setup.container and setup.call):
        return (), ()
    engine, call = ENGINES[setup.container.engine], setup.call._replace(exported=exported)
    return engine.srun(call), engine.command(call)


def _head(
    framework: str, layout: Layout, options: Options, folders: tuple[str, ...]
) -> tuple[tuple[str, ...], bool]:
    """The launcher's words, and whether they are a shell script that each task runs.

    Such a script gets the training script and its arguments as "$@".
    """
    head = LAUNCHERS[framework].command(layout, options)
    if not folders and not head.expands_in_task:
        return head.words, False
    words = ["exec", *head.words, '"$@"']
    if folders:
        path = ":".join(folders)
        words.insert(0, f'export LD_LIBRARY_PATH="{path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}";')
    return ("bash", "-c", *_quoted(words), head.words[0]), True


def _quoted(words: Sequence[str]) -> tuple[str, ...]:
    r"""Shell words as one text in single quotes, which may be wrapped between the words."""
    first, *rest = (text.replace("'", "'\\''") for text in words)
    *inner, last = (f"'{first}", *rest)
    return (*inner, f"{last}'")


def _options(request: Request, launcher: Launcher) -> Options:
    options = {
        name: value
        for name in ("rendezvous", "mixed_precision")
        if (value := getattr(request, name)) is not None
    }
    for name in options:
        if name not in launcher.options:
            raise RequestError(
                f"--{name.replace('_', '-')} has no effect with {launcher.name}", "Leave it out."
            )
    return Options(**options)
