"""tensorflow: one process per node uses all of its GPUs; TF_CONFIG names the workers of several nodes.

On one node nothing is exported, for MirroredStrategy. The list of workers comes from scontrol, because
SlurmClusterResolver sorts nodes by letter (n10 before n9), so that a task gets the address of another
node; it has a fixed port, and overrides Slurm's choice of GPUs.
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
"""

from slurmgen.launchers.base import Launcher, Layout, several_nodes

_TF_CONFIG = '{"cluster": {"worker": [$TF_WORKERS]}, "task": {"type": "worker", "index": $SLURM_NODEID}}'


def _variables(layout: Layout) -> dict[str, str]:
    return {"TF_CONFIG": _TF_CONFIG} if several_nodes(layout) else {}


LAUNCHER = Launcher(
    name="tensorflow",
    shape="process-per-node",
    why="a strategy of TensorFlow uses all GPUs of a node in one process",
    meets=several_nodes,
    sets=("TF_CONFIG", "TF_WORKERS"),
    task_env=_variables,
    why_task_env="the workers of all nodes, and the index of this one",
    needs_workers=True,
)
