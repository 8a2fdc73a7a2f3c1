"""The programs that start ranks, and those that run another program, with their options.

Only options that a rule reads or that take no value are listed; every other option of these
programs takes one value.
"""

import re
from typing import NamedTuple

from slurmgen.slurm.getopt import SRUN, Syntax


def _syntax(flags: str = "", valued: str = "", short: str = "", optional: str = "") -> Syntax:
    letters = dict(pair.split(":") for pair in short.split())
    return Syntax(frozenset(flags.split()), frozenset(optional.split()), frozenset(valued.split()), letters)


def _python_syntax(flags: str, valued: str, short: str) -> Syntax:
    """The syntax of a program whose options have underscores, dashes, or both, depending on its version."""
    return _syntax(flags, valued, short)._replace(underscores=True)


TORCHRUN = _python_syntax(
    flags="standalone module no-python run-path virtual-local-rank help use-env",
    valued="""
        nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts
        monitor-interval start-method event-log-handler role log-dir redirects tee
        local-ranks-filter node-rank master-addr master-port local-addr logs-specs numa-binding
        signals-to-handle shutdown-timeout
    """,
    short="m:module r:redirects t:tee h:help",
)
ACCELERATE = _python_syntax(
    flags="""
        quiet cpu multi-gpu tpu enable-cpu-affinity use-deepspeed use-fsdp use-parallelism-config
        use-megatron-lm same-network module no-python debug help dynamo-use-fullgraph
        dynamo-use-dynamic tpu-use-sudo downcast-bf16
    """,
    valued="""
        config-file num-processes num-machines machine-rank main-process-ip main-process-port
        mixed-precision dynamo-backend gpu-ids rdzv-backend rdzv-conf num-cpu-threads-per-process
        max-restarts main-training-function
    """,
    short="m:module q:quiet h:help",
)
DEEPSPEED = _python_syntax(
    flags="no-python no-local-rank no-ssh no-ssh-check force-multi module save-pid bind-cores-to-rank",
    valued="""
        hostfile include exclude num-nodes num-gpus master-port master-addr node-rank launcher
        launcher-args
    """,
    short="H:hostfile i:include e:exclude",
)
FABRIC = _python_syntax(
    flags="help",
    valued="accelerator strategy devices num-nodes node-rank main-address main-port precision",
    short="",
)
COMPOSER = _python_syntax(
    flags="help version verbose module-mode command-mode",
    valued="nproc world-size base-rank node-rank master-addr master-port run-directory stdout stderr",
    short="n:nproc m:module-mode c:command-mode v:verbose h:help",
)
RAY_ON_ALL_NODES = "ray symmetric-run"
RAY = _python_syntax(
    flags="head block disable-usage-stats verbose no-monitor",
    valued="""
        address min-nodes node-ip-address port num-cpus num-gpus temp-dir resources include-dashboard
        dashboard-host dashboard-port
    """,
    short="v:verbose",
)
PYTHON = _syntax(
    flags="unbuffered isolated other",
    short="m:module W:warning X:extension u:unbuffered I:isolated "
    + " ".join(f"{letter}:other" for letter in "bBdEiOPqsSvVx"),
    valued="module warning extension",
)
_MPIRUN = _syntax(
    flags="oversubscribe allow-run-as-root tag-output report-bindings",
    valued="np n map-by bind-to host hostfile rank-by N npernode ppn",
    short="n:np H:host",
)._replace(one_dash=True)
_CONTAINER_FLAGS = """
    nv nvccli rocm cleanenv contain containall fakeroot writable-tmpfs no-home compat rm gpu nccl writable
    privileged interactive tty mpi cuda-mpi openmpi-pmi2 pid ipc-private userns uts no-mount-hostfs sharens
"""
_APPTAINER = _syntax(
    flags=_CONTAINER_FLAGS,
    short="""
        e:cleanenv c:contain C:containall B:bind H:home W:workdir p:pid i:ipc-private f:fakeroot
        u:userns w:writable
    """,
    valued="bind home workdir pwd env overlay mount security",
)
_PODMAN = _syntax(
    flags=_CONTAINER_FLAGS,
    short="v:volume e:env w:workdir i:interactive t:tty u:user",
    valued="volume env gpus device",
)
_SHIFTER = _syntax(short="V:volume i:image e:env", valued="image volume module env workdir entrypoint")
_ENROOT = _syntax(flags="root rw", short="m:mount e:env r:root w:rw", valued="mount env conf rc")
_UV = _syntax(
    flags="""
        no-sync frozen locked isolated no-project offline active quiet verbose exact no-dev
        all-extras managed-python
    """,
    short="p:python m:module q:quiet v:verbose",
    valued="python module project directory with extra group env-file",
)
_SSH = _syntax(
    flags="tty quiet no-stdin background",
    short="t:tty q:quiet n:no-stdin f:background o:option i:identity l:login p:port F:config",
    valued="option identity login port config",
)
_PLAIN = _syntax(
    flags="portability",
    short="p:portability n:adjustment u:unset o:output e:error i:input c:cpus k:kill-after s:signal",
    valued="unset",
)
_NUMACTL = _syntax(
    short="N:cpunodebind m:membind C:physcpubind l:localalloc i:interleave",
    flags="localalloc all",
    valued="cpunodebind membind physcpubind interleave",
)


