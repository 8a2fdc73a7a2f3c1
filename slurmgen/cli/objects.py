"""What commands on scripts and sites print with --json; see docs/json.md, and the schemas in schemas/output.

Programs depend on these objects: keys may be added, but none is removed, renamed or given another meaning.
"""

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


class SiteRow(Struct, frozen=True, kw_only=True):
    """One site."""

    name: str
    title: str
    "What the profile calls it; empty if the profile is not valid."
    path: str
    "The file of its profile."
    error: str
    "Why the profile is not valid, else empty."


class SiteList(Struct, frozen=True, kw_only=True):
    """All sites that slurmgen knows."""

    sites: list[SiteRow]


class ValidatedProfile(Struct, frozen=True, kw_only=True):
    """One profile."""

    path: str
    errors: list[str]
    warnings: list[str]
    "With --strict: facts that contradict each other, have no effect or no source."


class Validated(Struct, frozen=True, kw_only=True):
    """Profiles and their faults."""

    profiles: list[ValidatedProfile]


class NewProfile(Struct, frozen=True, kw_only=True):
    """A new profile."""

    name: str
    path: str
    errors: list[str]
    "What is wrong in it, until the open questions are answered."


class DiscoveredProfile(Struct, frozen=True, kw_only=True):
    """A profile from what a cluster reports."""

    name: str
    path: str | None
    "The new file; null without --output."
    profile: str
    "The text of the profile, in TOML."
    unknown: list[str]
    "What Slurm does not report."


class ProfileDifference(Struct, frozen=True, kw_only=True):
    """A fact that a profile and the cluster state differently."""

    key: str
    "The key of the profile, with dots between tables."
    profile: str
    "Its value in the profile."
    cluster: str
    "Its value on the cluster."


class Compared(Struct, frozen=True, kw_only=True):
    """The comparison of a profile with its cluster."""

    site: str
    differences: list[ProfileDifference]
    failed: list[str]
    "The commands that failed on the cluster; what they report was not compared."


class ProbeJob(Struct, frozen=True, kw_only=True):
    """The job of --probe, which --dry-run does not submit."""

    script: str
    "The batch script."
    program: str
    "What it runs on the node."


class TrialResult(Struct, frozen=True, kw_only=True):
    """A shape of a job on a site, and its result."""

    shape: str
    "Such as `ddp on 2 nodes`."
    result: Literal["passed", "refused", "failed"]
    "`refused`: it is beyond a limit of the profile, which is not a failure."
    reason: str
    script: str
    "The batch script; empty if there is none."


class SiteTrial(Struct, frozen=True, kw_only=True):
    """The trial of a profile."""

    site: str
    twin: bool
    "Whether the trials ran on a twin too."
    trials: list[TrialResult]


class TwinObject(Struct, frozen=True, kw_only=True):
    """A running twin."""

    site: str
    folder: str
    nodes: list[str]
    "The names of its nodes."
    partitions: dict[str, str]
    "What a node of each partition has, in words."
    assumptions: list[str]
    "What was assumed because the profile does not say it."
    environment: dict[str, str]
    "The variables with which the ordinary Slurm commands use it."
    ssh_host: str | None
    "Its host name for `ssh -F ssh_config`; null without --ssh."
    ssh_config: str | None


class TwinList(Struct, frozen=True, kw_only=True):
    """The running twins."""

    twins: list[TwinObject]


class StoppedTwins(Struct, frozen=True, kw_only=True):
    """The twins that were stopped."""

    stopped: list[str]
    "Their sites."


Facts = dict[str, Any]
"""What a profile states, with what it inherits; `schemas/site.json` describes its keys."""
