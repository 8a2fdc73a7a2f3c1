"""The job step: its program, ranks and the steps that follow."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import structs

from slurmgen.containers import ENGINES
from slurmgen.errors import Hint, RequestError, contradiction, leave_it_out, offered, option
from slurmgen.files import PREFLIGHT
from slurmgen.launchers import Command, Launcher, Layout, Options
from slurmgen.plan.model import (
    Inputs,
    Notice,
    Program,
    Ranks,
    Setup,
    Shared,
    Step,
    find_launcher,
    origin_of,
)
from slurmgen.plan.resources import check_shape, cpus, cpus_of_next
from slurmgen.plan.software import uses_container
from slurmgen.plan.sweep import ARGUMENTS
from slurmgen.plan.variables import check_names, check_per_task, launcher_labels, srun_labels, task_variables
from slurmgen.request.model import NONE, PROGRAMS, Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place, Shape, settings_of
from slurmgen.slurm.sbatch_options import leaves_out
from slurmgen.slurm.shell import EXPORT_ALL, Variable, quote, word


def find_step(
    request: Request, ranks: Ranks, job: Shared, notice: Notice | None = None, size: tuple[str, ...] = ()
) -> Step:
    """How srun starts the ranks.

    Args:
        notice: how the ranks learn that the time limit is near.
        size: srun's options for nodes and tasks, where they differ from those of the header.

    `--cpus-per-task` is repeated because srun does not inherit it since Slurm 22.05.
    """
    launcher, setup, variables = ranks.launcher, job.setup, ranks.variables
    _check_engine(launcher, setup)
    command = _started(ranks, _options(request, ranks))
    several = ranks.layout.nodes > 1 and ranks.layout.gpus
    of_host = setup.container.multi_node_library_path if setup.container and several else ()
    head, in_task = _head(command, of_host)
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
    return Step(ranks, tuple(filter(None, lines)), in_task or bool(own or timer or setup.line_in_task))


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
    """The launcher's command before the program: without `python` if Python does not run it."""
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


_OF_LAUNCHER = dict.fromkeys(("rendezvous", "mixed_precision", "launcher_args", "launcher_config"))


def later_ranks(request: Request, site: Site, place: Place, first: Ranks) -> Iterator[tuple[Request, Ranks]]:
    """The request of each further step, which is the job's with another program, and its ranks.

    They run on all nodes of the first step, or on one if the launcher starts one process.
    """
    for one in request.then or ():
        own = structs.asdict(one)
        framework = own.pop("framework")
        other = {"framework": framework, **_OF_LAUNCHER} if framework else {}
        asked = structs.replace(request, **own, **other, sweep=None)
        if not asked.names_program:
            raise RequestError(
                "then: a step names no program", "Give it a script, a module or a command.", "then"
            )
        launcher, layout = find_launcher(asked, site), first.layout
        layout = layout._replace(nodes=min(layout.nodes, launcher.max_nodes or layout.nodes))
        yield asked, find_ranks(Inputs(asked, site, origin_of({})), place, launcher, layout, first)


def next_step(request: Request, ranks: Ranks, first: Ranks, job: Shared) -> Step:
    """A further step; the header counts the tasks of the first one."""
    check_names(request, ranks, job.setup)
    _check_settings(ranks, first)
    same = ranks.size == first.size and not first.own_size
    return find_step(request, ranks, job, size=() if same else ranks.size)


def _check_settings(ranks: Ranks, first: Ranks) -> None:
    """Refuse a step that needs more of the site's settings than the script makes for the first step."""
    own, made = ranks.settings, first.settings
    has_env = own.env.items() <= made.env.items()
    lines = [(own.modules.load, made.modules.load), (own.launch.before, made.launch.before)]
    lines += [(own.launch.before_on_each_node, made.launch.before_on_each_node)]
    if not has_env or any(not set(these) <= set(those) for these, those in lines):
        raise RequestError(
            f"then: the site sets variables, modules or commands for {ranks.launcher.name} "
            f"that the job does not have, because its first step uses {first.launcher.name}",
            "Submit the step as a job of its own, or use one framework for both.",
            "then",
        )


ADDRESS = "SLURMGEN_PREFLIGHT"
"The variable by which the nodes find the program's part in the batch script."
_PROGRAM = ("python3", "-B", PREFLIGHT)  # -B: the job's folder stays free of bytecode


