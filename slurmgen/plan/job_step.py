"""The job step: how srun starts the ranks."""

from collections.abc import Sequence

from msgspec import Struct

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import Hint, leave_it_out, offered
from slurmgen.launchers import Command, Launcher, Options
from slurmgen.plan.environment import Setup
from slurmgen.plan.rank_labels import launcher_labels, srun_labels
from slurmgen.plan.ranks import Ranks
from slurmgen.plan.requeue import Notice
from slurmgen.request import NONE, Request
from slurmgen.slurm.node_step import EXPORT_ALL
from slurmgen.slurm.sbatch_options import leaves_out
from slurmgen.slurm.shell import Variable, quote, word


class Step(Struct, frozen=True):
    """The job step."""

    lines: tuple[tuple[str, ...], ...]
    "Shell words by part: srun, the container, the launcher, the script with its arguments."
    expands_in_task: bool
    "Each task, not the batch script, expands some variables."
    variables: tuple[Variable, ...] = ()
    "The variables that each task exports for itself."


class Shared(Struct, frozen=True):
    """What all steps of a job share."""

    setup: Setup
    "Its software, with a container if any."
    further: dict[str, str]
    "The sbatch options beyond those of every plan."
    exported: tuple[str, ...]
    "The names of the variables that the script exports."


def find_step(
    request: Request, ranks: Ranks, job: Shared, notice: Notice | None = None, size: tuple[str, ...] = ()
) -> Step:
    """How srun starts the ranks.

    Args:
        request: the request.
        ranks: the ranks of the step.
        job: what all steps share.
        notice: how the ranks learn that the time limit is near.
        size: srun's options for nodes and tasks, where they differ from those of the header.

    `--cpus-per-task` is repeated because srun does not inherit it since Slurm 22.05.

    Raises:
        RequestError: an option has no effect with this launcher, or a bind has no container.
    """
    launcher, setup, variables = ranks.launcher, job.setup, ranks.variables
    _check_engine(launcher, setup)
    command = _started(ranks, _options(request, ranks))
    head, in_task = _head(command, _library_path(ranks, setup))
    in_srun, in_task_words = container_words(setup, (*job.exported, *(one.name for one in variables)))
    labels = srun_labels(request, launcher)
    own = _in_each_task(variables, _ignored_signal(job.further))
    timer = _timer(launcher, notice) if notice and notice.by == "TERM" else ()
    beside = ("--overlap",) if request.sweep and (request.sweep.runs_per_gpu or 1) > 1 else ()
    srun = (*beside, *labels, *srun_words(ranks.settings.launch.srun, command.srun), *in_srun)
    cpus = () if leaves_out(request.sbatch, "cpus-per-task") else (f"--cpus-per-task={ranks.cpus.per_task}",)
    lines = (
        ("srun", *size, *cpus, "--kill-on-bad-exit=1", *srun),
        own,
        in_task_words,
        timer,
        *_joined(head, (*ranks.program.words, *command.arguments)),
    )
    return Step(tuple(filter(None, lines)), in_task or bool(own or timer or setup.line_in_task), variables)


def _check_engine(launcher: Launcher, setup: Setup) -> None:
    engine = setup.container.engine if setup.container else None
    if engine and engine in launcher.refused_engines:
        raise RequestError(
            f"{launcher.name} does not work in {engine}: {launcher.refused_engines[engine]}",
            Hint(
                f"Choose another {option('container_engine')}, or add {option('container', NONE)}.",
                offered("container", NONE),
            ),
        )


def _library_path(ranks: Ranks, setup: Setup) -> tuple[str, ...]:
    """The folders that the container needs for NCCL between nodes."""
    several = ranks.layout.nodes > 1 and ranks.layout.gpus
    return setup.container.multi_node_library_path if setup.container and several else ()


