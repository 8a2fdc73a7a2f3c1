"""Plan: every number of one job on one site, each with its reason."""

from msgspec import Struct

from slurmgen.plan.before_login import login_script
from slurmgen.plan.charge import charged
from slurmgen.plan.environment import Setup
from slurmgen.plan.explanation import explained
from slurmgen.plan.job_secrets import JobSecrets
from slurmgen.plan.job_step import Step
from slurmgen.plan.next_steps import NextStep
from slurmgen.plan.ranks import Ranks
from slurmgen.plan.reasons import Reason, Reasoned
from slurmgen.plan.refusals import notes_of
from slurmgen.plan.requeue import Notice
from slurmgen.plan.staging import Staging
from slurmgen.plan.sweep import Sweeping
from slurmgen.request import Request
from slurmgen.sites.model import Rendezvous, Site
from slurmgen.sites.nodes import Place
from slurmgen.slurm import durations
from slurmgen.slurm.sbatch_options import array_size, leaves_out
from slurmgen.slurm.shell import Variable


class Plan(Struct, frozen=True, kw_only=True):
    """Everything that the script needs, with nothing left to decide."""

    site: str
    profile: Site
    name: str
    "Name of the job."
    place: Place
    layout_reason: Reason
    ranks: Ranks
    "Those of the first step, which the header describes."
    memory: Reasoned
    "Of one node."
    time_limit: Reasoned
    setup: Setup
    variables: tuple[Variable, ...]
    secrets: JobSecrets | None
    "The variables that it reads from a file; None for none."
    rendezvous: Rendezvous | None
    "How the ranks find each other; None where they need no address from the batch script."
    notice: Notice | None
    "How the ranks learn that the time limit is near; None without --requeue."
    sweep: Sweeping | None
    "Its runs with parameters of their own; None for one run."
    step: Step
    preflight: tuple[tuple[str, ...], ...]
    "Shell words by part, as of the step: the check of the nodes before it; empty for none."
    then: tuple[NextStep, ...]
    "Further steps, each of which runs when the one before has succeeded."
    staging: Staging | None
    "The data that each node copies before the step."
    gpu_directive: tuple[tuple[str, str], ...]
    mem_directive: tuple[tuple[str, str], ...]
    extra_directives: tuple[tuple[str, str], ...]
    log_dir: str | None
    command: str
    "The slurmgen command that makes this plan."
    request: Request
    files: dict[str, str] = {}
    "The file that sets a field of the request, if any."
    gate: int = 0
    "Seconds that the script waits for its gate; 0 for a job without one. See `slurmgen.plan.gate`."

    @property
    def account(self) -> str | None:
        """The account that is charged, with the suffix that the site adds."""
        account, suffix = self.request.account, self.ranks.settings.account_suffix
        return account + suffix if account and not account.endswith(suffix) else account

    @property
    def gpu_hours(self) -> float:
        """GPU hours of a job, all tasks of its arrays included, that uses its whole time limit."""
        return self.ranks.layout.gpus * self.time_seconds * self.tasks / 3600

    @property
    def charge(self) -> str | None:
        """The largest charge of the job in the site's unit; None if the profile states none."""
        return charged(self.profile, self.place, self.ranks.layout, self.time_seconds * self.tasks)

    @property
    def tasks(self) -> int:
        """Tasks of its array, such as segments, or of all arrays of its sweep; 1 for a plain job."""
        return self.sweep.tasks if self.sweep else array_size(dict(self.extra_directives).get("array", "0"))

    @property
    def notes(self) -> dict[str, str]:
        """What users should know about the job, by topic."""
        why = self.ranks.launcher.threads
        threads = {"threads": why} if why else {}
        requeue = self.request.may_stop_early
        return threads | notes_of(self.profile, self.place, self.ranks.settings, requeue=requeue)

    @property
    def framework(self) -> str:
        """Name of the launcher."""
        return self.ranks.launcher.name

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        return self.ranks.layout.nodes

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.ranks.layout.gpus_per_node

    @property
    def world_size(self) -> int:
        """Ranks of the job: nodes x ntasks_per_node x procs_per_task."""
        return self.nodes * self.ntasks_per_node * self.procs_per_task

    @property
    def ntasks_per_node(self) -> int:
        """Tasks that srun starts on each node."""
        return self.ranks.ntasks_per_node

    @property
    def procs_per_task(self) -> int:
        """Ranks of each task."""
        return self.ranks.procs_per_task

    @property
    def cpus_per_task(self) -> int:
        """CPUs of each task."""
        return self.ranks.cpus.per_task

    @property
    def mem(self) -> str | None:
        """Memory per node; None where the site allows no memory request."""
        return self.memory.value

    @property
    def time(self) -> str:
        """Time limit, as HH:MM:SS or D-HH:MM:SS."""
        return self.time_limit.value or ""

    @property
    def time_seconds(self) -> int:
        """Time limit in seconds."""
        return durations.seconds(self.time)

    @property
    def env(self) -> dict[str, str]:
        """The variables the job exports, by name."""
        return {variable.name: variable.value for variable in self.variables}

    @property
    def script(self) -> str | None:
        """The script, relative to the folder that the job starts in; None for a module or a command."""
        return self.ranks.program.script

    @property
    def segments(self) -> int:
        """The array tasks that the job may take, one after the other; 1 for a plain job."""
        return self.request.segments or 1

    @property
    def requeue(self) -> bool:
        """Whether the job is requeued when its ranks exit unfinished."""
        return bool(self.request.requeue)

    @property
    def later_scripts(self) -> tuple[str, ...]:
        """The scripts of the further steps."""
        scripts = (one.ranks.program.script for one in self.then)
        return tuple([script for script in scripts if script is not None])

    @property
    def goes_on(self) -> bool:
        """Whether lines of the script follow the step, even if it fails."""
        return self.request.may_stop_early or bool(self.request.after)

    @property
    def login_script(self) -> str:
        """What runs on the login node before the job is submitted; empty for nothing."""
        architecture = self.profile.architecture if self.ranks.layout.gpus else None
        return login_script(self.request, self.setup, self.variables, architecture)

    @property
    def why(self) -> dict[str, Reason]:
        """The reason for each value, by its key in `as_dict`."""
        return explained(self)

    @property
    def reasons(self) -> dict[str, str]:
        """The texts of these reasons."""
        return {key: reason.text for key, reason in self.why.items()}

    @property
    def output(self) -> str:
        """The log file, as in --output, relative to the folder that the job starts in."""
        further = dict(self.extra_directives)
        if "output" in further:
            return further["output"].strip('"')
        if self.request.in_segments:
            return f"{self.log_dir}/%x-%A.out" if self.log_dir else "%x-%A.out"
        is_array = "array" in further
        pattern = "%x-%A_%a.out" if is_array else "%x-%j.out"
        return f"{self.log_dir}/{pattern}" if self.log_dir else pattern

    @property
    def _tasks(self) -> tuple[tuple[str, str], ...]:
        if leaves_out(self.request.sbatch, "nodes"):
            return (("ntasks", str(self.nodes * self.ranks.reserved)),)
        return ("nodes", str(self.nodes)), ("ntasks-per-node", str(self.ranks.reserved))

    @property
    def directives(self) -> tuple[tuple[str, str], ...]:
        """The `#SBATCH` lines in order: long option name and value."""
        options = (
            ("job-name", self.name),
            ("account", self.account),
            ("partition", ",".join(self.place.partitions) or None),
            ("qos", self.place.qos),
            ("time", self.time),
            *self._tasks,
            ("cpus-per-task", str(self.ranks.reserved_cpus)),
            *self.gpu_directive,
            *self.mem_directive,
            ("output", dict(self.extra_directives).get("output", self.output)),
            *(option for option in self.extra_directives if option[0] != "output"),
        )
        left_out = [key for key in self.request.sbatch if leaves_out(self.request.sbatch, key)]
        return tuple([(key, value) for key, value in options if value is not None and key not in left_out])