def find_preflight(
    request: Request, site: Site, ranks: Ranks, job: Shared, meets: bool
) -> tuple[tuple[str, ...], ...]:
    """The shell words of the check by part; none if the request does not ask for it.

    Args:
        site: the site, which may demand a bandwidth.
        meets: whether the script sets MASTER_ADDR and MASTER_PORT.
    """
    if not request.preflight:
        return ()
    floor, nodes = site.preflight.min_bandwidth, ranks.layout.nodes
    demand = (f"--min-bandwidth={floor:g}",) if floor else ()
    rendezvous = ('--rendezvous="$MASTER_ADDR:$MASTER_PORT"',) if meets else ()
    in_srun, in_task = container_words(job.setup, (*job.exported, ADDRESS))
    tasks = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=0")
    lines = (
        (*_PROGRAM, "job", f"--gpus={ranks.layout.gpus_per_node}", *demand, *rendezvous, "--"),
        ("srun", *tasks, *srun_words(ranks.settings.launch.srun), *in_srun),
        in_task,
        (*_PROGRAM, "node"),
    )
    return tuple(filter(None, lines))


SHELL_SUFFIX = ".sh"
MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def find_program(request: Request, launcher: Launcher) -> Program:
    """The program of a request; without one, the launcher's bundled script."""
    named = [key for key in PROGRAMS if getattr(request, key)]
    if len(named) > 1:
        raise contradiction(*map(option, named), then="Keep one of them.")
    program = _program(request, launcher)
    if not program.is_python and launcher.program is None:
        raise RequestError(
            f"{launcher.name} starts Python programs only, and {program.name} is not one",
            f"Name a {option('script')} or a {option('module')}, or another {option('framework')}.",
            "framework",
        )
    return program


def _program(request: Request, launcher: Launcher) -> Program:
    of_sweep = (f'"${{{ARGUMENTS}[@]}}"',) if request.sweep else ()
    arguments = (*map(word, request.script_args or ()), *of_sweep)
    if request.command:
        return _of_command(request.command, arguments)
    if request.module:
        return _of_module(request.module, arguments)
    script = request.script or launcher.bundled_script
    if script is None:
        raise RequestError(
            f"there is no bundled script for {launcher.name}",
            f"Add {option('script')}, {option('module')} or {option('command')}.",
        )
    return _of_script(script, arguments)


def _of_command(command: tuple[str, ...], arguments: tuple[str, ...]) -> Program:
    if command[0].startswith("-"):
        fact = f"{option('command')} {command[0]!r} begins with a dash"
        raise RequestError(fact, "Begin it with the name of a program.")
    name = PurePosixPath(command[0]).name
    return Program((*map(word, command), *arguments), name, is_python=False)


def _of_module(module: str, arguments: tuple[str, ...]) -> Program:
    if not MODULE_NAME.fullmatch(module):
        raise RequestError(
            f"{option('module')} {module!r} is not the name of a Python module",
            "Write it as in `python -m`.",
        )
    return Program(("-m", module, *arguments), module.rpartition(".")[2])


def _of_script(script: str, arguments: tuple[str, ...]) -> Program:
    if script.startswith("-"):
        then = Hint(f"Write ./{script}.", offered("script", f"./{script}"))
        raise RequestError(f"{option('script')} {script!r} begins with a dash", then)
    path = PurePosixPath(script)
    if path.suffix == SHELL_SUFFIX:
        return Program(("bash", quote(script), *arguments), path.stem, is_python=False, script=script)
    return Program((quote(script), *arguments), path.stem, script=script)


def find_ranks(
    inputs: Inputs, place: Place, launcher: Launcher, layout: Layout, first: Ranks | None = None
) -> Ranks:
    """The ranks of a step on the nodes of a layout; a further step also needs the ranks of the first."""
    request, site, _ = inputs
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    reserved = request.ntasks_per_node or own
    check_shape(launcher, layout)
    check_per_task(request, layout.nodes * own)
    shape = Shape(*layout, launcher.shape == "task-per-gpu", uses_container(request, site))
    settings = settings_of(site, place, shape)
    return Ranks(
        launcher=launcher,
        layout=layout,
        settings=settings,
        program=find_program(request, launcher),
        cpus=cpus_of_next(first.cpus, launcher, layout, reserved if launcher.any_tasks else own)
        if first
        else cpus(inputs, launcher, layout, place),
        variables=task_variables(request, site, settings, launcher, layout),
        reserved=reserved,
    )
