"""What a log may show of a failure: tables of patterns, each with what it means and what to do.

The time of a search grows linearly with the length of the log, whatever is in it: repetitions are bounded.
"""

import re

from msgspec import Struct

MORE_MEMORY = "Ask for more with --mem, or use less: fewer data-loader workers, a smaller batch."


RUN_AGAIN = (
    "Ask for more with --time; or use --requeue, with a script that saves when it is asked to and then "
    "continues (docs/requeue.md)."
)


STOP_EARLIER = (
    "--requeue asked it to stop, and it had not stopped yet: docs/requeue.md says what its script must do; "
    "more seconds in --requeue-signal, as in USR2@300, ask it earlier."
)
"Instead, for a job that was submitted with --requeue."


CONSEQUENCE = re.compile(
    r"[Cc]onnection (?:reset|closed|refused|aborted|was likely closed)|Broken pipe|BrokenPipeError"
    r"|Connection\w{0,20}Error:? \[Errno|ChildFailedError|SignalException|SIGTERMException|KeyboardInterrupt"
    r"|CalledProcessError|ProcessRaisedException|ProcessExitedException"
    r"|DistBackendError|DistNetworkError|DistStoreError|Rendezvous\w{0,30}Error"
    r"|NCCL (?:error|communicator)|nccl\w{0,30}Error|[Ww]atchdog|Socket Timeout|[Ww]ait timeout"
    r"|monitoredBarrier|Timed out (?:waiting|after)|caused pair closure|connectFullMesh|failed to recv"
)
"In the last line of a traceback: the process failed only because another one had."


TIMED_OUT = re.compile(
    r"[Ww]atchdog (?:caught|got stuck|thread terminated)|what\(\): .{0,400}(?:NCCL|gloo|by peer)"
)
"The library that connects the ranks waited too long for one of them, or lost it, and called abort()."


class Sign(Struct, frozen=True):
    """A pattern in a log. The first group that matched replaces {0} in `what`."""

    pattern: str
    what: str
    todo: str

    def search(self, text: str) -> re.Match[str] | None:
        """Where the text has it. `re` compiles it when a log is searched first: most queries search none."""
        return re.search(self.pattern, text, re.MULTILINE)


# A path at the end of a line, after the last colon and space.
_PATH = r".{0,400}: '?([^:\n]{1,300}?(?::[^ :\n][^:\n]{0,300}?){0,2})'?$"


OWN_SIGNS = (
    Sign(
        r"^slurmgen: the gate of this job was not opened",
        "its gate was not opened, so that it did not run its program",
        "Repeat the `slurmgen submit --first`, which must run until a job starts (docs/where.md).",
    ),
)
"What the batch script writes when it ends the job."


DECISIVE_SIGNS = (
    Sign(
        r"exceeded (?:(?:step|job) )?memory limit|[Oo]ut [Oo]f [Mm]emory handler|oom[-_]kill event"
        r"|Detected \d{1,9} oom[-_]kill|tasks? [\d,-]{1,500}: Out Of Memory",
        "it used more memory than it had",
        MORE_MEMORY,
    ),
    Sign(
        r"CANCELLED AT \S{1,40} DUE TO TIME LIMIT",
        "it reached its time limit",
        RUN_AGAIN,
    ),
)
"What Slurm writes when it ends a job itself."


