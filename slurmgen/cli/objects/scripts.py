"""Objects of the commands for scripts."""

from typing import Any, Literal

from msgspec import Struct


class Started(Struct, frozen=True, kw_only=True):
    """A new project."""

    site: str
    "Its default site."
    wrote: list[str]
    "The new files and folders."


class RenderedScript(Struct, frozen=True, kw_only=True):
    """One batch script."""

    path: str | None
    "Its file; null if it was not written to one."
    changed: bool
    "Whether the file was written; false if it was up to date, or if there is none."
    script: str
    "The text."


class Rendered(Struct, frozen=True, kw_only=True):
    """Batch scripts. Without --all it is one."""

    scripts: list[RenderedScript]
    warnings: list[str]
    "What the jobs need and lack, such as a file that does not exist."


class ExplainedSweep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sweep of a plan."""

    runs: int
    "Sets of parameters."
    tasks: int
    "Tasks of all arrays."
    arrays: int
    "More than 1 if the site allows no array of that size."
    at_a_time: int | None = None
    "The most tasks that run at the same time; absent for no limit."
    runs_per_gpu: int
    first: str
    "The arguments of the first runs, one run on a line."


class Explained(Struct, frozen=True, kw_only=True):
    """The plan of a job. `reasons` and `sources` have the keys of these values; null and empty are unset."""

    site: str
    framework: str
    "The launcher."
    name: str
    "Name of the job."
    nodes: int
    gpus_per_node: int
    ntasks_per_node: int
    procs_per_task: int
    "Ranks that the launcher starts in each task."
    cpus_per_task: int
    world_size: int
    "Ranks of the job."
    mem: str | None
    "Memory, in Slurm's notation."
    time: str | None
    "Time limit, in Slurm's notation."
    requeue: bool
    "Whether the job is requeued while it is unfinished."
    segments: int
    "The array tasks that the job may take, one after the other."
    gpu_type: str | None
    partition: str | None
    "One partition or several, separated by commas."
    qos: str | None
    account: str | None
    container: str | None
    "The container image."
    python_env: str
    "Where Python comes from."
    modules: list[str]
    rendezvous: str | None
    "The address at which the ranks meet, as an expression of the shell."
    gpu_hours: float
    "GPUs x time limit x tasks of its array."
    charge: str | None
    "What the job costs at most, in the unit of the site."
    directives: dict[str, str]
    "The `#SBATCH` lines, by their long options."
    env: dict[str, str]
    "Variables that the script sets."
    task_env: dict[str, str]
    "Variables that each task sets."
    notes: dict[str, str]
    "Remarks about the site that concern this job."
    launch: list[str]
    "The lines of the job step."
    script: str | None
    "The training script; null for a module or a command."
    program: str
    "The program with its arguments."
    preflight: list[str]
    "The lines that check the nodes first."
    on_bad_node: str | None
    "What the job does if a node is bad: `stop` or `retry`."
    requeue_signal: str | None
    "How the ranks are asked to save, and how many seconds before the limit."
    sweep: ExplainedSweep | None
    "Its runs with parameters of their own."
    stage: list[str]
    "Data that is copied to the nodes."
    secrets: list[str]
    "Variables whose values `submit` sends in a file of their own."
    before_login: list[str]
    "Lines of shell for the login node before the submission."
    before: list[str]
    "Lines of shell before the job step."
    then: list[str]
    "Further job steps."
    after: list[str]
    "Lines of shell after the job step."
    output: str
    "The log, with Slurm's patterns."
    command: str
    "The command that renders the script."
    cited: dict[str, str]
    "The sources that the reasons cite, by name."
    reasons: dict[str, str]
    "Why each value is what it is."
    sources: dict[str, str]
    "Where each value comes from, such as the profile or the command line."
    depends_on: list[str]
    "The jobs of slurmgen.toml that must end first, each as TYPE:JOB."


class Mismatch(Struct, frozen=True, kw_only=True):
    """A script that differs from slurmgen.toml."""

    path: str
    kind: Literal["outdated", "missing", "edited", "no-job"]
    message: str
    diff: str
    "A unified diff from the file to the expected script."


class Checked(Struct, frozen=True, kw_only=True):
    """How the scripts of a project compare with slurmgen.toml."""

    scripts: int
    "The number of scripts that slurmgen.toml describes."
    findings: list[Mismatch]


class LintFinding(Struct, frozen=True, kw_only=True):
    """One finding of the linter. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    "The column after the last character."
    code: str
    "The code of the rule, such as SG110."
    rule: str
    "The name of the rule."
    severity: str
    "`error`, `warning` or `note`."
    message: str
    advice: str
    "What to do."
    fixable: bool
    "Whether --fix, with --unsafe-fixes if `fix` is `unsafe`, can change it."
    fix: Literal["safe", "unsafe"] | None
    "`safe`: a script that runs stays the same."


class LintChange(Struct, frozen=True, kw_only=True):
    """What --diff would change in one file."""

    file: str
    findings: int
    "The findings before the change."
    diff: str
    "The changes as a patch; empty for none."


class LintRule(Struct, frozen=True, kw_only=True):
    """The documentation of a rule."""

    code: str
    name: str
    severity: str
    summary: str
    doc: str
    "The page of the rule, in Markdown."


class AdoptedLine(Struct, frozen=True, kw_only=True):
    """A line of a batch script that is not in the job as it is."""

    line: int
    "Counted from 1."
    text: str
    why: str


class AdoptedFact(Struct, frozen=True, kw_only=True):
    """What the headers of the old and of the rendered script request differently."""

    name: str
    old: str | int | None
    new: str | int | None


class AdoptedJob(Struct, frozen=True, kw_only=True):
    """The job of a batch script."""

    file: str
    name: str
    "The name of the job in slurmgen.toml."
    request: dict[str, Any]
    "The keys of the job."
    toml: str
    "The table in slurmgen.toml."
    replaced: list[AdoptedLine]
    "The lines that slurmgen replaces by its own."
    not_expressed: list[AdoptedLine]
    "The lines that a job does not express."
    secrets: list[AdoptedLine]
    "Where values are left out, because they look like secrets."
    notes: list[str]
    differences: list[AdoptedFact]
    rendered: str
    "The batch script of the job."
    written: bool
    "Whether the job is in slurmgen.toml now."


class AdoptedJobs(Struct, frozen=True, kw_only=True):
    """The jobs of batch scripts."""

    jobs: list[AdoptedJob]
