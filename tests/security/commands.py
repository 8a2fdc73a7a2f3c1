"""Every command of slurmgen, with arguments to run it in a hostile repository, and what it may do there."""

from dataclasses import dataclass

SHELL = frozenset("bash dash sh cat chmod cp date df dirname find getent grep head hostname id ln ls".split())
SHELL |= frozenset(
    "mkdir mktemp mv od pwd readlink rm rmdir sed sleep sort stat tail tar touch tr uname uniq".split()
)
SHELL |= frozenset("test timeout true wc xargs cut awk gawk mawk basename du env expr sha256sum sync".split())
SLURM = frozenset("sacct sacctmgr sbatch scancel scontrol sinfo squeue".split())
TWIN = frozenset("dash munged sinfo slurmctld slurmctld-wlm slurmd slurmd-wlm slurmstepd".split())
GIT = frozenset({"git", "prlimit"})


@dataclass(frozen=True)
class Case:
    """One command line. `{job}` stands for the id of a job that has ended."""

    words: str
    exit_code: int = 0
    "In the repository of all traps that let a command go on."
    writes: tuple[str, ...] = ()
    "What it may change: names in the project, or full paths; of either, what begins so."
    programs: frozenset[str] = frozenset()
    "What it may start besides Python."
    seconds: float = 300.0
    "Until it counts as hung; this machine may be busy."
    then: str = ""
    "A command line to run after it, whatever came of it."


