"""How a program starts its ranks, and the lines that show it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct, structs

from slurmgen.files import is_file, is_inside, read_text
from slurmgen.python_source import LARGEST_FILE, Call, Import, Source, read_source, source_of
from slurmgen.text import listed

_GROUP = "process group"
"Evidence of ranks that join a process group, which several launchers start."
_WRAPPED = "wrapped model"
"Evidence of ranks that have joined one; which file makes it join is still to be found."
_CALLS = {
    "lightning": r"(pytorch_lightning|lightning|lightning_fabric)\.([\w.]+\.)?"
    r"(Trainer|Fabric|\w*CLI)(\.from_argparse_args)?",
    "accelerate": r"accelerate\.([\w.]+\.)?(Accelerator|PartialState)",
    "hf-trainer": r"(transformers|trl|sentence_transformers|setfit|peft|optimum)\.([\w.]+\.)?\w*Trainer",
    "deepspeed": r"deepspeed\.([\w.]+\.)?(initialize|init_distributed|init_inference|PipelineModule)",
    "ray": r"ray\.init|ray\.train\.[\w.]*Trainer|ray\.tune\.(run|Tuner)|horovod\.ray\.\w*Executor",
    "mpi": r"mpi4py\.MPI\.COMM_WORLD\.\w+|mpi4py\.MPI\.COMM_WORLD|horovod\.[\w.]*\binit",
    "jax": r"jax\.distributed\.initialize",
    "tensorflow": r"tensorflow\.distribute\.(experimental\.)?(MultiWorkerMirrored|ParameterServer)Strategy",
    "spawn": r"torch\.multiprocessing\.(spawn|start_processes|spawn\.spawn)"
    r"|detectron2\.engine\.([\w.]+\.)?launch",
    _GROUP: r"torch\.distributed\.([\w.]+\.)?(init_process_group|init_device_mesh)"
    r"|colossalai\.launch_from_torch|composer\.([\w.]+\.)?Trainer",
    _WRAPPED: r"torch\.nn\.parallel\.([\w.]+\.)?DistributedDataParallel|torch\.distributed\.fsdp\.([\w.]+\.)?"
    r"(FullyShardedDataParallel|fully_shard)|apex\.parallel\.DistributedDataParallel",
    "python": r"torch\.nn\.([\w.]+\.)?DataParallel|tensorflow\.distribute\.MirroredStrategy",
}
_KINDS = {name: re.compile(pattern) for name, pattern in _CALLS.items()}
_STRONG = (
    "ray",
    "lightning",
    "accelerate",
    "hf-trainer",
    "deepspeed",
    "mpi",
    "jax",
    "tensorflow",
    "spawn",
    _GROUP,
    _WRAPPED,
)
"In the order in which one includes the others: Lightning, for example, joins the process group itself."
_JOINED = (_GROUP, _WRAPPED)
_INCLUDED = {
    _GROUP: {_WRAPPED},
    "ray": {*_STRONG},
    "lightning": {*_JOINED, "deepspeed"},
    "accelerate": {*_JOINED, "deepspeed"},
    "hf-trainer": {*_JOINED, "deepspeed", "accelerate"},
    "deepspeed": {*_JOINED},
    "mpi": {*_JOINED, "spawn"},
    "spawn": {*_JOINED},
}
"What a launcher starts as well: torchrun's variables also serve Accelerate and Hugging Face's Trainer."
_MOST_FILES, _MOST_BYTES = 100, 200_000
"Limits of the modules that are read for one program, and of those of which a syntax tree is made."
_SIGNS = re.compile(
    r"init_process_group|init_device_mesh|Accelerator|Trainer|Fabric|deepspeed|mpi4py|horovod|spawn|DataParallel"
    r"|launch|jax\.distributed|ray\.|Strategy|SLURM_|PartialState|fully_shard|CLI\b"
)
"A module without any of these words has no evidence, so that no syntax tree is made of it."
_IMPORT = re.compile(
    r"^[ \t]{0,99}(?:from[ \t]{1,9}([\w.]{1,200})[ \t]{1,9}import[ \t]{1,9}"
    r"(?:\(([^()]{0,4000})\)|([^\n#;(]{1,400}))|import[ \t]{1,9}([\w., \t]{1,400}))",
    re.MULTILINE,
)
FRAMEWORK_MODULES = frozenset(
    """
    torch torchvision lightning pytorch_lightning accelerate transformers trl deepspeed jax flax keras
    tensorflow horovod mpi4py ray diffusers timm
    """.split()
)
"Modules that a program for GPUs imports."


class Evidence(NamedTuple):
    """A line of a program that shows how it starts its ranks."""

    framework: str
    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}"


class Program(Struct, frozen=True):
    """A program of the project as it was read."""

    file: str
    "Its path in the project."
    framework: str
    source: Source
    evidence: tuple[Evidence, ...] = ()
    "The first one decided."
    against: tuple[Evidence, ...] = ()
    "What speaks for another framework."
    is_known: bool = True
    "Whether it uses a framework for GPUs; otherwise nothing shows how it is meant to start."
    why: str = ""
    "Why the framework was taken, where the evidence alone does not say it."

    @property
    def origin(self) -> str:
        """Where the framework was found."""
        return self.evidence[0].place if self.evidence else self.file

    @property
    def notice(self) -> str:
        """What was found, for the user."""
        found = f"framework: {self.framework}, from {self.origin}"
        speaks = self.evidence[0].text if self.evidence else ""
        others = listed([f"{one.framework} by {one.text} ({one.place})" for one in self.against[:3]])
        also = f"; {speaks} speaks for it, but also for {others}" if others else ""
        why = f", {self.why}" if self.why else ""
        return f"{found}{why}{also}; --framework changes it"


def read_program(project_dir: Path, file: str) -> Program | None:
    """How a Python file of a project starts its ranks; None if it cannot be read."""
    if not is_inside(project_dir / file, project_dir):
        return None
    source = read_source(project_dir / file)
    if source is None:
        return None
    files, reader = {file: source}, _Reader(project_dir, file)
    level, found = files, list[Evidence]()
    while level:
        reached = _reached(file, files)
        found += _evidence(level, reached | {""} if file not in level else None)
        if {one.framework for one in found} & {*_STRONG} - {_WRAPPED}:
            break
        level = reader.next_level(level)
        files |= level
    if not {one.framework for one in found} & {*_STRONG}:
        return _without_ranks(file, source, files, found, is_whole=not reader.left_out)
    return _decided(file, source, found, files | reader.next_level(level))


_CALL = re.compile(r"\b([A-Za-z_]\w{0,99})\s{0,9}\(")


def _reached(file: str, files: Mapping[str, Source]) -> set[str]:
    """The names that a program uses, by itself or by the functions of its modules that it uses."""
    reached = set[str]().union(*files[file].uses.values())
    uses = [item for name, source in files.items() if name != file for item in source.uses.items()]
    while True:
        further = set[str]().union(*(used for name, used in uses if not name or name in reached)) - reached
        if not further:
            return reached
        reached |= further


def _evidence(files: Mapping[str, Source], reached: set[str] | None) -> Iterator[Evidence]:
    """The lines that show a framework, in functions that are reached; in all of them for None."""
    for file, source in files.items():
        for call in source.calls:
            for kind, pattern in _KINDS.items() if reached is None or call.inside in reached else ():
                if pattern.fullmatch(call.name):
                    yield Evidence(kind, file, call.line, call.name.removesuffix(".from_argparse_args"))


def _decided(file: str, source: Source, found: list[Evidence], files: Mapping[str, Source]) -> Program:
    """The program by the first framework that includes the others, or the safest one."""
    kinds = [kind for kind in _STRONG if any(one.framework == kind for one in found)]
    chosen = kinds[0]
    others = [kind for kind in kinds[1:] if kind not in _INCLUDED.get(chosen, ())]
    own = [one for one in found if one.framework == chosen]
    against = [one for one in found if one.framework in others]
    program = Program(file, chosen, source, tuple(own), tuple(against))
    return _of_group(program, files) if chosen in (*_JOINED, "spawn") else program


def _of_group(program: Program, files: Mapping[str, Source]) -> Program:
    """The launcher of a process group: by the variables that the program reads."""
    of_torchrun = _reads(files, "LOCAL_RANK") or _reads(files, "RANK")
    of_slurm = _reads(files, "SLURM_PROCID")
    if program.framework == "spawn":
        local = _reads(files, "LOCAL_RANK")
        against = [local._replace(framework="ddp")] if local else []
        return structs.replace(program, against=(*program.against, *against))
    framework = "srun" if of_slurm and not of_torchrun else "ddp"
    shown = of_slurm if of_slurm and framework == "srun" else program.evidence[0]
    evidence = (shown._replace(framework=framework), *program.evidence)
    return structs.replace(program, framework=framework, evidence=evidence)


def _reads(files: Mapping[str, Source], variable: str) -> Evidence | None:
    found = ((file, source.texts.get(variable)) for file, source in files.items())
    return next((Evidence("", file, line, f"${variable}") for file, line in found if line), None)


def _without_ranks(
    file: str, source: Source, files: Mapping[str, Source], found: Iterable[Evidence], *, is_whole: bool
) -> Program:
    """A program without a call that starts ranks; unknown if it was not read whole."""
    if imported := _imported(files):
        return Program(file, imported.framework, source, (imported,))
    if own := next(iter(found), None):
        return Program(file, "python", source, (own,))
    if slurm := _reads({file: source}, "SLURM_PROCID"):
        return Program(file, "srun", source, (slurm._replace(framework="srun"),))
    imported_modules = {
        one.module.partition(".")[0] for one in chain(*(one.imports for one in files.values()))
    }
    is_known = is_whole and bool(imported_modules & FRAMEWORK_MODULES)
    why = "in which nothing starts several processes"
    return Program(file, "python", source, is_known=is_known, why=why)


def _imported(files: Mapping[str, Source]) -> Evidence | None:
    """The framework whose class is imported, and made elsewhere, as Hydra does."""
    for file, source in files.items():
        for one in source.imports:
            name = f"{one.module}.{one.name}"
            for kind in ("lightning", "accelerate", "hf-trainer"):
                if _KINDS[kind].fullmatch(name):
                    return Evidence(kind, file, one.line, name)
    return None


class _Reader:
    """Reads the modules of a project that a program imports, each once, within limits."""

    def __init__(self, project_dir: Path, file: str) -> None:
        self._project_dir, self._seen, self._left = project_dir, {file}, _MOST_BYTES
        self.left_out = False
        folder = PurePosixPath(file).parent
        self._roots = tuple(dict.fromkeys([folder, PurePosixPath(), PurePosixPath("src"), *folder.parents]))

    def next_level(self, files: Mapping[str, Source]) -> dict[str, Source]:
        """The modules that these files import."""
        names = [name for file, source in files.items() for name in self._imported(file, source.imports)]
        return {name: found for name in dict.fromkeys(names) if (found := self._read(name))}

    def _imported(self, file: str, imports: Iterable[Import]) -> Iterator[str]:
        for one in imports:
            path = one.module.lstrip(".").replace(".", "/")
            up = len(one.module) - len(one.module.lstrip("."))
            here = PurePosixPath(file).parent
            relative = [here.parents[up - 2]] if 1 < up <= len(here.parents) + 1 else [here]
            for root in relative if up else self._roots:
                yield from self._files_of(root / path, one.name)

    def _files_of(self, module: PurePosixPath, name: str) -> Iterator[str]:
        for path in ([module / name] if name and name != "*" else []) + [module]:
            for candidate in (f"{path}.py", f"{path}/__init__.py"):
                if candidate not in self._seen and is_file(self._project_dir / candidate):
                    yield candidate

    def _read(self, name: str) -> Source | None:
        if name in self._seen:
            return None
        path = self._project_dir / name
        try:
            if len(self._seen) >= _MOST_FILES or not is_inside(path, self._project_dir):
                raise ValueError
            self._seen.add(name)
            text = read_text(path, min(LARGEST_FILE, self._left))
            if not _SIGNS.search(text):
                return _without_signs(text)
            self._left -= len(text)
            return source_of(text)
        except (OSError, ValueError):
            self.left_out = True
            return None


def _without_signs(text: str) -> Source:
    return Source(imports=tuple(_imports_in(text)), uses={"": frozenset(_CALL.findall(text))})


def _imports_in(text: str) -> Iterator[Import]:
    """The imports of a module by its lines, which is quicker than a syntax tree."""
    for match in _IMPORT.finditer(text):
        module, several, line, plain = match.groups()
        for name in (several or line or plain or "").split(","):
            word = name.split()[0] if name.split() else ""
            if word:
                yield Import(module, word) if module else Import(word, "")


def calls_of(program: Program, framework: str) -> list[Call]:
    """The calls of the file of a program that belong to a framework."""
    return [call for call in program.source.calls if _KINDS[framework].fullmatch(call.name)]
