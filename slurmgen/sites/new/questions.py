"""The questions about a new site, and the facts that answers state."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from slurmgen.sites.access import LoginMethod
from slurmgen.sites.hardware import GpuRequest, MemoryForm
from slurmgen.sites.new.answers import Facts, Keys
from slurmgen.sites.software import EngineName


class Open(NamedTuple):
    """A key that may stay unknown, with an example and the question that its value answers."""

    keys: Keys
    example: Any
    text: str


class Question(NamedTuple):
    """A question to the user."""

    name: str
    "The name of its option, as in --login-host."
    metavar: str
    text: str
    key: str
    "The key, or the table, that an answer states."
    facts: Callable[[str, Facts], Facts]
    "The facts of an answer, given those that are known. It raises ValueError with the reason."
    example: Any
    required: bool = False

    def is_answered(self, known: Facts) -> bool:
        """Whether known facts, such as discovered ones, answer it."""
        parts = self._keys(known)
        return any(keys[: len(parts)] == parts for keys in known)

    def unanswered(self, known: Facts) -> Open:
        """The key that stays unknown without an answer."""
        in_table = _KEY_IN_TABLE.get(self.key)
        return Open(_parts(in_table) if in_table else self._keys(known), self.example, self.text)

    def _keys(self, known: Facts) -> Keys:
        return _time_key(known) if self.key == _MAX_TIME else _parts(self.key)


_MAX_TIME = "limits.max_time"
_KEY_IN_TABLE = {"partitions": "partitions.gpu.default", "gpu.types": "gpu.types.a100.label"}
"An example of a key in a table whose names are the site's own."


def _parts(key: str) -> Keys:
    return tuple(key.split("."))


def _at(key: str, read: Callable[[str], Any] = str) -> Callable[[str, Facts], Facts]:
    """An answer that is the value of one key."""
    return lambda answer, _known: {_parts(key): read(answer)}


def _number(answer: str) -> int | str:
    """A number; other text is left to the checks of the profile."""
    return int(answer) if re.fullmatch(r"[0-9]{1,9}", answer) else answer


def _words(answer: str) -> list[str]:
    return re.findall(r"[^\s,]+", answer)


def _yes(answer: str) -> bool:
    known = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
    if answer.lower() not in known:
        raise ValueError(f"{answer!r} is neither yes nor no")
    return known[answer.lower()]


def _partitions(answer: str, _known: Facts) -> Facts:
    first, *others = _words(answer) or [""]
    return {("partitions", first, "default"): True} | {("partitions", name): {} for name in others}


def _gpu_types(answer: str, _known: Facts) -> Facts:
    names = _words(answer) or [""]
    return {("gpu", "default_type"): names[0]} | {("gpu", "types", name): {} for name in names}


def _max_time(answer: str, known: Facts) -> Facts:
    return {_time_key(known): answer}


def _time_key(known: Facts) -> Keys:
    """The limit of the default partition, or that of every job if there are no partitions."""
    default = next((keys[1] for keys in known if keys[0] == "partitions" and keys[2:] == ("default",)), None)
    return ("partitions", default, "max_time") if default else ("limits", "max_time")


_INTERFACE = "NCCL_SOCKET_IFNAME"


def _either(kind: Any) -> str:
    *words, last = get_args(kind)
    return f"{', '.join(words)} or {last}"


QUESTIONS = (
    Question("title", "TEXT", "Full name of the cluster", "title", _at("title"), "My cluster"),
    Question(
        "login-host", "HOST", "Login host", "login.host", _at("login.host"), "login.cluster.example.org"
    ),
    Question(
        name="partition",
        metavar="NAMES",
        text="Partitions with GPUs, separated by commas, the usual one first",
        key="partitions",
        facts=_partitions,
        example=True,
    ),
    Question(
        name="max-time",
        metavar="TIME",
        text="Longest time limit of a job in the usual partition, such as 2-00:00:00",
        key=_MAX_TIME,
        facts=_max_time,
        example="2-00:00:00",
    ),
    Question(
        name="gpus-per-node",
        metavar="N",
        text="GPUs of a node",
        key="node.gpus",
        facts=_at("node.gpus", _number),
        example=4,
        required=True,
    ),
    Question(
        name="cpus-per-node",
        metavar="N",
        text="CPUs of a node that jobs can use, as Slurm counts them",
        key="node.cpus",
        facts=_at("node.cpus", _number),
        example=64,
    ),
    Question(
        name="mem-per-node",
        metavar="SIZE",
        text="Memory of a node that jobs can use, such as 500G",
        key="node.memory",
        facts=_at("node.memory"),
        example="500G",
    ),
    Question(
        name="gpu-request",
        metavar="FORM",
        text=f"How jobs request GPUs: {_either(GpuRequest)}",
        key="gpu.request",
        facts=_at("gpu.request"),
        example="gres",
    ),
    Question(
        name="gpu-type",
        metavar="NAMES",
        text="GPU types that requests name, as in --gres=gpu:TYPE:4, the usual one first",
        key="gpu.types",
        facts=_gpu_types,
        example="NVIDIA A100",
    ),
    Question(
        name="memory-form",
        metavar="FORM",
        text=f"Option for memory: {_either(MemoryForm)}",
        key="memory.form",
        facts=_at("memory.form"),
        example="mem",
    ),
    Question(
        name="account-required",
        metavar="yes|no",
        text="Must a job name an account: yes or no",
        key="account.required",
        facts=_at("account.required", _yes),
        example=True,
    ),
    Question(
        name="modules",
        metavar="NAMES",
        text="Modules of a PyTorch job without a container, separated by commas",
        key="modules.load",
        facts=_at("modules.load", _words),
        example=["python", "cuda"],
    ),
    Question(
        name="engine",
        metavar="NAME",
        text=f"Container engine: {_either(EngineName)}",
        key="container.engine",
        facts=_at("container.engine"),
        example="apptainer",
    ),
    Question(
        name="internet",
        metavar="yes|no|proxy",
        text="Do compute nodes reach the internet: yes, no or proxy",
        key="internet",
        facts=_at("internet"),
        example="no",
    ),
    Question(
        name="network",
        metavar="NAME",
        text="Network interface between nodes for NCCL, such as ib0",
        key=f"env.multi_node.{_INTERFACE}",
        facts=_at(f"env.multi_node.{_INTERFACE}"),
        example="ib0",
    ),
)
"In the order in which they are asked."


def open_in_partitions(known: Facts) -> list[Open]:
    """What may differ in each partition but the usual one: its time limit and its nodes."""
    usual = _time_key(known)[1]
    others = dict.fromkeys(keys[1] for keys in known if keys[0] == "partitions" and keys[1] != usual)
    return [
        Open(("partitions", name, *gap.keys), gap.example, gap.text)
        for name in others
        for gap in _IN_PARTITION
    ]


_IN_PARTITION = (
    Open(("max_time",), "2-00:00:00", "Longest time limit of a job here"),
    Open(("node",), {"gpus": 4, "cpus": 64, "memory": "500G"}, "Nodes, where they differ from [node]"),
)
LATER = (
    Open(("time",), "01:00:00", "Time limit of a job that requests none"),
    Open(("architecture",), "x86_64", "Architecture of the GPU nodes: x86_64 or aarch64"),
    Open(
        ("account", "hint"), "See `sacctmgr show associations user=$USER`.", "How do users find their account"
    ),
    Open(("login", "methods"), ["key"], f"How do users log in: {_either(LoginMethod)}"),
    Open(("cpu", "per_gpu"), 16, "CPUs for each GPU, if not the share of a node"),
    Open(("memory", "per_gpu"), "120G", "Memory for each GPU, if not the share of a node"),
)
"Keys that a new profile names as unknown, without a question to the user."