CASES = {
    "init": [
        Case("init", 2, programs=SLURM),
        Case("init --training", 2, programs=SLURM),
        Case("init --site lab", 2, writes=("slurmgen.toml",)),
        Case("init --site lab --training", 2, writes=("slurmgen.toml", "training")),
    ],
    "render": [
        Case("render a"),
        Case("render b"),
        Case("render b --write", writes=("slurm/",)),
        Case("render --all --write --force", writes=("slurm/",)),
        Case("render a --output out.sbatch", 2),
        Case("render a --output folder-link/new.sbatch", 2),
        Case("render a --output exp/../folder-link/new.sbatch", 2),
    ],
    "explain": [Case("explain a"), Case("explain b --json")],
    "submit": [
        Case("submit b --dry-run --via local", programs=GIT),
        Case("submit a --dry-run --via twin --json", programs=GIT),
        Case("submit a --test-only --via twin", programs=GIT | SHELL | SLURM),
        Case("submit hand.sbatch --dry-run --via local", 1),
        Case("submit linked.sbatch --dry-run --via local --no-lint", 2),
    ],
    "where": [
        Case("where a --via twin", programs=SHELL | SLURM | {"mktemp", "rm"}),
        Case("where a --via twin --json", programs=SHELL | SLURM | {"mktemp", "rm"}),
    ],
    "resubmit": [
        Case("resubmit {job} --dry-run", programs=SHELL | SLURM),
        Case("resubmit {job} --present-files --dry-run --json", programs=SHELL | SLURM | GIT),
    ],
    "status": [
        Case("status", programs=SHELL | SLURM),
        Case("status {job} --json", programs=SHELL | SLURM),
    ],
    "logs": [
        Case("logs {job}", programs=SHELL | SLURM),
        Case("logs {job} --stderr", 2, programs=SHELL | SLURM),
    ],
    "run": [Case("run missing --via local", 2, programs=GIT)],
    "port": [Case("port {job} 6006", 2, programs=SHELL | SLURM)],
    "path": [Case("path {job}")],
    "ssh": [Case("ssh {job}", programs=SHELL)],
    "shell": [Case("shell {job} -- true", 2, programs=SHELL | SLURM)],
    "top": [
        Case("top --once", programs=SHELL | SLURM),
        Case("top {job} --json", 2, programs=SHELL | SLURM),
    ],
    "wait": [Case("wait {job}", programs=SHELL | SLURM)],
    "cancel": [Case("cancel {job}", programs=SHELL | SLURM)],
    "forget": [Case("forget a", 2, programs=SHELL | SLURM)],
    "fetch": [
        Case("fetch {job}", 2, programs=SHELL),
        Case("fetch {job} --to results --overwrite", 1, writes=("results/",), programs=SHELL),
    ],
    "results": [
        Case("results {job}", 2, programs=SHELL | SLURM),
        Case("results tuned --metric loss --plot plot.svg", writes=("plot.svg",), programs=SHELL | SLURM),
        Case("results tuned --metric loss --plot linked.svg", 2, programs=SHELL | SLURM),
        Case("results tuned --metric loss --plot folder-link/new.svg", 2, programs=SHELL | SLURM),
        Case("results tuned --metric loss --plot device.svg", 2, programs=SHELL | SLURM),
    ],
    "snapshots": [
        Case("snapshots --via twin", programs=SHELL | SLURM),
        Case("snapshots --via twin --prune", programs=SHELL | SLURM),
    ],
    "nodes": [
        Case("nodes"),
        Case("nodes --site lab --add n1 --because slow"),
        Case("nodes --clear-all"),
    ],
    "preflight": [
        Case("preflight --dry-run --via local", programs=GIT),
        Case("preflight --copy", writes=("slurmgen_preflight",)),
    ],
    "doctor": [
        Case("doctor a --via twin", programs=GIT | SHELL | SLURM),
        Case("doctor b --via local", programs=GIT | SHELL | SLURM),
    ],
    "lint": [
        Case("lint hand.sbatch ./-x.sbatch", 1),
        Case("lint --format github hand.sbatch", 1),
        Case("lint --format sarif hand.sbatch", 1),
        Case("lint --diff hand.sbatch", 1),
        Case("lint --fix hand.sbatch", 1, writes=("hand.sbatch",)),
        Case("lint --fix linked.sbatch", 2),
        Case("lint --explain SG1"),
    ],
    "diagnose": [Case("diagnose hand.sbatch")],
    "lsp": [Case("lsp")],
    "web": [Case("web --host 10.0.0.1", 2)],
    "adopt": [
        Case("adopt hand.sbatch --dry-run", 1),
        Case("adopt hand.sbatch --name new --json", 1, writes=("slurmgen.toml",)),
        Case("adopt linked.sbatch --dry-run", 2),
    ],
    "check": [
        Case("check", 1),
        Case("check --format json", 1),
        Case("check --format github", 1),
    ],
    "sites list": [Case("sites list", 1)],
    "sites show": [Case("sites show generic")],
    "sites validate": [Case("sites validate site_profiles/*.toml", 1)],
    "sites new": [Case("sites new new --gpus-per-node 4", writes=("site_profiles/",))],
    "sites discover": [Case("sites discover --via local", programs=SLURM | SHELL | {"srun"})],
    # With --twin it runs the shell lines of the profile, as a job of the twin does.
    "sites test": [
        Case("sites test lab", 1, programs=frozenset({"shellcheck"})),
        Case("sites test generic", 1, programs=frozenset({"shellcheck"})),
        Case("sites test lab --no-twin", 1, programs=frozenset({"shellcheck"})),
    ],
    "twin status": [Case("twin status", programs=SLURM)],
    "twin up": [
        Case(
            "twin up --site lab --nodes 1",
            writes=("/tmp/slurmgen-",),
            programs=TWIN,
            then="twin down --site lab",
        )
    ],
    "twin down": [Case("twin down --site lab", 3)],
}
"By the name of the command."

COMPLETED = (
    "render ",
    "render --site ",
    "render a --partition ",
    "lint --select SG",
    "fetch ",
    "sites show ",
)
"Command lines before the tab key."

FROM_BELOW = (
    *("render a", "explain a", "check", "sites list", "sites show generic"),
    *("submit b --dry-run --via local", "doctor a --via twin", "lint --explain SG1"),
)
"What looks for the project in the folders above."


def case(words: str) -> Case:
    """The case of these words; any other one may do nothing."""
    known = {one.words: one for cases in CASES.values() for one in cases}
    return known.get(words) or Case(words)
