"""What commands on jobs print with --json. See objects."""

from typing import Literal

from msgspec import Struct

from slurmgen.ledger.bad_nodes import BadNode
from slurmgen.status.prune import Kept
from slurmgen.status.report import JobObject
from slurmgen.submit.race import Loser
from slurmgen.submit.where import Option


class JobList(Struct, frozen=True, kw_only=True):
    """Several jobs; also a list of one or none, if the command line did not name exactly one job."""

    jobs: list[JobObject]
    "In the order of the command line; without ID, the newest last."


class Submitted(Struct, frozen=True, kw_only=True):
    """A job that was submitted, now or by the same command earlier."""

    id: str
    "The id of the job."
    cluster: str
    "The cluster, if the site has several; else empty."
    site: str
    via: str
    "How the site is reached: `ssh`, `local` or `twin`."
    host: str | None
    "Login host; null without SSH."
    name: str
    "Name of the job."
    folder: str
    "The run folder on the cluster."
    key: str
    "Idempotency key of the submission."
    snapshot: str
    "Hash of the project's content."
    commit: str
    "Git commit of the project; empty without a repository."
    dirty: bool
    "Whether the project had uncommitted changes."
    submitted: str
    "Time of the submission, as ISO 8601 in UTC."
    earlier: bool
    "Whether the job is from an earlier submission, and nothing was submitted now."


class SubmittedFirst(Submitted, frozen=True, kw_only=True):
    """The job of --first that runs the program."""

    race: str
    "The key that the jobs of all sites share."
    others: list[Loser]
    "The jobs of the other sites, which do not run the program."


class Resubmitted(Submitted, frozen=True, kw_only=True):
    """A job that was submitted again."""

    resubmits: str
    "The id of the job that it repeats."
    files: Literal["snapshot", "present"]
    "Which files it runs: those that the other job ran, or the project as it is now."


class ResubmitDryRun(Struct, frozen=True, kw_only=True):
    """What --dry-run would submit again."""

    resubmits: str
    "The id of the job that it would repeat."
    files: Literal["snapshot", "present"]
    "Which files it would run: those that the other job ran, or the project as it is now."
    snapshot: str
    "Hash of these files."
    script: str
    "The batch script."
    diff: str | None
    "How it differs from that of the other job, as a unified diff; null if that one is gone."
    sbatch_options: list[str]
    "Options of sbatch that override the header of a batch script of your own."


class SubmittedList(Struct, frozen=True, kw_only=True):
    """The arrays of a sweep beyond the site's array size."""

    jobs: list[Submitted]
    "One for each array."


class Awaited(Struct, frozen=True, kw_only=True):
    """A job that must end first."""

    id: str
    type: str
    "ok, notok or any."


class ResultObject(Struct, frozen=True, kw_only=True):
    """One run of a sweep."""

    task: str
    "Its task, as 12_3; of several runs of a task, with its number, as 12_3/1."
    parameters: dict[str, str]
    values: dict[str, float | int | str | bool | None]
    "What it measured, by name; null for a number that is not finite. Empty if it has written nothing."


class Results(Struct, frozen=True, kw_only=True):
    """What the runs of a sweep measured."""

    runs: list[ResultObject]
    "By --metric, else in the order of the table."


class DryRun(Struct, frozen=True, kw_only=True):
    """What --dry-run would send."""

    script: str
    "The batch script."
    sbatch_options: list[str]
    "Options of sbatch that override the header of a batch script of your own."
    before_login: str
    "What would first run on the login node; empty for nothing."
    after: list[Awaited]
    "The jobs that must end first."
    folder: str
    "The folder on the cluster for submissions, relative to the home folder."
    snapshot: str
    "Hash of the project's content."
    bytes: int
    "Size of the files."
    files: list[str]
    "Their names."
    secrets: list[str]
    "Files that are not sent, because they may hold secrets."
    secret_variables: list[str]
    "Names of the secrets that would be sent to the job."


class Accepted(Struct, frozen=True, kw_only=True):
    """Slurm's reply to --test-only; nothing was submitted."""

    site: str
    via: str
    "How the site is reached: `ssh`, `local` or `twin`."
    answer: str
    "When and where the job would start, as Slurm expects now."


class WhereList(Struct, frozen=True, kw_only=True):
    """Where a job could run: the partitions of all sites, first those where it would start first."""

    can_run: bool
    "Whether one of them could run it."
    options: list[Option]


class Log(Struct, frozen=True, kw_only=True):
    """Where a log is; not its content."""

    id: str
    "The id of the job."
    site: str
    path: str
    "Path on the cluster."
    size: int | None
    "Bytes; null if the file does not exist."
    text: bool | None
    "Whether it appears to be text; null if the file does not exist."


class LogList(Struct, frozen=True, kw_only=True):
    """The logs of several jobs."""

    jobs: list[Log]


class FetchedFiles(Struct, frozen=True, kw_only=True):
    """The results of a job. Files are named relative to the local folder."""

    id: str
    "The id of the job."
    site: str
    to: str
    "The local folder."
    new: list[str]
    "Files that were fetched now."
    same: list[str]
    "Files that were here already, with the same content."
    kept: list[str]
    "Files that are here with other content, and were left as they are."
    refused: list[str]
    "Files that could do harm on this machine, and were not fetched."
    reasons: dict[str, str]
    "Why, for each that was refused."


class FetchedList(Struct, frozen=True, kw_only=True):
    """The results of several jobs."""

    jobs: list[FetchedFiles]


class Forgotten(Struct, frozen=True, kw_only=True):
    """The outcome of a submission that was given up."""

    key: str
    "Idempotency key of the submission."
    name: str
    "Name of the job."
    site: str
    outcome: Literal["recorded", "removed", "forced"]
    "`recorded`: it became a job; `removed`: it has none and can have none; `forced`: a job may exist."
    job: str | None
    "The id of the job that it became, else null."
    cancelled: JobObject | None
    "With --cancel: the state of that job, else null."


class Snapshots(Struct, frozen=True, kw_only=True):
    """What slurmgen stores at a site."""

    kept: list[Kept]
    complaint: str
    "Why Slurm did not report which jobs have ended, else empty."


class BadNodeList(Struct, frozen=True, kw_only=True):
    """The nodes that new jobs exclude."""

    nodes: list[BadNode]


class Preflight(Struct, frozen=True, kw_only=True):
    """The result of a job that checked nodes; its log is on stderr."""

    id: str
    "The id of the job."
    site: str
    healthy: bool
    "Whether the job COMPLETED, so that no node is bad."
    bad: list[BadNode]
    "The nodes that it found bad; new jobs exclude them."
    cleared: list[str]
    "Healthy nodes that new jobs use again."
    by_hand: list[str]
    "Healthy nodes that stay excluded, because the user reported them."
    unseen: dict[str, list[str]]
    "Nodes that stay excluded because of checks that the job could not repeat, with these checks."


class Copied(Struct, frozen=True, kw_only=True):
    """A bundled program that was copied."""

    folder: str
    "The new folder."


class DoctorStep(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    step: str
    "Name of the check."
    state: Literal["ok", "warning", "failed", "not checked"]
    said: str
    "What was found, or why it was not checked."
    hint: str | None
    "What to do, after a failure or a warning."


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The checks before a submission."""

    site: str
    ok: bool
    "Whether no check failed."
    steps: list[DoctorStep]
    "In their order."
