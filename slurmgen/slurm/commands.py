"""The Slurm commands that slurmgen runs, as argument vectors.

Options are long and formats are fixed, so that nobody's SQUEUE_FORMAT or alias changes
what comes back. No value ever needs quoting here: a vector is quoted once, at the edge.
"""

import shlex

from msgspec import Struct

FIELD_SEPARATOR = "|"


class JobId(Struct, frozen=True):
    """A job as Slurm names it; `cluster` is set where one controller speaks for several."""

    number: str
    "With its task where one of an array is meant, as 12_3."
    cluster: str = ""

    def covers(self, id_: str) -> bool:
        """Whether an id in an answer is this job, or a task or component of it.

        >>> JobId("12").covers("12_3"), JobId("12").covers("12+0"), JobId("12_3").covers("12_4")
        (True, True, False)
        """
        return id_ == self.number or ("_" not in self.number and id_.startswith((f"{self}_", f"{self}+")))

    def __str__(self) -> str:
        return self.number


def sbatch(script: str, folder: str) -> list[str]:
    """Submit a script; the job runs in `folder`. The answer is `ID` or `ID;CLUSTER`."""
    return ["sbatch", "--parsable", f"--chdir={folder}", script]


def sbatch_test() -> list[str]:
    """Ask whether the script on standard input would be accepted; no job comes of it."""
    return ["sbatch", "--test-only"]


def version() -> list[str]:
    """Ask which Slurm it is."""
    return ["sbatch", "--version"]


def ping() -> list[str]:
    """Ask whether the controllers answer."""
    return ["scontrol", "ping"]


def partitions() -> list[str]:
    """Ask for every partition: its name, with a star if it is the default, its state, and its nodes.

    Those are counted as allocated/idle/other/total.
    """
    return ["sinfo", "--all", "--noheader", f"--format=%P{FIELD_SEPARATOR}%a{FIELD_SEPARATOR}%F"]


def squeue(*jobs: JobId) -> list[str]:
    """Ask for jobs of one cluster that the controller knows: all that live, and what ended of late."""
    # The name is a person's and may hold the separator, so it stands last.
    fields = FIELD_SEPARATOR.join(["%i", "%T", "%r", "%M", "%l", "%S", "%N", "%j"])
    # --all: also in hidden partitions. --array: without it, a long list of tasks ends in "...".
    return [
        *("squeue", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--all", "--states=all", "--array"),
        *("--noheader", f"--format={fields}"),
    ]


def scontrol(*jobs: JobId) -> list[str]:
    """Ask for jobs that the controller still remembers (for MinJobAge, mostly five minutes)."""
    # Without --oneliner: fields then stand at the start of lines, where no job name can imitate them.
    argv = ["scontrol", *_cluster(*jobs), "show", "job"]
    if len(jobs) == 1:
        return [*argv, str(jobs[0])]
    # It takes one job at a time.
    return ["sh", "-c", f'for job do {shlex.join(argv)} "$job"; done', "scontrol", *map(str, jobs)]


def sacct(*jobs: JobId) -> list[str]:
    """Ask the accounting database for jobs of one cluster, where the site has one.

    Of a job that was requeued it tells the latest run: it has --duplicates for the others. All fields
    are in 20.11 too (https://slurm.schedmd.com/archive/slurm-20.11.9/sacct.html).
    """
    fields = "JobID,State,ExitCode,Elapsed,Timelimit,Start,NodeList,AllocTRES,TotalCPU,TRESUsageInTot,JobName"
    # Without a start time some versions look no further back than midnight.
    return [
        *("sacct", *_cluster(*jobs), f"--jobs={_numbers(jobs)}", "--starttime=2000-01-01"),
        *("--noheader", "--parsable2", f"--delimiter={FIELD_SEPARATOR}", f"--format={fields}"),
    ]


def scancel(*jobs: JobId) -> list[str]:
    """Cancel jobs of one cluster."""
    return ["scancel", *_cluster(*jobs), *map(str, jobs)]


def _cluster(*jobs: JobId) -> list[str]:
    return [f"--clusters={jobs[0].cluster}"] if jobs[0].cluster else []


def _numbers(jobs: tuple[JobId, ...]) -> str:
    return ",".join(job.number for job in jobs)