class Wrapper(NamedTuple):
    """A program that runs another one."""

    kind: str
    syntax: Syntax
    verbs: tuple[str, ...] = ()
    "The subcommands, one of which must follow its name."
    operands: int = 0
    "Words between its options and the other program, such as the image."
    takes_env: bool = False
    "Whether NAME=VALUE words may come before the program."
    joins: bool = False
    "Whether it joins the remaining words to one text that a shell runs."


WRAPPERS: dict[str, Wrapper] = {
    "srun": Wrapper("srun", SRUN),
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "horovodrun"), Wrapper("mpirun", _MPIRUN)),
    **dict.fromkeys(("apptainer", "singularity"), Wrapper("apptainer", _APPTAINER, ("exec", "run"), 1)),
    **dict.fromkeys(("podman", "podman-hpc", "docker"), Wrapper("podman", _PODMAN, ("run",), 1)),
    "shifter": Wrapper("shifter", _SHIFTER),
    "ssh": Wrapper("ssh", _SSH, operands=1, joins=True),
    "eval": Wrapper("eval", _syntax(), joins=True),
    "enroot": Wrapper("enroot", _ENROOT, ("start",), 1),
    "uv": Wrapper("uv", _UV, ("run",)),
    **dict.fromkeys(("poetry", "pixi", "pdm", "hatch"), Wrapper("env", _PLAIN, ("run",))),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"),
        Wrapper(
            "env",
            _syntax(flags="no-capture-output live-stream", short="n:name p:prefix", valued="name prefix"),
            ("run",),
        ),
    ),
    "env": Wrapper("env", _PLAIN, takes_env=True),
    "numactl": Wrapper("env", _NUMACTL),
    "time": Wrapper("env", _syntax(flags="portability verbose", short="p:portability v:verbose")),
    "timeout": Wrapper("env", _PLAIN, operands=1),
    **dict.fromkeys(("exec", "command", "nohup", "nice", "stdbuf", "builtin"), Wrapper("env", _PLAIN)),
}
CARRIERS = frozenset(
    """
    nsys ncu nvprof dlprof rocprof rocprofv3 rocprofv2 omnitrace-run perf strace gdb catchsegv vtune map ddt
    singularity_wrapper apptainer_wrapper memray scalene kernprof py-spy likwid-pin hpcrun chrt ionice
    """.split()
)
"Programs that run another one, whose options are not known: profilers and wrappers of sites."
UTILITIES = frozenset(
    """
    hostname echo printf date nvidia-smi rocm-smi mkdir cp mv rm ls cat tar rsync unzip find test true sleep
    env printenv which id uname free df du ip ifconfig kill pkill killall touch chmod scontrol lscpu numactl
    taskset pwd whoami pip pip3 sbcast getent ping awk sed grep head tail wc sort dcgmi ibv_devinfo
    enroot nvcc rsmi ulimit ln stat module conda
    """.split()
)
"Programs that a job starts besides its training."
PROGRAMS = frozenset(
    """
    vllm sglang trl axolotl llamafactory-cli colossalai oumi swift xtuner tune mlflow lightning
    fairseq-train fairseq-hydra-train fairseq-generate Rscript julia matlab
    """.split()
)
"Programs that train or serve models and start their processes themselves."
SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
SHELL_OPTIONS = _syntax(short="o:option O:option", valued="option", flags="login")

_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.launcher": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_RAY = {"start": "ray", "symmetric-run": RAY_ON_ALL_NODES}
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")

SYNTAXES = {
    "torchrun": TORCHRUN,
    "accelerate": ACCELERATE,
    "deepspeed": DEEPSPEED,
    "fabric": FABRIC,
    "composer": COMPOSER,
    "ray": RAY,
    RAY_ON_ALL_NODES: RAY,
    "python": PYTHON,
}


def program_name(text: str) -> str:
    """A program's name without its folder."""
    return text.rpartition("/")[2]


class Head(NamedTuple):
    """The beginning of a command that starts ranks."""

    kind: str
    length: int
    "Words before its options."


def head(words: list[str]) -> Head | None:
    """What the words start, if that is a launcher or Python."""
    name = program_name(words[0]) if words else ""
    if name in ("torchrun", "torchrun_jsc"):
        return Head("torchrun", 1)
    if name == "accelerate" and words[1:2] == ["launch"]:
        return Head("accelerate", 2)
    if name == "composer" and len(words) > 1 and words[1].startswith("-"):
        return Head("composer", 1)
    if name == "ray" and words[1:2] and words[1] in _RAY:
        return Head(_RAY[words[1]], 2)
    if name == "deepspeed":
        return Head("deepspeed", 1)
    if name in ("fabric", "lightning") and words[1:2] == ["run"]:
        return Head("fabric", 3 if words[2:3] == ["model"] else 2)
    return _python_head(words) if _PYTHON.fullmatch(name) else None


def _python_head(words: list[str]) -> Head:
    at = next(
        (i for i, word in enumerate(words[1:], start=1) if not word.startswith("-") or word == "-m"),
        len(words),
    )
    if words[at : at + 1] == ["-m"] and words[at + 1 : at + 2] and words[at + 1] in _MODULES:
        return Head(_MODULES[words[at + 1]], at + 2)
    return Head("python", 1)