def srun_words(of_site: tuple[str, ...], of_launcher: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The whole environment, unless the site names another, then the site's options, then the launcher's.

    An option of the launcher replaces the site's.
    """
    own = {_option_name(text) for text in of_launcher}
    words = (*(text for text in of_site if _option_name(text) not in own), *of_launcher)
    # srun takes the beginning of an option for the option.
    export = () if any(text.startswith("--exp") for text in words) else (EXPORT_ALL,)
    return (*export, *map(quote, words))


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


def _timer(launcher: Launcher, notice: Notice) -> tuple[str, ...]:
    """A shell that becomes the task's command; a timer of it sends TERM to the ranks of the task.

    Of the processes that a launcher starts, only its children are ranks: torchrun would end its ranks when
    it gets the signal, and PyTorch's data loaders, the children of the ranks, would end.
    """
    ranks = "$(cat /proc/$$/task/*/children)" if launcher.shape == "rank-per-gpu" else "$$"
    wait = f'sleep "$((SLURM_JOB_END_TIME - {notice.lead} - $(date +%s)))";'
    ask = ("kill -0 $$ &&", 'touch -- "$REQUEUE_FILE" &&', f"kill -TERM {ranks};")
    # With an open standard output, it would keep the step from ending.
    timer = ("{", 'trap "" TERM;', wait, *ask, "} >/dev/null 2>&1 &")
    return ("bash", "-c", *_quoted([*timer, 'exec "$@"']), "bash")


_SHORT = 3
"Words of a launcher without options."


def _joined(head: tuple[str, ...], program: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The launcher and the program as two parts, but `python SCRIPT` and `python -m mpi4py SCRIPT` as one."""
    return ((*head, *program),) if len(head) <= _SHORT else (head, program)


def _started(ranks: Ranks, options: Options) -> Command:
    """The launcher's command before the program: without `python` if Python does not run it.

    Raises:
        RequestError: an option of the request is one that the plan sets.
    """
    launcher = ranks.launcher
    command = launcher.command(ranks.layout, options)
    _check_further(launcher, command, options.further)
    if ranks.program.is_python:
        return command
    words = (*command.words, *launcher.program) if launcher.program else ()
    return command._replace(words=words)


def _check_further(launcher: Launcher, command: Command, further: tuple[str, ...]) -> None:
    """Refuse an option that the plan sets, so that a script cannot contradict its header."""
    own = {_option_name(text) for text in command.words[: len(command.words) - len(further)]}
    own |= {"-m", "--module", "--no-python", *launcher.reserved}
    if further and not further[0].startswith("-"):
        raise RequestError(
            f"{option('launcher_args', further[0])} is not an option",
            f"Write {option('launcher_args')}=--OPTION.",
        )
    for text in filter(lambda text: text.startswith("-"), further):
        name = _option_name(text)
        # Their parsers accept the beginning of a name.
        if name in own or (len(name) > len("--") and any(each.startswith(name) for each in own)):
            raise RequestError(
                f"{option('launcher_args', text)}: slurmgen sets it for {launcher.name}", "Leave it out."
            )


def _option_name(text: str) -> str:
    return text.partition("=")[0].replace("_", "-")


def container_words(setup: Setup, exported: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of srun for the container, and the words before each task's command."""
    if not (setup.container and setup.call):
        return (), ()
    engine, call = ENGINES[setup.container.engine], setup.call._replace(exported=exported)
    line = f"{setup.line_in_task};"
    shell = ("bash", "-c", *_quoted([line, 'exec "$@"']), "bash") if setup.line_in_task else ()
    return engine.srun(call), (*engine.command(call), *shell)


def _head(head: Command, folders: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The launcher's words, and whether they are a shell script that each task runs.

    Such a script gets the program and its arguments as "$@".
    """
    if not folders and not head.expands_in_task:
        return head.words, False
    words = ["\n" + head.script] if head.script else ["exec", *head.words, '"$@"']
    if folders:
        path = ":".join(folders)
        words.insert(0, f'export LD_LIBRARY_PATH="{path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}";')
    arguments = ("bash", *head.words) if head.script else head.words[:1] or ("bash",)
    return ("bash", "-c", *_quoted(words), *arguments), True


def _quoted(words: Sequence[str]) -> tuple[str, ...]:
    r"""Shell words as one text in single quotes, which may be wrapped between the words."""
    first, *rest = (text.replace("'", "'\\''") for text in words)
    *inner, last = (f"'{first}", *rest)
    return (*inner, f"{last}'")


_SUPPORTED_BY_FEW = ("rendezvous", "mixed_precision", "launcher_args", "launcher_config")


def _options(request: Request, ranks: Ranks) -> Options:
    launcher, launch = ranks.launcher, ranks.settings.launch
    for name in _SUPPORTED_BY_FEW:
        if getattr(request, name) is not None and name not in launcher.takes:
            raise RequestError(f"{option(name)} has no effect with {launcher.name}", leave_it_out(name))
    return Options(
        rendezvous=request.rendezvous or "static",
        mixed_precision=request.mixed_precision,
        config=word(request.launcher_config) if request.launcher_config else None,
        labels=launcher_labels(request, launcher),
        further=tuple(map(word, request.launcher_args or ())),
        torchrun=tuple(map(word, launch.torchrun)),
        torchrun_options=tuple(map(word, launch.torchrun_options)),
        mpi=launch.mpi or Options().mpi,
    )
