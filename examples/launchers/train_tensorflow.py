"""TensorFlow on all GPUs of a job: one process per node, which uses all of its GPUs."""

import json
import os

import tensorflow as tf


def strategy():
    """Over all nodes of TF_CONFIG; without it, over the GPUs of this one."""
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()  # waits until all workers are there
    return tf.distribute.MirroredStrategy()


def main():
    rank = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
    chosen = strategy()  # before any other use of TensorFlow

    @tf.function
    def step():
        replicas = tf.distribute.get_replica_context()
        return replicas.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([]))

    total = chosen.experimental_local_results(chosen.run(step))[0]
    print(f"rank {rank}: the sum over all {chosen.num_replicas_in_sync} replicas is {total:.0f}", flush=True)


if __name__ == "__main__":
    main()
