"""The batch script of a job, as it was submitted."""

from slurmgen.errors import CommandFailed
from slurmgen.jobs.job import Job
from slurmgen.jobs.recorded_request import script_file
from slurmgen.jobs.results.local_folder import record_of
from slurmgen.jobs.slurm_client import call
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.slurm import commands, replies

MOST = 1_000_000
"Bytes; a larger one is not read whole."
_READ = 'head -c "$1" "$2"'


def submitted_script(transport: Transport, job: Job) -> str:
    """The script as Slurm keeps it while it knows the job, else that in the run folder.

    Raises:
        RequestError: the job is not recorded.
        CommandFailed: neither exists any more.
    """
    kept = call(transport, commands.batch_script(job.id))
    if not kept.returncode and kept.stdout.startswith(b"#!") and _is_its_own(transport, job):
        return kept.stdout[:MOST].decode(errors="replace")
    record = record_of(job)
    path = f"{record.folder}/{script_file(record)}"
    found = transport.run(["sh", "-c", _READ, "script", str(MOST), path], timeout=COMMAND_TIMEOUT)
    if found.returncode:
        raise CommandFailed(f"the script of job {job.id} is gone from {transport.where}", "Was it pruned?")
    return found.out


def _is_its_own(transport: Transport, job: Job) -> bool:
    """Whether the job that has the id now is this one."""
    shown = replies.scontrol(call(transport, commands.scontrol(job.id)).out)
    return any(replies.is_of(state, job.id) for state in shown)
