"""The Slurm commands that slurmgen runs, as argument vectors.

Options are long and formats are fixed, so that nobody's SQUEUE_FORMAT or alias changes
what comes back. No value ever needs quoting here: a vector is quoted once, at the edge.
"""

from msgspec import Struct

FIELD_SEPARATOR = "|"


class JobId(Struct, frozen=True):
    """A job as Slurm names it; `cluster` is set where one controller speaks for several."""

    number: str
    cluster: str = ""

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


def squeue(job: JobId) -> list[str]:
    """Ask for a job that has not ended."""
    # The name is a person's and may hold the separator, so it stands last.
    fields = FIELD_SEPARATOR.join(["%i", "%T", "%r", "%M", "%N", "%j"])
    return ["squeue", *_cluster(job), f"--jobs={job}", "--noheader", f"--format={fields}"]


def scontrol(job: JobId) -> list[str]:
    """Ask for a job that the controller still remembers (for MinJobAge, mostly five minutes)."""
    # Without --oneliner: fields then stand at the start of lines, where no job name can imitate them.
    return ["scontrol", *_cluster(job), "show", "job", str(job)]


def sacct(job: JobId) -> list[str]:
    """Ask the accounting database, where the site has one."""
    fields = "JobID,State,ExitCode,Elapsed,NodeList,JobName"
    # Without a start time some versions look no further back than midnight.
    return [
        *("sacct", *_cluster(job), f"--jobs={job}", "--starttime=2000-01-01", "--allocations"),
        *("--noheader", "--parsable2", f"--delimiter={FIELD_SEPARATOR}", f"--format={fields}"),
    ]


def scancel(job: JobId) -> list[str]:
    """Cancel a job."""
    return ["scancel", *_cluster(job), str(job)]


def _cluster(job: JobId) -> list[str]:
    return [f"--clusters={job.cluster}"] if job.cluster else []
