"""Why a job failed: from records of Slurm, and from the ends of logs as programs write them.

The messages of NCCL, apptainer and CUDA are modelled on their documentation: there is no GPU here.
"""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.remote.route import Route
from slurmgen.slurm import pending
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import LOG_END, Why, why, with_logged_code, with_lost_environment
from slurmgen.status.failure_patterns import SIGNS, Sign
from slurmgen.status.job import Job
from slurmgen.status.query import make_report
from slurmgen.status.report import to_json

JOB = Job(JobId("12"), Route(site="daic", via="ssh"))
MODULE = """Traceback (most recent call last):
  File "/home/me/train.py", line 1, in <module>
    import einops
ModuleNotFoundError: No module named 'einops'
"""
RANKS = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/me/train.py", line 9, in <module>
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/me/train.py", line 7, in <module>
[rank3]:     raise ValueError("loss is nan")
[rank3]: ValueError: loss is nan
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:00:00
  host      : n1
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 12)
"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 2, in <module>
KeyError: 'lr'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
RuntimeError: bad config
"""
WATCHDOG = (
    "[rank0]:[E1120 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out.\n"
)
# The message of a program, and the cause that it shows.
EXAMPLES = """\
wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])
=> Weights & Biases has no key in the job
huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-x)
=> Hugging Face did not let the job read a repository
requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/a/b
=> Hugging Face did not let the job read a repository
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
=> a GPU ran out of memory
RuntimeError: [enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory
=> the memory of the node or of the job ran out
slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch.
=> it used more memory than it had
slurmstepd: error: JobId=12 exceeded memory limit (415128576 > 104857600), being killed
=> it used more memory than it had
Lmod has detected the following error:  The following module(s) are unknown: "cuda/99"
=> the site has no environment module cuda/99
ERROR: Unable to locate a modulefile for 'cuda/99'
=> the site has no environment module cuda/99
ImportError: libcudart.so.12: cannot open shared object file: No such file
=> a compiled library does not fit: libcudart.so.12
RuntimeError: [Errno 98] Address already in use
=> a port was already in use
OSError: [Errno 28] No space left on device: '/scratch/x'
=> the disk or the quota is full
Bus error (core dumped)
=> shared memory ran out (/dev/shm), or a mapped file was truncated
RuntimeError: CUDA error: no kernel image is available for execution on the device
=> this PyTorch was not built for the GPUs of that node
RuntimeError: No CUDA GPUs are available
=> no GPU was visible or usable
FileNotFoundError: [Errno 2] No such file or directory: '/data/x'
=> the file /data/x does not exist
PermissionError: [Errno 13] Permission denied: '/data'
=> access to /data was denied
  File "a.py", line 3
    f(
     ^
SyntaxError: '(' was never closed
=> a Python file has a syntax error: “'(' was never closed”
python: can't open file '/home/me/trian.py': [Errno 2] No such file or directory
=> Python did not find the script /home/me/trian.py
/var/spool/slurmd/job12/slurm_script: line 4: torchrum: command not found
=> command not found: torchrum
flock: failed to execute uv: No such file or directory
=> command not found: uv
slurmstepd-n1: error: execve(): torchrun: No such file or directory
=> command not found: torchrun
/var/spool/slurmd/job12/slurm_script: line 4: ./run.sh: Permission denied
=> ./run.sh cannot be executed or read
torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients.
=> not all ranks connected in time
ncclSystemError: System call (e.g. socket, malloc) or external library call failed
=> NCCL failed to communicate between ranks
/var/spool/slurmd/job12/slurm_script: line 3: 99 Segmentation fault      (core dumped) python a.py
=> a command in line 3 of the script ended with SIGSEGV: a program crashed
/var/spool/slurmd/job12/slurm_script: line 9:    77 Killed                  python a.py
=> a command in line 9 of the script ended with SIGKILL, which usually means that memory ran out
Segmentation fault (core dumped)
=> a program crashed (segmentation fault)
Illegal instruction (core dumped)
=> a program was built for another kind of CPU
[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
[rank1]: Last error:
[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4f000
=> two ranks use the same GPU: “rank 1 and rank 0”
Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this \
configuration.
=> several ranks use the same GPU
FATAL:   could not open image /img/x.sif: failed to retrieve path for /img/x.sif: lstat /img/x.sif: no such \
file or directory
=> the container image /img/x.sif cannot be opened
error: Request failed after 3 retries
  cause: Failed to fetch: http://127.0.0.1:9/einops/
=> a package could not be downloaded: http://127.0.0.1:9/einops/
error: Failed to fetch: `http://127.0.0.1:9/einops/`
  Caused by: dns error: failed to lookup address information: Temporary failure in name resolution
=> a package could not be downloaded: http://127.0.0.1:9/einops/
usage: train.py [-h] [--lr LR]
train.py: error: unrecognized arguments: --lrr 3
=> a program rejected its arguments: “unrecognized arguments: --lrr 3”
there is no Python in /home/me/venv
=> the environment /home/me/venv has no Python
RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.\x20
=> a data-loader worker was killed, usually because memory ran out
OSError: We couldn't connect to 'https://hub.invalid' to load the files
=> a host could not be reached over the network
slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***
=> it reached its time limit
slurmgen: the gate of this job was not opened
=> its gate was not opened, so that it did not run its program
slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***
=> a job of higher priority took its place
srun: error: Node failure on n7
=> one of its nodes failed n7
ImportError: FlashAttention2 has been toggled on, but package flash_attn seems to be not installed.
=> Python has no module flash_attn
wandb.errors.CommError: Run initialization has timed out
=> Weights & Biases could not be reached or refused the job
requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/a
=> a server refused the job for too many requests
huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache
=> a file of the Hugging Face hub is not in the cache, and the job could not download it
Lmod has detected the following error: The following module(s) are unknown:
"cuda/12.4"
=> the site has no environment module cuda/12.4
CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.
=> conda is not prepared in the job, so that `conda activate` did nothing
EnvironmentNameNotFound: Could not find conda environment: a
=> the environment a does not exist
/var/spool/slurmd/job12/slurm_script: line 22: /tmp/env/bin/activate: No such file or directory
=> the environment /tmp/env does not exist
/var/spool/slurmd/job12/slurm_script: line 22: cd: /tmp/data: No such file or directory
=> /tmp/data does not exist
RuntimeError: CUDA error: invalid device ordinal
=> a rank selected a GPU that its node does not have
n1:1:1 [0] NCCL WARN Bootstrap : no socket interface found
=> NCCL_SOCKET_IFNAME names no network interface of the node
RuntimeError: FlashAttention only supports Ampere GPUs or newer.
=> the GPUs of that node are too old for the program
RuntimeError: The NVIDIA driver on your system is too old (found version 11040).
=> the CUDA driver of the node is too old for the program
AssertionError: Torch not compiled with CUDA enabled
=> this PyTorch was built without CUDA
RuntimeError: CUDA error: uncorrectable ECC error encountered
=> a GPU failed
RuntimeError: CUDA error: device-side assert triggered
=> a check in a GPU kernel failed (device-side assert)
RuntimeError: CUDA error: an illegal memory access was encountered
=> a GPU kernel read or wrote memory that it does not have
RuntimeError: Expected all tensors to be on the same device, but found at least two devices
=> tensors are on different devices
RuntimeError: CUDA error: named symbol not found
=> a GPU operation failed: “named symbol not found”
Traceback (most recent call last):
RuntimeError: Error(s) in loading state_dict for Bert:
\tsize mismatch for head.weight: copying a param with shape torch.Size([3])
=> a checkpoint does not fit the model: the size of head.weight differs
Loss is nan, stopping training
=> the loss became NaN or infinite
ValueError: Error initializing torch.distributed: environment variable RANK expected, but not set
=> the script was not started by a launcher: RANK is not set
FileNotFoundError: [Errno 2] Unable to synchronously create file (unable to open file: name = 'out/a.h5', \
errno = 2, error message = 'No such file')
=> the folder of out/a.h5 does not exist
FileNotFoundError: [Errno 2] Unable to open file (unable to open file: name = 'a.h5', errno = 2)
=> the file a.h5 does not exist
FileExistsError: [Errno 17] File exists: 'runs/1'
=> runs/1 exists already
FATAL:   container creation failed: mount hook function failure: mount /a->/a error: while mounting /a: \
mount source /a doesn't exist
=> the container could not be made: /a, which it binds, does not exist
FATAL:   container creation failed: mount /b->/c error: destination /c doesn't exist in container
=> the container could not be made: it has no folder /c to bind to
FATAL:   "mytrain": executable file not found in $PATH
=> the container has no program mytrain
FATAL:   while loading overlay images: permission
=> the container engine ended: “while loading overlay images: permission”
ERROR: No matching distribution found for torch==9.9
=> pip found no version of torch==9.9
srun: error: Task launch for StepId=36.0 failed on node n7: Job credential expired
=> srun could not start the step: “n7: Job credential expired”
srun: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"
=> Slurm's authentication (munge) does not work on the node
requests.exceptions.ProxyError: Unable to connect to proxy
=> the proxy or the certificate of a server did not let the job connect
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
=> Ray lost a worker or its head
*** Error in `python3': free(): invalid pointer: 0x0000555560e2b570 ***
=> a compiled library corrupted its memory: “free(): invalid pointer: 0x0000555560e2b570 ***”
Killed
=> a process was killed, usually because memory ran out
slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***
=> its step was cancelled
ERROR: the data set has no labels
=> a program ended with an error: “the data set has no labels”
[1]: Read error: Connection reset by peer
=> a rank lost its connection to another one
"""
LOGS = {
    MODULE: "Python has no module einops",
    RANKS: "Python raised an error (rank 3 on n1): “ValueError: loss is nan”",
    CHAINED: "Python raised an error: “KeyError: 'lr'”",
    WATCHDOG: "NCCL waited for a rank until its timeout",
    **dict(re.findall(r"(?s)(.+?)\n=> ([^\n]+)\n", EXAMPLES)),
}


def failed(exit_code: str = "1:0", **more: object) -> JobState:
    return JobState(**{"id": "12", "state": "FAILED", "exit_code": exit_code, **more})  # type: ignore[arg-type]


def reason(log: str, job: JobState | None = None, seen: Why | None = None) -> Why:
    found = why(job or failed(), [Piece(log)], seen)
    assert found
    return found


@pytest.mark.parametrize(("log", "what"), LOGS.items())
def test_the_end_of_a_log_shows_the_reason(log: str, what: str) -> None:
    assert reason(f"epoch 1\n{log}").what == what


@pytest.mark.parametrize(("log", "what"), LOGS.items())
def test_sruns_last_lines_hide_no_reason(log: str, what: str) -> None:
    ending = "srun: error: n9: task 0: Exited with exit code 1\nsrun: Terminating StepId=12.0\n"
    assert reason(f"epoch 1\n{log}\n{ending}").what.replace(" (task 0 on n9)", "") == what


def test_each_sign_has_an_example() -> None:
    for sign in SIGNS:
        assert any(sign.search(log) for log in LOGS), sign.what


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (MODULE, "ModuleNotFoundError: No module named 'einops'"),
        (RANKS, "ValueError: loss is nan"),
        (CHAINED, "KeyError: 'lr'"),
        (WATCHDOG + MODULE, "ModuleNotFoundError: No module named 'einops'"),
    ],
    ids=["alone", "of the first rank", "the first of a chain", "not of a consequence"],
)
def test_the_reason_quotes_the_line_of_the_log(log: str, line: str) -> None:
    assert reason(log).line == line


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (failed(state="TIMEOUT", time_limit="00:01:00"), "it reached its time limit of 00:01:00"),
        (
            failed("0:125", state="OUT_OF_MEMORY", usage=Usage(memory=65536, memory_used=66560)),
            "it used more memory than the 64G it had; Slurm measured 65G",
        ),
        (failed(state="OUT_OF_MEMORY"), "it used more memory than it had"),
        (failed("1:0", state="NODE_FAIL", nodes="n7"), "one of its nodes failed (n7)"),
        (failed("0:15", state="PREEMPTED"), "a job of higher priority took its place"),
        (failed("0:15", state="CANCELLED", cancelled_by="1000"), "it was cancelled by user 1000"),
        (
            failed("0:9", usage=Usage(memory=100, memory_used=396)),
            "it used more memory than the 100M it had; Slurm measured 396M",
        ),
        (failed("137:0"), "it ended with SIGKILL, which usually means that memory ran out"),
        (failed("127:0"), "a command of its script was not found"),
        (failed("126:0"), "a command of its script cannot be executed"),
        (failed("135:0"), "it ended with SIGBUS, usually because shared memory (/dev/shm) ran out"),
        (failed("0:4"), "it ended with SIGILL: a program was built for another CPU"),
        (
            failed("0:53"),
            "Slurm could not start it: its folder or that of its log does not exist, or is not writable",
        ),
        (failed("5:0"), "its script ended with exit code 5"),
        (failed(""), "Slurm gives no reason"),
    ],
)
def test_a_record_of_slurm_shows_the_reason(state: JobState, what: str) -> None:
    assert reason("", state).what == what


@pytest.mark.parametrize(
    ("code", "log", "shown"),
    [
        ("9:0", "slurm_script: line 9:    77 Killed                  python a.py", "137:0"),
        ("72:0", "srun: error: n1: task 1: Exited with exit code 200", "200:0"),
        ("72:0", "srun: error: n1: task 1: Exited with exit code 72", "72:0"),
        ("1:0", MODULE, "1:0"),
        ("127:0", "Training started", "127:0 or 255:0"),
        (
            "9:0",
            "srun: error: n1: task 1: Killed\nsrun: error: n1: task 0: Exited with exit code 9\n",
            "9:0 or 137:0",
        ),
    ],
)
def test_a_log_may_show_the_exit_code_that_sacct_prints_too_small(code: str, log: str, shown: str) -> None:
    job = with_logged_code(failed(code, is_exact=False), [Piece(log)])
    assert job.end == shown
    assert (job.other_status is None) == ("or" not in shown)


@pytest.mark.parametrize(
    ("code", "what"), [("9:0", "9 or 137"), ("127:0", "127 or 255"), ("0:0", "128"), ("11:0", "11 or 139")]
)
def test_nothing_follows_from_an_exit_code_that_is_not_exact(code: str, what: str) -> None:
    assert why(failed(code, is_exact=False)) == Why(f"its script ended with exit code {what}")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("sbatch --export=NONE --parsable a.sh", "--export=NONE"),
        ("sbatch --export NONE a.sh", "--export NONE"),
        ("sbatch --export=ALL --export=A,B a.sh", "--export=A,B"),
        ("sbatch --export=NONE --export=ALL,A=1 a.sh", ""),
        ("sbatch --export-file=x a.sh", ""),
        ("", ""),
    ],
)
def test_what_kept_the_environment_from_a_job_is_named(line: str, option: str) -> None:
    reason = Why("command not found: a")
    found = with_lost_environment(reason, line)
    assert (f" with {option}, " in found.what) if option else found == reason


@pytest.mark.parametrize("state", ["COMPLETED", "RUNNING", "PENDING"])
def test_a_job_that_has_not_failed_has_no_reason(state: str) -> None:
    assert why(failed(state=state), [Piece(MODULE)], Why("an earlier failure")) is None


@given(st.text(max_size=300))
def test_every_log_gives_a_reason(log: str) -> None:
    assert reason(f"{log}\n[rank0]: Traceback (most recent call last):\n{log}\n")


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Resources", "waits for nodes"),
        ("Priority", "higher priority"),
        ("QOSMaxGRESPerUser", "its QoS has a limit on the GPUs of one user at a time"),
        ("AssocGrpGRES", "its account has a limit on the GPUs of all its jobs together"),
        ("AssocGrpGRESMinutes", "counted in minutes"),
        ("AssocMaxJobsLimit", "its account has a limit on the jobs"),
        ("QOSMaxMemoryPerJob", "its QoS has a limit on the memory of one job"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-9]", "down, reserved"),
        ("PartitionTimeLimit", "longer than the partition allows"),
        ("Dependency", "another job"),
        ("BeginTime", "waits for its start time"),
        ("launch failed requeued held", "a node could not start it"),
        ("JobHoldMaxRequeue", "as often as the site allows"),
        ("SomethingNew", ""),
    ],
)
def test_a_pending_reason_is_explained(reason: str, part: str) -> None:
    assert part in pending.reason_words(reason)
    assert bool(pending.reason_words(reason)) == bool(part)


@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [
        ("COMPLETED", "0:0", 0),
        ("FAILED", "3:0", 3),
        ("FAILED", "0:9", 137),
        ("FAILED", "0:53", 1),
        ("TIMEOUT", "0:0", 143),
        ("CANCELLED", "0:0", 143),
        ("OUT_OF_MEMORY", "0:125", 137),
        ("NODE_FAIL", "0:0", 1),
        ("RUNNING", "0:0", 3),
        ("", "", 3),
    ],
)
def test_a_final_state_has_an_exit_code(state: str, exit_code: str, code: int) -> None:
    states = [JobState(id="12", state=state, exit_code=exit_code)] if state else []
    assert make_report(JOB, states).code == code


def test_an_array_with_running_tasks_is_running() -> None:
    states = [JobState(id=f"12_{n}", state=word) for n, word in enumerate(["FAILED", "PENDING", "RUNNING"])]
    report = to_json(make_report(JOB, states))
    assert (report.state, report.ended, [task.state for task in report.tasks]) == (
        "RUNNING",
        False,
        ["FAILED", "PENDING", "RUNNING"],
    )


def test_an_error_at_the_end_of_a_long_line_is_found() -> None:
    log = f"{'=' * 5000}> ModuleNotFoundError: No module named 'einops'\n"
    assert reason(log).what == "Python has no module einops"


SEEN = Why("Python has no module einops")


@pytest.mark.parametrize(
    ("exit_code", "log", "what"),
    [
        ("1:0", "", SEEN.what),
        ("0:53", "", SEEN.what),
        ("1:0", "train.py: command not found\n", "command not found: train.py"),
    ],
)
def test_an_earlier_reason_counts_once_the_log_is_deleted(exit_code: str, log: str, what: str) -> None:
    assert reason(log, failed(exit_code), SEEN).what == what


def adversarial(pattern: str) -> set[str]:
    """Texts on which a backtracking pattern takes long: many times what it searches for, without its end."""
    literals = [re.sub(r"\\(?=[\[\]().])", "", word) for word in re.split(r"\\[sSdwb]|[|?*+{}^$\n]", pattern)]
    words = {*literals, *"a A 1 : ' / . \n".split(" "), " ", ": ", "a: ", "a b:", "'x' ", "1:", "\r", "Aa."}
    fillers = ("", " ", "a", ": ", ":", "1")
    return {
        (word + filler) * (LOG_END // 2 // len(word + filler)) for word in words if word for filler in fillers
    }


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.what)
def test_no_log_makes_a_search_slow(sign: Sign) -> None:
    for text in adversarial(sign.pattern):
        for log in (text, f"{text}x", text.replace("\n", " ")):
            assert seconds(lambda log=log: sign.search(log)) < 2, log[:80]  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        *("x", "/", "a."),
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n" * 200 + "\n" * LOG_END,
        "Root Cause (first observed failure): rank ",
        "Traceback (most recent call last):\n" + "Aa." * LOG_END,
        "Traceback (most recent call last):" + " " * LOG_END,
        "[rank0]: Traceback (most recent call last):\n[rank1]: Aa:\n",
        "x" * 1000 + "Root Cause (first observed failure):\n",
        "Root Cause (first observed failure):\n  rank      : 3\n  exitcode  : 1\n  time      : 1\n",
        "srun: error: n1: task 1: Exited with exit code 3\n",
        "srun: error: n1: tasks " + "1-9," * 120 + ": Killed\n",
        "srun: error: ",
        " : line 1: 1 ",
        "process 1 terminated with signal SIGKILL\n",
        "srun: error: n1: tasks " + "1-9," * 40 + ": Exited with exit code 1\n"
        "[rank99]: Traceback (most recent call last):\n[rank99]: ConnectionResetError: by peer\n" * 9,
        "failed (exitcode: -9) local_rank: 1",
        "1: [rank1]: ",
    ],
)
def test_no_log_makes_an_explanation_slow(text: str) -> None:
    log = (text * (1 + 2 * LOG_END // len(text)))[: 2 * LOG_END]
    assert seconds(lambda: reason(log)) < 2


def seconds(call: Callable[[], object]) -> float:
    """Processor time, which other processes do not lengthen."""
    start = time.thread_time()
    call()
    return time.thread_time() - start
