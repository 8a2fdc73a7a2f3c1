"""Write a new site profile from answers to questions, and from what discovery found."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from slurmgen.sites.checks import faults
from slurmgen.sites.model import EngineName, GpuRequest, LoginMethod, MemoryForm, Site, Source
from slurmgen.slurm.shell import unprintable
from slurmgen.text import toml_key, toml_value, visible
from slurmgen.toml import explained, field_notes, shortened

Keys = tuple[str, ...]
Facts = Mapping[Keys, Any]
"Values of a profile by the keys that lead to them."
_LONGEST = 1000


def new_faults(name: str, known: Facts, answer: Facts) -> list[str]:
    """What is wrong with the facts of an answer, or contradicts the facts that are known."""
    texts = [*answer.values(), *(key for keys in answer for key in keys)]
    if (text := unprintable(texts)) is not None:
        return [f"{shortened(repr(text))} has a control character"]
    if any(isinstance(text, str) and len(text) > _LONGEST for text in texts):
        return [f"it is longer than {_LONGEST} characters"]
    old = _faults(name, known)
    return [fault for fault in _faults(name, {**known, **answer}) if fault not in old]


def _faults(name: str, facts: Facts) -> list[str]:
    data: dict[str, Any] = {"name": name}
    for keys, value in facts.items():
        table = reduce(lambda inner, key: inner.setdefault(key, {}), keys[:-1], data)
        table[keys[-1]] = {**table.get(keys[-1], {}), **value} if isinstance(value, dict) else value
    try:
        site = msgspec.convert(data, Site)
    except msgspec.ValidationError as error:
        return [explained(str(error), data, Site).fact]
    return [f"{fault.fact}. {fault.hint}".rstrip(". ") for fault in faults(site, name)]


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
    example: Any
    read: Callable[[str], Any] = str
    "The value of an answer, or the facts if the key is a table. It raises ValueError with the reason."
    required: bool = False

    def facts(self, answer: str, known: Facts) -> Facts:
        """The facts of an answer, given those that are known."""
        value = self.read(answer)
        return value if self.key in _KEY_IN_TABLE else {self._keys(known): value}

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


def _partitions(answer: str) -> Facts:
    first, *others = _words(answer) or [""]
    return {("partitions", first, "default"): True} | {("partitions", name): {} for name in others}


def _gpu_types(answer: str) -> Facts:
    names = _words(answer) or [""]
    return {("gpu", "default_type"): names[0]} | {("gpu", "types", name): {} for name in names}


def _time_key(known: Facts) -> Keys:
    """The key of the default partition's limit, or of every job's if there are no partitions."""
    default = next((keys[1] for keys in known if keys[0] == "partitions" and keys[2:] == ("default",)), None)
    return ("partitions", default, "max_time") if default else ("limits", "max_time")


def _either(kind: Any) -> str:
    *words, last = get_args(kind)
    return f"{', '.join(words)} or {last}"


_PARTITIONS = "Partitions with GPUs, separated by commas, the usual one first"
_TIME = "Longest time limit of a job in the usual partition, such as 2-00:00:00"
_CPUS = "CPUs of a node that jobs can use, as Slurm counts them"
_MEMORY = "Memory of a node that jobs can use, such as 500G"
_REQUEST = f"How jobs request GPUs: {_either(GpuRequest)}"
_TYPES = "GPU types that requests name, as in --gres=gpu:TYPE:4, the usual one first"
_FORM = f"Option for memory: {_either(MemoryForm)}"
_ACCOUNT = "Must a job name an account: yes or no"
_MODULES = "Modules of a PyTorch job without a container, separated by commas"
_ENGINE = f"Container engine: {_either(EngineName)}"
_INTERNET = "Do compute nodes reach the internet: yes, no or proxy"
_NETWORK = "Network interface between nodes for NCCL, such as ib0"
QUESTIONS = (
    Question("title", "TEXT", "Full name of the cluster", "title", "My cluster"),
    Question("login-host", "HOST", "Login host", "login.host", "login.cluster.example.org"),
    Question("partition", "NAMES", _PARTITIONS, "partitions", True, _partitions),
    Question("max-time", "TIME", _TIME, _MAX_TIME, "2-00:00:00"),
    Question("gpus-per-node", "N", "GPUs of a node", "node.gpus", 4, _number, required=True),
    Question("cpus-per-node", "N", _CPUS, "node.cpus", 64, _number),
    Question("mem-per-node", "SIZE", _MEMORY, "node.memory", "500G"),
    Question("gpu-request", "FORM", _REQUEST, "gpu.request", "gres"),
    Question("gpu-type", "NAMES", _TYPES, "gpu.types", "NVIDIA A100", _gpu_types),
    Question("memory-form", "FORM", _FORM, "memory.form", "mem"),
    Question("account-required", "yes|no", _ACCOUNT, "account.required", True, _yes),
    Question("modules", "NAMES", _MODULES, "modules.load", ["python", "cuda"], _words),
    Question("engine", "NAME", _ENGINE, "container.engine", "apptainer"),
    Question("internet", "yes|no|proxy", _INTERNET, "internet", "no"),
    Question("network", "NAME", _NETWORK, "env.multi_node.NCCL_SOCKET_IFNAME", "ib0"),
)
"In the order in which they are asked."


def _open_in_partitions(known: Facts) -> list[Open]:
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

MARK = "# ?"
"Begins the lines of questions that wait for an answer."
ANSWERS, DISCOVERED = "answers", "discover"
"The sources of what the user answered, and of what a cluster reported."
_HEAD = (
    "# {name}, written by `slurmgen sites new` on {date}.",
    "# A key that is not set is unknown: slurmgen then requires an option, or uses a default.",
    f"# A line with `{MARK}` is a question: write the answer below it, without the `#`.",
)


class Stated(NamedTuple):
    """A fact of the profile and the source that states it."""

    keys: Keys
    value: Any
    source: str
    "The name of its table in [sources]."
    seen: str = ""
    "When and how a cluster reported it."


def profile_text(
    head: Sequence[str],
    facts: Sequence[Stated],
    comments: Mapping[Keys, Sequence[str]],
    sources: Mapping[str, Source],
    *,
    explained: bool = False,
) -> str:
    """The text of a profile in TOML, with the tables in the order of the model.

    Args:
        head: the lines before all facts.
        comments: further lines of a table.
        explained: put the meaning of each key above it, where it stands first.
    """
    lines = [*head]
    described = set[str]() if explained else None
    for table in _tables(facts, comments):
        lines += _table(table, facts, comments.get(table, ()), described)
    for name, source in sources.items():
        values = msgspec.to_builtins(source).items()
        lines += [
            "",
            f"[sources.{toml_key(name)}]",
            *(f"{key} = {toml_value(value)}" for key, value in values),
        ]
    return "\n".join([*lines, ""])


def _tables(facts: Sequence[Stated], comments: Iterable[Keys]) -> list[Keys]:
    order = list(Site.__struct_fields__)
    tables = dict.fromkeys([(), *map(_table_of, facts), *comments])
    return sorted(tables, key=lambda keys: (order.index(keys[0]), len(keys) > 1) if keys else (-1, False))


def _table_of(fact: Stated) -> Keys:
    return fact.keys if fact.value == {} else fact.keys[:-1]


def _table(
    table: Keys, facts: Sequence[Stated], comments: Sequence[str], described: set[str] | None
) -> Iterator[str]:
    stated = [fact for fact in facts if _table_of(fact) == table]
    if table:
        head = f"[{'.'.join(map(toml_key, table))}]"
        seen = next((_seen(fact) for fact in stated if fact.value == {}), "")
        yield from ("", *_comment(table, described), f"{head}{seen}" if stated else f"# {head}")
    for fact in stated:
        if fact.value != {}:
            yield from (*_comment(fact.keys, described), _line(fact.keys, fact.value) + _seen(fact))
    yield from comments


def _seen(fact: Stated) -> str:
    return f"  # {fact.seen}" if fact.seen else ""


def _comment(keys: Keys, described: set[str] | None) -> list[str]:
    note = meaning(keys)
    if described is None or note in described:
        return []
    described.add(note)
    return [f"# {note}"]


def _line(keys: Keys, value: Any) -> str:
    return f"{toml_key(keys[-1])} = {toml_value(value)}"


def _without_dots(keys: Keys) -> Keys:
    """The keys up to the first with a dot, which `facts` cannot express."""
    return keys[: next((index for index, key in enumerate(keys) if "." in key), len(keys))]


def meaning(keys: Keys) -> str:
    """What a key of a profile means, in the words of its struct."""
    kind: Any = Site
    note = ""
    for key in keys:
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            continue
        struct = next((part for part in (kind, *get_args(kind)) if hasattr(part, "__struct_fields__")), None)
        if struct is None:
            break
        note = field_notes(struct)[key]
        kind = next(field.type for field in msgspec.structs.fields(struct) if field.name == key)
    return note


def new_profile(
    name: str,
    facts: Facts,
    found: Mapping[Keys, Stated],
    remarks: Sequence[str],
    user: str,
    date: str,
    page: str | None = None,
) -> str:
    """The text of a new profile.

    Args:
        found: the part of it that a cluster reported.
        remarks: what readers must know besides.
        user: who states the other facts.
        date: the day, as YYYY-MM-DD.
        page: the address of the documentation that has the answers.
    """
    stated = [
        found[keys] if keys in found and found[keys].value == value else Stated(keys, value, ANSWERS)
        for keys, value in facts.items()
    ]
    reported = dict.fromkeys(".".join(_without_dots(one.keys)) for one in stated if one.source == DISCOVERED)
    discovered = Source(mark="discovered", title="slurmgen sites discover", date=date, facts=tuple(reported))
    sources = ({DISCOVERED: discovered} if found else {}) | {ANSWERS: _source_of_answers(user, date, page)}
    comments: dict[Keys, list[str]] = {}
    for gap in _unknown(facts, has_partitions=any(keys[0] == "partitions" for keys in found)):
        lines = (f"{MARK} {gap.text}?", f"# {_line(gap.keys, gap.example)}")
        comments.setdefault(gap.keys[:-1], []).extend(lines)
    head = [line.format(name=name, date=date) for line in _HEAD] + [f"# {visible(text)}" for text in remarks]
    return profile_text([*head, f"name = {toml_value(name)}"], stated, comments, sources, explained=True)


def _source_of_answers(user: str, date: str, page: str | None) -> Source:
    if page:
        return Source(mark="documentation", title=f"documentation, read by {user}", url=page, date=date)
    return Source(mark="users", title=f"answers of {user} to `slurmgen sites new`", date=date)


def _unknown(facts: Facts, *, has_partitions: bool) -> list[Open]:
    gaps = [question.unanswered(facts) for question in QUESTIONS if not question.is_answered(facts)]
    partitions = [] if has_partitions else _open_in_partitions(facts)
    return [gap for gap in (*gaps, *partitions, *LATER) if gap.keys not in facts]
