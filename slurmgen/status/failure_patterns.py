"""What a log may show of a failure: one table of signs, each with what it means and what to do.

docs/guide/errors.md has the source of each. The time of a search grows linearly with the length of the log,
whatever is in it: repetitions are bounded.
"""

import re
from typing import Literal

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
AGAIN = "Submit it again; with --requeue, a script that loads its checkpoint continues (docs/requeue.md)."
CONSEQUENCE = re.compile(
    r"[Cc]onnection (?:reset|closed|refused|aborted|was likely closed)|Broken pipe|BrokenPipeError"
    r"|Connection\w{0,20}Error:? \[Errno|ChildFailedError|SignalException|SIGTERMException|KeyboardInterrupt"
    r"|CalledProcessError|ProcessRaisedException|ProcessExitedException"
    r"|DistBackendError|DistNetworkError|DistStoreError|Rendezvous\w{0,30}Error"
    r"|NCCL (?:error|communicator)|nccl\w{0,30}(?:Error| failed)|client socket has"
    r"|[Ww]atchdog|Socket Timeout|[Ww]ait timeout"
    r"|monitoredBarrier|Timed out (?:waiting|after)|caused pair closure|connectFullMesh|failed to recv"
)
"In the last line of a traceback: the process failed only because another one had."
TIMED_OUT = re.compile(
    r"[Ww]atchdog (?:caught|got stuck|thread terminated)|what\(\): .{0,400}(?:NCCL|gloo|by peer)"
)
"The library that connects the ranks waited too long for one of them, or lost it, and called abort()."
Kind = Literal["own", "memory", "slurm", "fatal", "cause", "lack", "setup", "effect", "said"]


class Sign(Struct, frozen=True):
    """A pattern in a log. The first group that matched replaces {0} in `what`.

    The kind says how far it is believed:

    - `own`, `memory`, `slurm`: slurmgen or Slurm says why it ended the job.
    - `fatal`: the program that writes it ends; `cause`: it is fatal if nothing goes on after it.
    - `lack`: fatal too, and an earlier `setup` may be why something is missing.
    - `setup`: the shell goes on after it.
    - `effect`: mostly the consequence of another failure; it counts where nothing else explains one.
    - `said`: no more than that a program calls it an error.
    """

    kind: Kind
    pattern: str
    what: str
    todo: str

    def search(self, text: str) -> re.Match[str] | None:
        """Where the text has it. `re` compiles it when a log is searched first: most queries search none."""
        return re.search(self.pattern, text, re.MULTILINE)