SIGNS = (
    Sign(
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|HIP out of memory",
        "a GPU ran out of memory",
        "Use a smaller batch, mixed precision or gradient checkpointing; another GPU type has more.",
    ),
    Sign(
        r"MemoryError|[Cc]annot allocate memory|can't allocate memory|std::bad_alloc",
        "the memory of the node or of the job ran out",
        MORE_MEMORY,
    ),
    Sign(
        r"ModuleNotFoundError: No module named '([^'\n]{1,300})'",
        "Python has no module {0}",
        "Is it in the environment of --python-env, and is the right module loaded?",
    ),
    Sign(
        r"api_key not configured|No API key configured",
        "Weights & Biases has no key in the job",
        "Add --secret WANDB_API_KEY, whose value the job then has (docs/secrets.md).",
    ),
    Sign(
        r"GatedRepoError|access (?:to )?(?:a )?gated repo"
        r"|401 Client Error.{0,200}(?:https://huggingface\.co|hf\.co)",
        "Hugging Face did not let the job read a repository",
        "Add --secret HF_TOKEN, whose value the job then has (docs/secrets.md), and accept the terms of the "
        "repository; check that its name is right.",
    ),
    Sign(
        r"Lmod has detected the following error:\s{1,300}"
        r"The following module\(s\) are unknown: \"?([^\s\"]{1,300})",
        "the site has no environment module {0}",
        "`module spider` on the login node lists all; name it with --module or in the site's profile.",
    ),
    Sign(
        r"Unable to locate a modulefile for '([^'\n]{1,300})'",
        "the site has no environment module {0}",
        "`module avail` on the login node lists all; name it with --module or in the site's profile.",
    ),
    Sign(
        r"ImportError: (?:.{0,300}: )?"
        r"(?:version `([^'\n]{1,100})' not found|(\S{1,100}): cannot open shared object)",
        "a compiled library does not fit: {0}",
        "Load the modules that the environment was made with, or make it again on the site.",
    ),
    Sign(
        r"Address already in use|EADDRINUSE",
        "a port was already in use",
        "Another job or rank on that node uses it; `slurmgen lint` finds fixed ports in a script.",
    ),
    Sign(
        r"No space left on device|Disk quota exceeded",
        "the disk or the quota is full",
        "`df -h` and the site's quota command show where; write to another file system.",
    ),
    Sign(
        r"Bus error|unable to write to file </torch_|insufficient shared memory",
        "shared memory ran out (/dev/shm), or a mapped file was truncated",
        "Use fewer data-loader workers; in a container, give it the host's /dev/shm.",
    ),
    Sign(
        r"Illegal instruction",
        "a program was built for another kind of CPU",
        "Build or install it on a node of this partition.",
    ),
    Sign(
        r"Duplicate GPU detected ?: (rank \d{1,6} and rank \d{1,6})",
        "two ranks use the same GPU: {0}",
        "Select the GPU by LOCAL_RANK, as in torch.cuda.set_device(); a node needs a GPU per rank.",
    ),
    Sign(
        r"Multiple Ranks are using the same GPU",  # of NCCL since 2.30
        "several ranks use the same GPU",
        "Select the GPU by LOCAL_RANK, as in torch.cuda.set_device(); a node needs a GPU per rank.",
    ),
    Sign(
        r"DataLoader worker \(pid.{1,200}(?:killed by signal: Killed|exited unexpectedly)",
        "a data-loader worker was killed, usually because memory ran out",
        MORE_MEMORY,
    ),
    Sign(
        r"no kernel image is available for execution on the device",
        "this PyTorch was not built for the GPUs of that node",
        "Install one that supports them, or choose another --gpu-type.",
    ),
    Sign(
        r"Found no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device is detected",
        "no GPU was visible",
        "Did the job ask for --gpus, and does the container pass them (--nv)?",
    ),
    Sign(
        rf"FileNotFoundError: {_PATH}",
        "the file {0} does not exist",
        "Is it in the project and not ignored, and does the path exist on the site?",
    ),
    Sign(
        rf"PermissionError: {_PATH}",
        "access to {0} was denied",
        "Check its permissions with `ls -l` on the login node.",
    ),
    Sign(
        r"^(?:SyntaxError|IndentationError|TabError): (.+)$",
        "a Python file has a syntax error: {0}",
        "The lines above it in the log name the file and the line.",
    ),
    Sign(
        r"can't open file '([^'\n]{1,300})': \[Errno 2\]",
        "Python did not find the script {0}",
        "Is it in the project, and not ignored?",
    ),
    Sign(
        r"^(?:\S{1,200}\.py|torchrun|accelerate[^:\n]{0,50}|python\d? -m \S{1,100}): error: (.{1,300})$"
        r"|^Error: ((?:No such option|Missing (?:option|argument)|Invalid value|Got unexpected).{0,300})$",
        "a program rejected its arguments: {0}",
        "Correct what follows the script; `--help` of that program lists its options.",
    ),
    Sign(
        r"could not open image ([^:\n]{1,300})|pyxis: failed to import.{0,100}image:? ?(\S{0,300})",
        "the container image {0} cannot be opened",
        "Does it exist on the site? `slurmgen doctor` checks it; --container names it.",
    ),
    Sign(
        r"^there is no Python in (.{1,300})$",
        "the environment {0} has no Python",
        "Make it on the login node, or correct --python-env.",
    ),
    Sign(
        r"Failed to (?:fetch|download):? `?(https?://[^\s`]{1,300})",
        "a package could not be downloaded: {0}",
        "Compute nodes often have no internet access; make the environment on the login node first.",
    ),
    Sign(
        r"(?:^|: )(?:line \d{1,9}: )?([^\s:]{1,300}): (?:command )?not found$"
        r"|(?:failed to execute|execve\(\):) ([^\s:]{1,300}): No such file",
        "command not found: {0}",
        "Is a module missing, or the environment of --python-env?",
    ),
    Sign(
        r"(?<![^\s:])([^\s:]{1,300}): Permission denied$",
        "{0} cannot be executed or read",
        "Check its permissions with `ls -l`; a script must be executable, or be run as `bash SCRIPT`.",
    ),
    Sign(
        r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
        r"|couldn't connect to 'https?://|Max retries exceeded with url",
        "a host could not be reached over the network",
        "Compute nodes often have no internet access; download data and models on the login node first.",
    ),
)
"Causes; the first in this order counts."


LAST_SIGNS = (
    Sign(
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.{0,400}(?:timeout|timed out)",
        "NCCL waited for a rank until its timeout",
        "Look for the rank that stopped earlier; NCCL_DEBUG=INFO and TORCH_NCCL_TRACE_BUFFER_SIZE show more.",
    ),
    Sign(
        r"DistStoreError|RendezvousTimeoutError|Timed out after \d{1,9} seconds waiting for clients"
        r"|client socket has (?:timed out|failed to connect)",
        "not all ranks connected in time",
        "Did all nodes start, and is MASTER_ADDR the first one of them?",
    ),
    Sign(
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError",
        "NCCL failed to communicate between ranks",
        "Set NCCL_DEBUG=INFO; NCCL_SOCKET_IFNAME selects the network interface.",
    ),
    Sign(
        r"Segmentation fault",
        "a program crashed (segmentation fault)",
        "Often a compiled library that does not fit; PYTHONFAULTHANDLER=1 shows where.",
    ),
    Sign(
        r"Connection (?:reset|closed) by peer|Broken pipe",
        "a rank lost its connection to another one",
        "Look for the rank that ended earlier; memory that ran out is the usual reason.",
    ),
)
"Consequences of other failures, mostly: they count where nothing else explains the failure."
