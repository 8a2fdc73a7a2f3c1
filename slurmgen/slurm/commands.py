"""The command lines of Slurm's programs, and the fields that they print."""

import shlex
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from msgspec import Struct


class Identity(Struct, frozen=True):
    """What tells a job from others of the same id. Slurm uses ids again: at MaxJobId, or after a lost state.

    A controller that loses its state starts at FirstJobId
    (https://slurm.schedmd.com/slurm.conf.html#OPT_MaxJobId).
    """

    name: str
    submitted: str
    "Time of the submission, as ISO 8601 in UTC, by the clock of this machine."
    key: str = ""
    "Idempotency key, in the comment of the job and in the name of its folder; empty in old entries."


class JobId(Struct, frozen=True):
    """The id of a job; `cluster` is set on a site with several clusters."""

    number: str
    "For a task of an array with its index, as in 12_3."
    cluster: str = ""
    identity: Identity | None = None
    "None for a job that slurmgen did not submit: then the id alone counts."

    def covers(self, id_: str) -> bool:
        """Whether an id in a reply is this job, or a task or component of it.

        >>> JobId("12").covers("12_3"), JobId("12").covers("12+0"), JobId("12_3").covers("12_4")
        (True, True, False)
        """
        return id_ == self.number or ("_" not in self.number and id_.startswith((f"{self}_", f"{self}+")))

    def __str__(self) -> str:
        return self.number


def sbatch(script: str, folder: str) -> list[str]:
    """Submit a script; the job runs in `folder`. The reply is `ID` or `ID;CLUSTER`."""
    return ["sbatch", "--parsable", f"--chdir={folder}", script]


def sbatch_test() -> list[str]:
    """Test whether Slurm would accept the script on standard input; this submits no job."""
    return ["sbatch", "--test-only"]


def version() -> list[str]:
    """Print the version of Slurm."""
    return ["sbatch", "--version"]


def ping() -> list[str]:
    """Check that the controllers respond."""
    return ["scontrol", "ping"]


def partitions() -> list[str]:
    """List the partitions: the name, with a star for the default one, the state, and the number of nodes.

    Nodes are counted as allocated/idle/other/total.
    """
    return ["sinfo", "--all", "--noheader", f"--format={SEPARATOR.join(['%P', '%a', '%F'])}"]


