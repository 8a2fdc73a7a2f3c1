"""Random requests as texts of a form, and the same as words of the command line."""

import random
import shlex
from collections.abc import Iterator, Mapping

from slurmgen.errors import flag
from slurmgen.request.text import FIELDS
from slurmgen.sites.profiles import load_site, profile_paths

HOSTILE = (
    *("$(reboot)", "`id`", "'; rm -rf ~; '", '"quoted" words', "<script>alert(1)</script>", "--gpus", "a\tb"),
    *("a\x00b", "a\x1b[2J", "\u202eabc", "ünïcode", "x" * 300, "{{ 7 * 7 }}", "../../etc/passwd", "none"),
    *("a b", "$HOME/a", "~/a", "%s%n", "a&b=c#d+e"),
)
_VALUES: dict[str, tuple[str, ...]] = {  # the first two of each are often valid
    "framework": tuple("ddp python srun lightning accelerate deepspeed jax ray dpp mpi".split()),
    "gpus": ("4", "8", "0", "1", "2", "3", "16", "64", "100000000", "-1", "x", "1.5", " 4"),
    "nodes": ("1", "2", "4", "0", "5000", "two"),
    "cpus_per_gpu": ("1", "8", "72", "9999"),
    "cpus": ("4", "8", "7", "999"),
    "ntasks_per_node": ("1", "4"),
    "mem": ("64G", "1T", "9999T", "no", "0"),
    "time": ("1:00:00", "2-0", "30", "9-00:00:00", "99999:00", "soon", "0"),
    "account": ("nn1234k", "project_1", "a b"),
    "container": ("none", "/images/a.sif", "docker://ubuntu:24.04", "relative.sif"),
    "container_engine": ("apptainer", "pyxis", "dockr"),
    "binds": ("/data", "/a:/b\n/c:/d", "a:b:c:d:e"),
    "env": (
        *("A=1", "A=$HOME\nB=b c", "TOKEN=abc", "1A=b", "A", "A=...", "MASTER_PORT=1"),
        "NCCL_DEBUG=INFO\r\nX=y",
    ),
    "secrets": ("HF_TOKEN", "A-B"),
    "not_secret": ("MY_TOKEN",),
    "modules": ("none", "gcc/12\ncuda", "a b"),
    "python_env": ("none", "uv", "venv:/x/.venv", "conda:base", "venv", "foo:bar", "pixi"),
    "sbatch": ("comment=hello", "exclusive", "array=0-3", "nodes=2", "comment", "=x", "reservation=a b"),
    "script": ("train.py", "run.sh", "a dir/x.py", "-x.py", "training/cifar_ddp.py", "$HOME/t.py"),
    "script_args": ("--epochs 20", "--name 'a b' $HOME", "a -- b", "~/x"),
    "module": ("pkg.train", "pkg-train"),
    "command": ("./sim --n 1", "echo 'a b'", "'open"),
    "launcher_args": ("--max-restarts=3", "--nnodes=3", "x"),
    "launcher_config": ("acc.yaml", "$HOME/ds.json"),
    "rendezvous": ("static", "c10d", "etcd"),
    "mixed_precision": ("bf16", "int8"),
    "preflight": ("yes", "no"),
    "requeue": ("yes", "no"),
    "label_ranks": ("yes", "no"),
    "segments": ("1", "3", "0"),
    "exclude": ("n1", "n1=slow\nn2", "n 1"),
    "on_bad_node": ("stop", "retry", "go"),
    "requeue_signal": ("TERM@300", "USR2", "file", "KILL"),
    "mail": ("end,fail", "none", "sometimes"),
    "mail_user": ("a@example.org", "a b"),
    "name": ("job", "a b", "bash"),
    "log_dir": ("logs", "a b", "$HOME"),
    "sweep": ("lr=1,2", "lr=1e-3,1e-4\nseed=1,2,3", "lr", "lr=1\nlr=2", "1x=2"),
    "sweep_limit": ("2", "0"),
}
_SWITCHES = ("preflight", "requeue", "label_ranks")


def form_requests(count: int, seed: int) -> Iterator[dict[str, str]]:
    """That many random forms; most have few fields, as otherwise almost all would be refused."""
    chance = random.Random(seed)  # noqa: S311
    sites = sorted(profile_paths(personal=False))
    for _ in range(count):
        site = chance.choice(sites)
        texts = {"site": site, "account": "abc"} if chance.random() < 0.9 else {"site": site}
        names = chance.sample(sorted(FIELDS), chance.choice((1, 1, 2, 2, 3, 4, 6)))
        yield texts | {name: _value(chance, name, site) for name in names}


def _value(chance: random.Random, name: str, site: str) -> str:
    if chance.random() < 0.08:
        return chance.choice(HOSTILE)
    facts = load_site(site, personal=False)
    known = {"partition": [*facts.partitions], "qos": [*facts.qos], "gpu_type": [*facts.gpu.types]}
    valid = (*known.get(name, ()), *_VALUES.get(name, ())[:2])
    return chance.choice(valid if valid and chance.random() < 0.75 else _VALUES.get(name, ("unknown",)))


def words_of(texts: Mapping[str, str]) -> list[str]:
    """The options and arguments that mean the same.

    Raises:
        ValueError: no words mean the same.
    """
    words: list[str] = []
    for name, text in texts.items():
        if name == "sweep_limit":
            words.append(f"--sweep-limit={text}")
        elif name in _SWITCHES:
            words.append({"yes": flag(name), "no": flag(name).replace("--", "--no-", 1)}.get(text, ""))
        elif name not in ("script_args", "site"):
            words += [f"{flag(name)}={value}" for value in _several(name, text)]
    if "" in words:
        raise ValueError("a switch is on or off")
    arguments = shlex.split(texts.get("script_args", ""))
    return [f"--site={texts['site']}", *words, *(["--", *arguments] if arguments else [])]


LISTS = ("binds", "env", "secrets", "not_secret", "modules", "sbatch", "launcher_args", "exclude", "sweep")


def _several(name: str, text: str) -> list[str]:
    return [line for line in text.replace("\r\n", "\n").split("\n") if line] if name in LISTS else [text]
