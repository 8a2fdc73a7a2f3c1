"""How ranks on several nodes find each other."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Assignment, Launch, Script, Shape, Span
from slurmgen.lint.reader.words import Word
from slurmgen.lint.rules.common import (
    FRAMEWORKS,
    in_force,
    rank_launchers,
    rendezvous,
    several_nodes,
    steps,
    variables_in,
)


@rule("SG303", "error")
def no_rendezvous(script: Script) -> Iterator[Finding]:
    """Ranks on several nodes have no rendezvous address.

    ## What it checks
    Checks for torchrun on several nodes without `--master-addr` or `--rdzv-endpoint`, or with `--standalone`,
    and for accelerate on several machines without `--main_process_ip`.

    ## Why it matters
    Each node connects only to itself: it trains on its own, or waits forever for the other nodes.

    ## Example
        #SBATCH --nodes=2
        srun torchrun --nnodes=2 --nproc-per-node=4 train.py

    ## Use instead
        srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \\
          --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py'

    ## When to ignore
    If the environment of the job sets the address, for example PET_RDZV_ENDPOINT.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html ; huggingface/accelerate issue 1239
    """
    for launch in rank_launchers(script):
        if several_nodes(script, launch) and _lacks_address(launch):
            fact = f"each of the {script.step(launch).nodes} nodes connects only to itself"
            yield Finding(launch.span, fact, _RENDEZVOUS_OPTIONS[launch.kind])


def _lacks_address(launch: Launch) -> bool:
    options = launch.options
    if launch.kind == "torchrun":
        lacks_option = options.lacks("master-addr", "rdzv-endpoint")
        from_env = any(name.startswith("PET_") for name in launch.env)
        return "standalone" in options.given or (lacks_option and not from_env)
    machines = options.number("num-machines") or 0
    return launch.kind == "accelerate" and machines > 1 and options.lacks("main-process-ip", "config-file")


_RENDEZVOUS_OPTIONS = {
    "torchrun": "add --node-rank, --master-addr and --master-port; or --rdzv-backend and --rdzv-endpoint",
    "accelerate": "add --main_process_ip, --main_process_port and --machine_rank",
}


@rule("SG304", "error")
def no_node_rank(script: Script) -> Iterator[Finding]:
    """Launchers on several nodes have no node rank.

    ## What it checks
    Checks for torchrun with a static rendezvous on several nodes without `--node-rank`, and for accelerate on
    several machines without `--machine_rank`.

    ## Why it matters
    With torchrun, every node acts as the first one, and all of them wait for each other forever. accelerate
    stops at once.

    ## Example
        srun torchrun --nnodes=2 --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py

    ## Use instead
        srun bash -c 'torchrun --nnodes=2 --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" ... t.py'

    ## When to ignore
    If the environment of the job sets the rank.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html ; huggingface/accelerate issue 1239
    """
    for launch in rank_launchers(script):
        option = _missing(launch)
        if option and several_nodes(script, launch):
            yield Finding(
                launch.span,
                f"{option} is missing, so every node is node 0",
                f"""start it with `bash -c '...'`, and add `{option}="$SLURM_NODEID"`""",
            )


def _missing(launch: Launch) -> str | None:
    options = launch.options
    if launch.kind == "accelerate":
        several = (options.number("num-machines") or 0) > 1
        return "--machine_rank" if several and options.lacks("machine-rank", "config-file") else None
    static = "master-addr" in options.given and options.text("rdzv-backend") in (None, "static")
    lacks = options.lacks("node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-conf")
    is_missing = launch.kind == "torchrun" and static and lacks and "PET_NODE_RANK" not in launch.env
    return "--node-rank" if is_missing else None


_RANK_COUNTS: dict[str, Callable[[Shape], int | None]] = {
    "SLURM_NODEID": lambda shape: shape.nodes,
    "SLURM_PROCID": lambda shape: shape.ntasks,
    "SLURM_LOCALID": lambda shape: shape.ntasks_per_node,
}
"The number of values that each variable has in a step."


@rule("SG306", "error")
def rank_expanded_too_early(script: Script) -> Iterator[Finding]:
    """A rank variable is expanded in the batch script instead of in the task.

    ## What it checks
    Checks for `$SLURM_NODEID`, `$SLURM_PROCID` and `$SLURM_LOCALID` that the batch script expands for a step
    with several tasks: on the srun line outside single quotes, or in a variable that is set before and used
    by the step. A `--node-rank` that the launcher ignores, because its rendezvous is dynamic, is not
    reported, nor a rank in a path, nor an exported `RANK` or `LOCAL_RANK` that the launcher sets itself.

    ## Why it matters
    In the batch script these variables are always 0. Every node or task gets rank 0, and all of them wait for
    each other forever.

    ## Example
        srun torchrun --node-rank=$SLURM_NODEID ... train.py

    ## Use instead
        srun bash -c 'torchrun --node-rank="$SLURM_NODEID" ... train.py'

    ## When to ignore
    If only the first task uses the value.

    ## Reference
    huggingface/accelerate issue 2816
    """
    for launch, _ in steps(script):
        several = _several(script.step(launch))
        for word in launch.command.words:
            early = sorted(name for name in word.names & several if _matters(launch, word, name))
            yield from _expanded_early(word.span, early)
        for found in script.shell.assignments:
            early = sorted(found.names & several)
            if early and _is_used(found, _exported(launch) | _used_variables(launch)):
                yield from _expanded_early(found.span, early)


_RANKS = {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}
"Variables that launchers set for their ranks, whatever their value was."


def _exported(launch: Launch) -> set[str]:
    """The environment variables that reach the training script."""
    return set(launch.env) - (_RANKS if launch.kind in FRAMEWORKS else set())


def _several(shape: Shape) -> set[str]:
    return {name for name, count in _RANK_COUNTS.items() if (count(shape) or 0) > 1}


_NODE_RANK = re.compile(r"--(?:node|machine)[-_]rank[= ]\S*")


def _matters(launch: Launch, word: Word, name: str) -> bool:
    """Whether a word uses the variable for more than a `--node-rank` that torchrun ignores."""
    if launch.options.text("rdzv-backend") in (None, "static"):
        return True
    node_rank = launch.options.first("node-rank", "machine-rank")
    if node_rank and node_rank.word == word and not word.raw.startswith("-"):
        return False
    return bool(re.search(rf"(?<!\\)\$\{{?{name}\b", _NODE_RANK.sub("", word.raw)))


def _used_variables(launch: Launch) -> set[str]:
    """The variables in the words of a launch that matter."""
    return {name for word in launch.command.words for name in word.names if _matters(launch, word, name)}


def _is_used(found: Assignment, names: set[str]) -> bool:
    return found.name in names and not re.search(r"bash|/", found.raw)


def _expanded_early(span: Span, names: list[str]) -> Iterator[Finding]:
    for name in names[:1]:
        yield Finding(
            span,
            f"the batch script expands ${name} to 0, so every task gets rank 0",
            f"expand it in the task: srun bash -c '... \"${name}\" ...'",
        )


_ADDRESS_VARIABLES = {"MASTER_ADDR", "JAX_COORDINATOR_ADDRESS"}
_PORT = r"(?<=[^:]):[^:]*$"
_LOCAL = r"(localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1)"
_LITERAL = r"(\d+\.\d+\.\d+\.\d+|(?=[a-z\d.-]*\d)[a-z][a-z\d-]*(\.[a-z\d-]+)*)(?=:|$)"
"A literal IP address, or a host name, which contains a number."
_FALLBACK = rf"(\|\|\s*echo\s+['\"]?|:-){_LOCAL}"


@rule("SG307", "error")
def local_address(script: Script) -> Iterator[Finding]:
    """Ranks on several nodes use localhost as their rendezvous address.

    ## What it checks
    Checks the rendezvous address of jobs with several nodes, also in `JAX_COORDINATOR_ADDRESS`, for
    `localhost`, `127.0.0.1` and `0.0.0.0`, including as a fallback if the lookup of the first node fails, and
    for a literal IP address.

    ## Why it matters
    On each node, localhost is that node. With `|| echo localhost`, a failure of scontrol makes the whole job
    hang.

    ## Example
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1 || echo localhost)

    ## Use instead
        nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
        MASTER_ADDR="${nodes%%$'\\n'*}"
        : "${MASTER_ADDR:?scontrol returned no host name}"

    ## When to ignore
    If the launch runs on one node although the job has several.

    ## Reference
    mlc-ai/pith-train pull request 91
    """
    for launch in script.launches:
        if several_nodes(script, launch):
            for span, is_local in _addresses(script, launch):
                yield Finding(span, _ADDRESS_FACTS[is_local], f"{_FIRST_HOST}, without a fallback")


_ADDRESS_FACTS = {
    True: "this address is the local node, so each node connects only to itself",
    False: "this address belongs to one machine, which may not be a node of the job",
}
_FIRST_HOST = 'use the first host of `scontrol show hostnames "$SLURM_JOB_NODELIST"`'


def _addresses(script: Script, launch: Launch) -> Iterator[tuple[Span, bool]]:
    """The literal addresses of a launch, and whether each means the local node."""
    for found in in_force(script, launch, variables_in(launch, "addr") | _ADDRESS_VARIABLES):
        host = re.sub(_PORT, "", found.value)
        if re.fullmatch(_LOCAL, host) or re.search(_FALLBACK, found.raw):
            yield found.span, True
        elif re.fullmatch(_LITERAL, host):
            yield found.span, False
    for given in rendezvous(launch, "addr"):
        value = re.sub(r"^\w+://", "", given.value)
        match = re.match(rf"(?P<local>{_LOCAL})|{_LITERAL}", value)
        if match and match[0] in given.word.raw:
            yield given.word.span, bool(match["local"])


_LOOKUP = (
    r"\bhostname\s+(-i|-I|--ip-address|--all-ip-addresses)\s*"
    r"(['\"`)]|\|\s*(cut|awk)\b[^|)`]*?(-f\s*|\$)[2-9])"
)
"Its whole output, or another address than the first."
_MEETING_POINT = re.compile(
    r"(\w*_)?(master|main|head|rdzv|coord\w*|leader)(_?(node|host))?_?(ip|addr\w*)", re.I
)


@rule("SG308", "warning")
def ip_of_hostname(script: Script) -> Iterator[Finding]:
    """The rendezvous address is the output of `hostname --ip-address`.

    ## What it checks
    Checks for jobs with several nodes that use the whole output of `hostname -i`, `-I`, `--ip-address` or
    `--all-ip-addresses` as an address, or another address than the first. Variables such as `head_node_ip`
    count as addresses.

    ## Why it matters
    The command prints 127.0.1.1 if /etc/hosts assigns it to the host, and several addresses if the node has
    several. The other nodes then cannot connect to the first one.

    ## Example
        head_ip=$(srun -N1 -n1 -w "$head_node" hostname --ip-address)

    ## Use instead
        nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
        MASTER_ADDR="${nodes%%$'\\n'*}"

    A host name is sufficient. If a site requires an IP address, use `getent ahostsv4 NAME`.

    ## When to ignore
    If the nodes have one address each, which /etc/hosts does not map to 127.0.1.1.

    ## Reference
    nebius/nebius-solutions-library issue 177 ; skypilot-org/skypilot issue 10333
    """
    launches = [launch for launch in script.launches if several_nodes(script, launch)]
    names = {name for launch in launches for name in variables_in(launch, "addr") | {"MASTER_ADDR"}}
    sources = names | {name for found in script.assigned(*names) for name in found.names}
    if (script.job.nodes or 1) > 1:
        sources |= {found.name for found in script.shell.assignments if _MEETING_POINT.fullmatch(found.name)}
    assigned = list(script.assigned(*sources))
    times = Counter(found.name for found in assigned if not found.conditional)
    for found in assigned:
        if times[found.name] == 1 and re.search(_LOOKUP, found.raw):
            fact = "the address may be 127.0.1.1, or several addresses on one line"
            yield Finding(found.span, fact, _FIRST_HOST)


@rule("SG310", "warning")
def interface_excluded(script: Script) -> Iterator[Finding]:
    """GLOO_SOCKET_IFNAME excludes an interface with `^`, which only NCCL understands.

    ## What it checks
    Checks for `GLOO_SOCKET_IFNAME` with a value that starts with `^`.

    ## Why it matters
    `^lo` means "any interface but lo" in NCCL_SOCKET_IFNAME. Gloo takes it as the name of an interface, which
    does not exist, and fails when the first group with this backend is created.

    ## Example
        export GLOO_SOCKET_IFNAME=^lo

    ## Use instead
        export NCCL_SOCKET_IFNAME=^lo

    ## When to ignore
    If the job uses only NCCL.

    ## Reference
    https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use
    """
    for found in script.assigned("GLOO_SOCKET_IFNAME"):
        if found.value.startswith("^"):
            fact = f"Gloo looks for an interface named {found.value!r}"
            yield Finding(found.span, fact, "name the interface, or delete the line")