def squeue(*jobs: JobId) -> list[str]:
    """Query jobs of one cluster that the controller knows: active jobs, and those that ended recently."""
    names = SEPARATOR.join(field.name for field in SQUEUE)
    # --all: also in hidden partitions. --array: without it, a long list of tasks ends in "...".
    return [
        *("squeue", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--all", "--states=all", "--array"),
        *("--noheader", f"--format={names}"),
    ]


def scontrol(*jobs: JobId) -> list[str]:
    """Query jobs that the controller has not forgotten: it keeps them for MinJobAge, often five minutes."""
    # Without --oneliner, fields are at the start of lines, where no job name can imitate them.
    argv = ["scontrol", *_cluster(*jobs), "show", "job"]
    if len(jobs) == 1:
        return [*argv, str(jobs[0])]
    # It takes one job at a time.
    each = f'status=0; for job do {shlex.join(argv)} "$job" || status=$?; done; exit "$status"'
    return ["sh", "-c", each, "scontrol", *map(str, jobs)]


def batch_script(job: JobId) -> list[str]:
    """Print the batch script of a job that the controller has not forgotten."""
    return ["scontrol", *_cluster(job), "write", "batch_script", job.number.partition("_")[0], "-"]


def sacct(*jobs: JobId) -> list[str]:
    """Query jobs of one cluster in the accounting database: all runs of all jobs that had these ids.

    Without --duplicates it reports only the last job of an id, and of that only the last run.
    """
    names = ",".join(field.name for field in SACCT)
    # Without a start time, some versions report only jobs since midnight. The end is after any clock's now.
    return [
        *("sacct", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--duplicates"),
        *(f"--starttime={_since(jobs)}", "--endtime=now+2days"),
        *("--noheader", "--parsable2", f"--delimiter={SEPARATOR}", f"--format={names}"),
    ]


def submit_line(job: JobId) -> list[str]:
    """Print the command line of sbatch, which accounting has since 21.08."""
    return [
        *("sacct", *_cluster(job), f"--jobs={job}", f"--starttime={_since([job])}", "--allocations"),
        *("--noheader", "--parsable2", "--format=SubmitLine"),
    ]


def _since(jobs: Sequence[JobId]) -> str:
    """A date before the first submission, in any time zone and by a clock days ahead; else an early one."""
    times = [job.identity.submitted if job.identity else "" for job in jobs]
    try:
        return (date.fromisoformat(min(times)[:10]) - timedelta(days=7)).isoformat()
    except ValueError:
        return "2000-01-01"


def exit_codes(*jobs: JobId) -> list[str]:
    """Query the exact exit codes of jobs, as far as accounting has them.

    sacct prints one of 128 and more 128 too small. Its JSON does not, but is wrong before 23.02: there, the
    codes of steps may show that of the job.
    """
    argv = ["sacct", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", f"--starttime={_since(jobs)}"]
    names = ",".join(field.name for field in EXIT_CODES)
    plain = f"--allocations --noheader --parsable2 --delimiter='{SEPARATOR}' --format={names}"
    older = f'*" "2[0-2].*|*" "1*) exec "$@" {plain};;'
    return ["sh", "-c", f'case $(sacct --version) in {older} *) exec "$@" --json;; esac', "sacct", *argv]


def scancel(*jobs: JobId) -> list[str]:
    """Cancel jobs of one cluster."""
    return ["scancel", *_cluster(*jobs), *map(str, jobs)]


def _cluster(*jobs: JobId) -> list[str]:
    return [f"--clusters={jobs[0].cluster}"] if jobs[0].cluster else []


def _numbers(jobs: tuple[JobId, ...]) -> str:
    return ",".join(job.number for job in jobs)


# Slurm's commands also read options from variables. Set by an allocation or a shell profile, they would
# change the job: a leaked SLURM_CPU_BIND slowed a fleet threefold
# (https://github.com/goodfire-ai/spd/pull/955). Two variables are kept: SLURM_CONF locates Slurm's
# configuration, and SLURM_JWT authenticates the user where munge does not. SLURM_CLUSTERS is unset, because
# the script names the job's cluster, and later queries must use the same one.
CLEAN = (
    'for slurmgen_name in "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}" "${!SACCT_@}" "${!SCANCEL_@}"; do '
    'case $slurmgen_name in SLURM_CONF|SLURM_JWT) ;; *) unset "$slurmgen_name" ;; esac; done; exec "$@"'
)

SEPARATOR = "|"
_EMPTY = frozenset({"None", "(null)", "N/A", "Unknown", "INVALID", "Partition_Limit", "None assigned"})
"What Slurm prints where there is no value."


def value(text: str) -> str:
    """A value as Slurm prints it; empty if there is none.

    >>> value("n[1-2]"), value("N/A")
    ('n[1-2]', '')
    """
    return "" if text in _EMPTY else text


class Field(NamedTuple):
    """One field of a reply."""

    name: str
    "Name in --format."
    attribute: str
    "Of JobState, or a part of its usage."
    convert: Callable[[str], str] = value
    "`str` for what may be equal to one of Slurm's words for no value."


# The last field may contain the separator: a job may have any name. A folder or comment that contains it
# shifts the name, which is only shown.
SQUEUE = (
    Field("%i", "id", str),
    Field("%T", "state", str),
    Field("%r", "reason"),
    Field("%M", "elapsed"),
    Field("%l", "time_limit"),
    Field("%S", "start"),
    Field("%N", "nodes"),
    Field("%x", "excluded"),
    Field("%V", "submitted"),
    Field("%Z", "folder"),
    Field("%k", "comment"),
    Field("%j", "name", str),
)
# All are in 20.11 too (https://slurm.schedmd.com/archive/slurm-20.11.9/sacct.html).
SACCT = (
    Field("JobID", "id", str),
    Field("State", "state", str),
    Field("ExitCode", "exit_code"),
    Field("Elapsed", "elapsed"),
    Field("Timelimit", "time_limit"),
    Field("Start", "start"),
    Field("NodeList", "nodes"),
    Field("AllocTRES", "allocated"),
    Field("TotalCPU", "cpu_time"),
    Field("TRESUsageInTot", "used"),
    Field("Submit", "submitted"),
    Field("WorkDir", "folder"),
    Field("Comment", "comment"),
    Field("JobName", "name", str),
)
# The highest exit code of the steps that srun started is not printed 128 too small.
EXIT_CODES = (
    Field("JobID", "id", str),
    Field("DerivedExitCode", "exit_code"),
    Field("WorkDir", "folder"),
    Field("JobName", "name", str),
)


def read_row(line: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The attributes of one line of a reply; empty if the line has fewer fields."""
    cells = line.split(SEPARATOR, len(fields) - 1)
    if len(cells) != len(fields):
        return {}
    return {field.attribute: field.convert(cell) for field, cell in zip(fields, cells, strict=True)}