# A path at the end of a line, after the last colon and space.
_PATH = r".{0,400}: '?([^:\n]{1,300}?(?::[^ :\n][^:\n]{0,300}?){0,2})'?$"
_ONE_GPU_EACH = "Select the GPU by LOCAL_RANK, as in torch.cuda.set_device(); a node needs a GPU per rank."
_ANOTHER_NODE = (
    "`slurmgen nodes add NODE` excludes the node of that rank from new jobs; report it to the site, then "
    "submit again."
)
_SHOW_KERNEL = (
    "Run it once with `--env CUDA_LAUNCH_BLOCKING=1`: the traceback then names the call; an index beyond a "
    "label or an embedding is the usual reason."
)
_LOGIN_NODE = (
    "Compute nodes often have no internet access; download data and models on the login node first, and add "
    "`--env HF_HUB_OFFLINE=1`."
)
_INSTALL_AT_LOGIN = (
    "Compute nodes often have no internet access; make the environment on the login node first."
)
SIGNS = (
    Sign(
        "own",
        r"^slurmgen: the gate of this job was not opened",
        "its gate was not opened, so that it did not run its program",
        "Repeat the `slurmgen submit --first`, which must run until a job starts (docs/where.md).",
    ),
    Sign(
        "memory",
        r"exceeded (?:(?:step|job) )?memory limit|[Oo]ut [Oo]f [Mm]emory handler|oom[-_]kill event"
        r"|Detected \d{1,9} oom[-_]kill|tasks? [\d,-]{1,500}: Out Of Memory|Out of memory: Killed process",
        "it used more memory than it had",
        MORE_MEMORY,
    ),
    Sign("slurm", r"CANCELLED AT \S{1,40} DUE TO TIME LIMIT", "it reached its time limit", RUN_AGAIN),
    Sign(
        "slurm", r"CANCELLED AT \S{1,40} DUE TO PREEMPTION", "a job of higher priority took its place", AGAIN
    ),
    Sign(
        "slurm",
        r"CANCELLED AT \S{1,40} DUE TO NODE FAILURE|srun: error: Node failure on (\S{1,100})",
        "one of its nodes failed {0}",
        AGAIN,
    ),
    Sign(
        "cause",
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|HIP out of memory"
        r"|(?:RESOURCE_EXHAUSTED|[Rr]esource exhausted): (?:Out of memory|(?:Failed to|Error) allocat|OOM)"
        r"|OOM when allocating tensor"
        r"|cupy\S{0,40}OutOfMemoryError|out_of_memory: (?:CUDA|RMM)|RMM failure|cudaErrorMemoryAllocation"
        r"|CUDA_ERROR_OUT_OF_MEMORY|CU\w{2,4}_STATUS_ALLOC_FAILED|No available memory for the cache blocks",
        "a GPU ran out of memory",
        "Use a smaller batch, mixed precision or gradient checkpointing; another GPU type has more.",
    ),
    Sign(
        "cause",
        r"DataLoader worker \(pid.{1,200}(?:killed by signal: Killed|exited unexpectedly)",
        "a data-loader worker was killed, usually because memory ran out",
        MORE_MEMORY,
    ),
    Sign(
        "cause",
        r"(?<!OutOf)MemoryError\b|[Cc]annot allocate memory|can't allocate memory|std::bad_alloc",
        "the memory of the node or of the job ran out",
        MORE_MEMORY,
    ),
    Sign(
        "lack",
        r"ModuleNotFoundError: No module named '([^'\n]{1,300})'",
        "Python has no module {0}",
        "Is it in the environment of --python-env, and is the right module loaded?",
    ),
    Sign(
        "lack",
        r"package (\S{1,100}) seems to be not installed",
        "Python has no module {0}",
        "Install it in the environment of --python-env, on the login node.",
    ),
    Sign(
        "cause",
        r"api_key not configured|No API key configured",
        "Weights & Biases has no key in the job",
        "Add --secret WANDB_API_KEY, whose value the job then has (docs/secrets.md).",
    ),
    Sign(
        "cause",
        r"wandb\S{0,40}CommError|wandb: (?:ERROR|Network error)",
        "Weights & Biases could not be reached or refused the job",
        "Add `--env WANDB_MODE=offline`; `wandb sync` on the login node sends the run afterwards.",
    ),
    Sign(
        "cause",
        r"429 Client Error|HTTP(?: Error)? 429\b|Too Many Requests for url",
        "a server refused the job for too many requests",
        "Download once on the login node, and add `--env HF_HUB_OFFLINE=1`; a token raises the limit.",
    ),
    Sign(
        "cause",
        r"GatedRepoError|access (?:to )?(?:a )?gated repo"
        r"|40[13] Client Error.{0,200}(?:https://huggingface\.co|hf\.co)|RepositoryNotFoundError",
        "Hugging Face did not let the job read a repository",
        "Add --secret HF_TOKEN, whose value the job then has (docs/secrets.md), and accept the terms of the "
        "repository; check that its name is right.",
    ),
    Sign(
        "cause",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled"
        r"|[Cc]annot find the requested files in the (?:local|disk|cached) (?:cache|path)",
        "a file of the Hugging Face hub is not in the cache, and the job could not download it",
        "Run `huggingface-cli download REPOSITORY` on the login node, with the same HF_HOME as the job.",
    ),
    Sign(
        "setup",
        r"The following module\(s\) are unknown:\s{1,20}\"?([^\s\"]{1,300})",
        "the site has no environment module {0}",
        "`module spider` on the login node lists all; name it with --module or in the site's profile.",
    ),
    Sign(
        "setup",
        r"Unable to locate a modulefile for '([^'\n]{1,300})'"
        r"|These module\(s\) or extension\(s\) exist but cannot be loaded as requested:"
        r"\s{1,20}\"?([^\s\",]{1,300})",
        "the site has no environment module {0}",
        "`module avail` on the login node lists all; name it with --module or in the site's profile.",
    ),
    Sign(
        "setup",
        r"CommandNotFoundError: Your shell has not been properly configured"
        r"|Run 'conda init' before 'conda activate'",
        "conda is not prepared in the job, so that `conda activate` did nothing",
        'Put `eval "$(conda shell.bash hook)"` before `conda activate`.',
    ),
    Sign(
        "setup",
        r"EnvironmentNameNotFound: Could not find conda environment: (\S{1,300})"
        r"|EnvironmentLocationNotFound: Not a conda environment: (\S{1,300})"
        r"|: (?:line \d{1,9}: )?([^\s:]{1,300})/bin/activate: No such file",
        "the environment {0} does not exist",
        "`conda env list` or `ls` on the login node shows what exists; name it with --python-env.",
    ),
    Sign(
        "lack",
        r"ImportError: (?:.{0,300}: )?"
        r"(?:version `([^'\n]{1,100})' not found|(\S{1,100}): cannot open shared object)"
        r"|error while loading shared libraries: ([^\s:]{1,100})|undefined symbol: (\S{1,200})",
        "a compiled library does not fit: {0}",
        "Load the modules that the environment was made with, or make it again on the site.",
    ),
    Sign(
        "cause",
        r"Address already in use|EADDRINUSE|another process is utilizing it",
        "a port was already in use",
        "Another job or rank on that node uses it; `slurmgen lint` finds fixed ports in a script.",
    ),
    Sign(
        "cause",
        r"No space left on device|Disk quota exceeded",
        "the disk or the quota is full",
        "`df -h` and the site's quota command show where; write to another file system.",
    ),
    Sign(
        "fatal",
        r"\bBus error\b|bus error encountered|unable to write to file </torch_|insufficient shared memory",
        "shared memory ran out (/dev/shm), or a mapped file was truncated",
        "Use fewer data-loader workers; in a container, give it the host's /dev/shm.",
    ),
    Sign(
        "fatal",
        r"Illegal instruction",
        "a program was built for another kind of CPU",
        "Build or install it on a node of this partition.",
    ),
    Sign(
        "cause",
        r"Duplicate GPU detected ?: (rank \d{1,6} and rank \d{1,6})",
        "two ranks use the same GPU: {0}",
        _ONE_GPU_EACH,
    ),
    Sign(
        "cause",
        r"Multiple Ranks are using the same GPU",  # of NCCL since 2.30
        "several ranks use the same GPU",
        _ONE_GPU_EACH,
    ),
    Sign(
        "cause",
        r"invalid device ordinal|You requested (?:GPUs|gpu): ",
        "a rank selected a GPU that its node does not have",
        _ONE_GPU_EACH,
    ),
    Sign(
        "cause",
        r"Bootstrap ?: no socket interface found",
        "NCCL_SOCKET_IFNAME names no network interface of the node",
        "Remove NCCL_SOCKET_IFNAME, or set it to an interface that `ip -br link` lists on the node.",
    ),
    Sign(
        "cause",
        r"no kernel image is available for execution on the device"
        r"|CUDA capability sm_\d{1,4} is not compatible",
        "this PyTorch was not built for the GPUs of that node",
        "Install one that supports them, or choose another --gpu-type.",
    ),
    Sign(
        "cause",
        r"only supports Ampere GPUs or newer|only supported on GPUs with compute capability",
        "the GPUs of that node are too old for the program",
        "Choose a newer --gpu-type; `slurmgen sites show SITE` lists them.",
    ),
    Sign(
        "cause",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "the CUDA driver of the node is too old for the program",
        "Install a PyTorch for an older CUDA: `nvidia-smi` on the node shows the newest one that it can run.",
    ),
    Sign(
        "cause",
        r"Torch not compiled with CUDA enabled",
        "this PyTorch was built without CUDA",
        "Install a build with CUDA; `python -c 'import torch; print(torch.version.cuda)'` shows which it is.",
    ),
    Sign(
        "cause",
        r"Found no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device is detected"
        r"|torch\.cuda\.is_available\(\) is False|cannot find any torch accelerator|No supported gpu backend"
        r"|CUDA unknown error - this may be due to|requires a GPU|NVIDIA-SMI has failed",
        "no GPU was visible or usable",
        "Did the job ask for --gpus, and does the container pass them (--nv)?",
    ),
    Sign(
        "cause",
        r"uncorrectable ECC error|cudaErrorECCUncorrectable|NVRM: Xid|fallen off the bus"
        r"|CUDA error: (?:unknown error|hardware stack error|misaligned address)"
        r"|CUDA-capable device\(s\) is/are busy or unavailable",
        "a GPU failed",
        _ANOTHER_NODE,
    ),
    Sign(
        "cause",
        r"device-side assert triggered",
        "a check in a GPU kernel failed (device-side assert)",
        _SHOW_KERNEL,
    ),
    Sign(
        "cause",
        r"illegal memory access|unspecified launch failure",
        "a GPU kernel read or wrote memory that it does not have",
        "Run it once with `--env CUDA_LAUNCH_BLOCKING=1`: the traceback then names the call.",
    ),
    Sign(
        "cause",
        r"Expected all tensors to be on the same device|Input type \(.{1,80} and weight type",
        "tensors are on different devices",
        "Move the batch and the model to the rank's GPU: `.to(device)` in the line of the traceback.",
    ),
    Sign(
        "cause",
        r"CUDA error: ([^\n]{1,80})|((?:CUDNN|CUBLAS|CUFFT|CUSPARSE)_STATUS_(?!SUCC)\w{1,40})",
        "a GPU operation failed: {0}",
        "Run it once with `--env CUDA_LAUNCH_BLOCKING=1`; if another node works, exclude this one with "
        "`slurmgen nodes add NODE`.",
    ),
    Sign(
        "cause",
        r"size mismatch for ([^\s:]{1,200})",
        "a checkpoint does not fit the model: the size of {0} differs",
        "Load it with the options that it was saved with, such as the number of classes.",
    ),
    Sign(
        "fatal",
        r"[Ll]oss is (?:nan|NaN|inf)\w{0,5}[,.;:]? (?:stop|exit|abort|terminat)|returned nan values in its"
        r"|Minimum loss scale reached"
        r"|(?:nan|NaN) (?:loss )?(?:encountered|detected|found)"
        r"(?: in (?:the )?loss)?[,.:;]? (?:stop|exit|abort|terminat)",
        "the loss became NaN or infinite",
        "Use a lower learning rate, gradient clipping, or bf16 instead of fp16.",
    ),
    Sign(
        "cause",
        r"environment variable (\w{1,60}) expected, but not set",
        "the script was not started by a launcher: {0} is not set",
        "Start it with `--framework ddp` (torchrun), not with python.",
    ),
    Sign(
        "lack",
        r"[Uu]nable to (?:synchronously )?create file \([Uu]nable to open file: name = '([^'\n]{1,300})'",
        "the folder of {0} does not exist",
        "Make it with `mkdir -p` before the job writes to it.",
    ),
    Sign(
        "lack",
        r"[Uu]nable to open file: name = '([^'\n]{1,300})', errno = 2",
        "the file {0} does not exist",
        "Is it in the project and not ignored, and does the path exist on the site?",
    ),
    Sign(
        "lack",
        rf"FileNotFoundError: (?:{_PATH}|[Ff]ile (\S{{1,300}}) (?:does not exist|not found))",
        "the file {0} does not exist",
        "Is it in the project and not ignored, and does the path exist on the site?",
    ),
    Sign(
        "cause",
        rf"FileExistsError: {_PATH}",
        "{0} exists already",
        "Remove it with `rm -r`, write to another folder, or let the program overwrite it.",
    ),
    Sign(
        "cause",
        rf"PermissionError: {_PATH}",
        "access to {0} was denied",
        "Check its permissions with `ls -l` on the login node.",
    ),
    Sign(
        "fatal",
        r"^(?:SyntaxError|IndentationError|TabError): (.+)$",
        "a Python file has a syntax error: {0}",
        "The lines above it in the log name the file and the line.",
    ),
    Sign(
        "lack",
        r"can't open file '([^'\n]{1,300})': \[Errno 2\]",
        "Python did not find the script {0}",
        "Is it in the project, and not ignored?",
    ),
    Sign(
        "fatal",
        r"^(?:\S{1,200}\.py|torchrun|accelerate[^:\n]{0,50}|python\d? -m \S{1,100}): error: (.{1,300})$"
        r"|^Error: ((?:No such option|Missing (?:option|argument)|Invalid value|Got unexpected).{0,300})$"
        r"|^(?:.{0,40}: )?(Could not override '.{1,200})$",
        "a program rejected its arguments: {0}",
        "Correct what follows the script; `--help` of that program lists its options.",
    ),
    Sign(
        "lack",
        r"could not open image ([^:\n]{1,300})|pyxis: failed to import.{0,100}image:? ?(\S{0,300})",
        "the container image {0} cannot be opened",
        "Does it exist on the site? `slurmgen doctor` checks it; --container names it.",
    ),
    Sign(
        "lack",
        r"^FATAL: .{0,600}mount source (\S{1,300}) doesn't exist",
        "the container could not be made: {0}, which it binds, does not exist",
        "Make it with `mkdir -p` on the node, or correct --bind.",
    ),
    Sign(
        "lack",
        r"^FATAL: .{0,600}destination (\S{1,300}) doesn't exist in container",
        "the container could not be made: it has no folder {0} to bind to",
        "Bind to a folder that the image has, or make it in the image.",
    ),
    Sign(
        "lack",
        r"^FATAL: {1,8}\"?([^\s\"]{1,300})\"?: executable file not found",
        "the container has no program {0}",
        "`apptainer exec IMAGE sh -c 'echo $PATH'` shows where it looks; give the full path.",
    ),
    Sign(
        "fatal",
        r"^FATAL: {1,8}(\S.{1,300})$|pyxis: {1,8}(enroot-\w{1,20}: .{3,200}|container start failed.{0,80})$",
        "the container engine ended: {0}",
        "`apptainer exec IMAGE true` on the login node shows whether the image works.",
    ),
    Sign(
        "lack",
        r"^there is no Python in (.{1,300})$",
        "the environment {0} has no Python",
        "Make it on the login node, or correct --python-env.",
    ),
    Sign(
        "cause",
        r"Failed to (?:fetch|download):? `?(https?://[^\s`]{1,300})",
        "a package could not be downloaded: {0}",
        _INSTALL_AT_LOGIN,
    ),
    Sign(
        "cause",
        r"No matching distribution found for (\S{1,200})",
        "pip found no version of {0}",
        _INSTALL_AT_LOGIN,
    ),
    Sign(
        "fatal",
        r"Task launch for \S{1,60} failed on node (\S{1,100}: .{1,100})"
        r"|task \d{1,9} launch failed: (.{1,100})"
        r"|srun: (?:error: Unable to create step for job \d{1,12}: |fatal: "
        r"|error: (?=Invalid |Unable to ))(.{1,200})",
        "srun could not start the step: {0}",
        "`slurmgen lint SCRIPT` checks the options of srun; `scontrol show job ID` shows what the job has.",
    ),
    Sign(
        "setup",
        r"(?:^|: )(?:line \d{1,9}: )?([^\s:]{1,300}): (?:command )?not found$"
        r"|(?:failed to execute|execve\(\):) ([^\s:]{1,300}): No such file",
        "command not found: {0}",
        "Is a module missing, or the environment of --python-env?",
    ),
    Sign(
        "setup",
        r"(?<![^\s:])'?([^\s:']{1,300})'?: Permission denied$",
        "{0} cannot be executed or read",
        "Check its permissions with `ls -l`; a script must be executable (`chmod +x SCRIPT`), or be run as "
        "`bash SCRIPT`.",
    ),
    Sign(
        "setup",
        r"(?:line \d{1,9}|bash|sh): (?:cd: )?([^\s:]{1,300}): No such file or directory$",
        "{0} does not exist",
        "`ls -l` on the login node shows whether it does; is it in the project, and not ignored?",
    ),
    Sign(
        "cause",
        r"ProxyError|Tunnel connection failed|CERTIFICATE_VERIFY_FAILED",
        "the proxy or the certificate of a server did not let the job connect",
        "`env | grep -i proxy` shows what is set; the site's pages say which proxy jobs may use.",
    ),
    Sign(
        "cause",
        r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
        r"|couldn't connect to 'https?://|Max retries exceeded with url",
        "a host could not be reached over the network",
        _LOGIN_NODE,
    ),
    Sign(
        "cause",
        r"actor died unexpectedly|WorkerCrashedError|node died|[Ff]ailed to connect to GCS",
        "Ray lost a worker or its head",
        "`ls -t /tmp/ray/session_latest/logs` on the node has the worker's log; memory is usual.",
    ),
    Sign(
        "fatal",
        r"Munge (?:en|de)code failed|(?:has|REQUEST\S{0,60}) authentication error",
        "Slurm's authentication (munge) does not work on the node",
        "Submit again with `--exclude NODE`, and report the node to the site.",
    ),
    Sign(
        "fatal",
        r"(double free or corruption|corrupted (?:size|double-linked|unsorted)"
        r"|(?:munmap_chunk|free|malloc|realloc)\(\): .{1,60})",
        "a compiled library corrupted its memory: {0}",
        "Use versions of the libraries that were built together; `--env PYTHONFAULTHANDLER=1` shows where.",
    ),
    Sign(
        "fatal",
        r"^(?:.{0,200}: line \d{1,9}: +\d{1,9} )?Killed\b(?: {2,}\S.{0,300})?$",
        "a process was killed, usually because memory ran out",
        MORE_MEMORY,
    ),
    Sign(
        "fatal",
        r"\b[Ss]egmentation fault",
        "a program crashed (segmentation fault)",
        "Often a compiled library that does not fit; PYTHONFAULTHANDLER=1 shows where.",
    ),
    Sign(
        "effect",
        r"Watchdog caught collective operation timeout"
        r"|ProcessGroupNCCL.{0,400}(?:timeout|timed out|got stuck)"
        r"|Timed out waiting \d{1,12}ms for recv",
        "NCCL waited for a rank until its timeout",
        "Look for the rank that stopped earlier; NCCL_DEBUG=INFO and TORCH_NCCL_TRACE_BUFFER_SIZE show more.",
    ),
    Sign(
        "effect",
        r"DistStoreError|RendezvousTimeoutError|RendezvousConnectionError"
        r"|Timed out after \d{1,9} seconds waiting for clients"
        r"|client socket has (?:timed out|failed to connect)|connectFullMesh",
        "not all ranks connected in time",
        "Did all nodes start, and is MASTER_ADDR the first one of them?",
    ),
    Sign(
        "effect",
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError|ncclInternalError"
        r"|NCCL WARN (?=.{0,200}fail)|unhandled (?:system|cuda) error|NCCL communicator was aborted",
        "NCCL failed to communicate between ranks",
        "Set NCCL_DEBUG=INFO; NCCL_SOCKET_IFNAME selects the network interface.",
    ),
    Sign(
        "effect",
        r"Connection (?:reset|closed) by peer|Broken pipe",
        "a rank lost its connection to another one",
        "Look for the rank that ended earlier; memory that ran out is the usual reason.",
    ),
    Sign(
        "effect",
        r"\*\*\* (?:STEP|JOB) \S{1,60} ON \S{1,100} CANCELLED AT \S{1,40} \*\*\*",
        "its step was cancelled",
        "`sacct -j ID -o JobID,State,ExitCode` shows which task ended first, or who cancelled it.",
    ),
    Sign(
        "said",
        r"^\W{0,4}(?:(?i:fatal|runtime) ?)?(?:ERROR|Error|error|FATAL)\b\]?: {0,4}(\S.{3,300})$",
        "a program ended with an error: {0}",
        "",
    ),
)
"On one line, the first sign of this order counts."
