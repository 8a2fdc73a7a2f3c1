"""The Slurm commands that slurmgen runs, as argument vectors.

Options are long and formats are fixed, so that no alias and no variable such as SQUEUE_FORMAT changes the
reply. Values are not quoted here: the transport quotes the vector.
"""

import shlex

from msgspec import Struct

from slurmgen.slurm import fields


class JobId(Struct, frozen=True):
    """The id of a job; `cluster` is set on a site with several clusters."""

    number: str
    "For a task of an array with its index, as in 12_3."
    cluster: str = ""

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
    return ["sinfo", "--all", "--noheader", f"--format={fields.SEPARATOR.join(['%P', '%a', '%F'])}"]


def squeue(*jobs: JobId) -> list[str]:
    """Query jobs of one cluster that the controller knows: active jobs, and those that ended recently."""
    names = fields.SEPARATOR.join(field.name for field in fields.SQUEUE)
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
    return ["sh", "-c", f'for job do {shlex.join(argv)} "$job"; done', "scontrol", *map(str, jobs)]


def batch_script(job: JobId) -> list[str]:
    """Print the batch script of a job that the controller has not forgotten."""
    return ["scontrol", *_cluster(job), "write", "batch_script", job.number.partition("_")[0], "-"]


def sacct(*jobs: JobId) -> list[str]:
    """Query jobs of one cluster in the accounting database.

    Of a job that was requeued, sacct reports the last run; --duplicates would report all.
    """
    names = ",".join(field.name for field in fields.SACCT)
    # Without a start time, some versions report only jobs since midnight.
    return [
        *("sacct", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--starttime=2000-01-01"),
        *("--noheader", "--parsable2", f"--delimiter={fields.SEPARATOR}", f"--format={names}"),
    ]


def exit_codes(*jobs: JobId) -> list[str]:
    """Query the exact exit codes of jobs, as far as accounting has them.

    sacct prints one of 128 and more 128 too small. Its JSON does not, but is wrong before 23.02: there, the
    codes of steps may show that of the job.
    """
    argv = ["sacct", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--starttime=2000-01-01"]
    plain = "--noheader --parsable2 --format=JobID,ExitCode,DerivedExitCode"
    older = f'*" "2[0-2].*|*" "1*) exec "$@" {plain};;'
    return ["sh", "-c", f'case $(sacct --version) in {older} *) exec "$@" --json;; esac', "sacct", *argv]


def scancel(*jobs: JobId) -> list[str]:
    """Cancel jobs of one cluster."""
    return ["scancel", *_cluster(*jobs), *map(str, jobs)]


def _cluster(*jobs: JobId) -> list[str]:
    return [f"--clusters={jobs[0].cluster}"] if jobs[0].cluster else []


def _numbers(jobs: tuple[JobId, ...]) -> str:
    return ",".join(job.number for job in jobs)
