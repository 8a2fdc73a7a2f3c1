"""ray: one task per node starts Ray; that of the first node also runs the program, and the job ends with it.

`ray symmetric-run` does the same from Ray 2.49 on, but exits with 0 if the head does not start, refuses a
node on which another job runs Ray, and ends with `ray stop`, which also stops Ray in the user's other jobs on
the node.
https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html
"""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, always

_THREADS = "Ray sets OMP_NUM_THREADS, where it is unset, to the CPUs of each of its tasks."
"""https://docs.ray.io/en/latest/ray-core/configure.html"""
# A sweep may indent these lines, so that the program of Python is one line.
_START = '''\
# The first task starts the head and the program; the others join until the head has ended.
folder="$(mktemp -d /tmp/ray-XXXXXX)"  # short: the path of a socket has at most 107 bytes
stop() {{  # a reaper of Ray ends its other processes
  {{ kill -KILL $!; wait $!; }} 2> /dev/null; sleep 2; rm -rf "$folder"
}}
trap stop EXIT
is_up() {{ (: > "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null; }}
is_running() {{ kill -0 $! || {{ cat "$folder/start.log"; exit 1; }} >&2; }}
# {threads}
start() {{
  exec ray start --block --temp-dir="$folder" --disable-usage-stats \\
    --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus={gpus} "$@" > "$folder/start.log" 2>&1
}}
if [[ "$SLURM_NODEID" -gt 0 ]]; then
  trap "exit 0" TERM  # the status of the job is that of the program
  until is_up; do sleep 1; done
  start --address="$MASTER_ADDR:$MASTER_PORT" &
  while is_up; do is_running; sleep 1; done
  exit 0
fi
start --head --node-ip-address="$MASTER_ADDR" --port="$MASTER_PORT" --include-dashboard=false &
until is_up; do is_running; sleep 1; done
export RAY_ADDRESS="$MASTER_ADDR:$MASTER_PORT"
python -c "import ray, time; ray.init(logging_level=40); \\
  [time.sleep(1) for _ in iter(lambda: len(ray.nodes()) < {nodes}, False)]" || exit
"$@"'''
_TOKEN = (
    "# Only processes of this job may join its Ray, which checks this token from 2.52 on.",
    "read -r RAY_AUTH_TOKEN < /proc/sys/kernel/random/uuid",
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN",
)


def command(layout: Layout, _options: Options) -> Command:
    """`python SCRIPT` on the first node, after `ray start` on every node."""
    script = _START.format(gpus=layout.gpus_per_node, nodes=layout.nodes, threads=_THREADS)
    return Command(("python",), expands_in_task=True, script=script)


LAUNCHER = Launcher(
    name="ray",
    shape="process-per-node",
    why="Ray starts its own workers on each node",
    command=command,
    labels=None,
    meets=always,
    sets=("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"),
    before=_TOKEN,
    exports=("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"),
    threads=_THREADS,
    why_not_term="the signal would end the shell that starts Ray and the program",
)
