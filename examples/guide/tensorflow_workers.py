"""TensorFlow on all GPUs of a Slurm step: one process for each GPU, MultiWorkerMirroredStrategy."""

import argparse
import json
import os
import re

# `fit` of Keras 3 fails with this strategy (keras issue 20585). The package tf_keras is Keras 2.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf


def hosts(nodelist: str) -> list[str]:
    """The nodes of `n[08-10],gpu1`, in Slurm's order."""
    names = []
    for prefix, ranges in re.findall(r"([^,\[\]]+)(?:\[([^\]]+)\])?", nodelist):
        for part in ranges.split(",") if ranges else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1) if part else [""]
            names += [f"{prefix}{str(number).zfill(len(first))}" for number in numbers]
    return names


def tf_config() -> dict:
    """The address of each worker, and which of them this task is. SLURM_PROCID counts node by node."""
    per_node, port = int(os.environ["SLURM_NTASKS_PER_NODE"]), int(os.environ["MASTER_PORT"])
    nodes = hosts(os.environ["SLURM_STEP_NODELIST"])
    workers = [f"{node}:{port + local}" for node in nodes for local in range(per_node)]
    return {
        "cluster": {"worker": workers},
        "task": {"type": "worker", "index": int(os.environ["SLURM_PROCID"])},
    }


def dataset(batch_size: int) -> tf.data.Dataset:
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""
    points = tf.random.stateless_normal([512, 16], seed=[0, 0])
    labels = tf.cast(tf.reduce_sum(points, axis=1) > 0, tf.int32)
    data = tf.data.Dataset.from_tensor_slices((points, labels)).batch(batch_size, drop_remainder=True)
    options = (
        tf.data.Options()
    )  # AUTO would try to split a list of files; here each worker takes its share of samples
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16, help="of one GPU")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    os.environ["TF_CONFIG"] = json.dumps(tf_config())  # before the strategy
    if gpus := tf.config.list_physical_devices("GPU"):  # each task sees all GPUs of its node and takes one
        tf.config.set_visible_devices(gpus[int(os.environ["SLURM_LOCALID"])], "GPU")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # waits until all workers are there
    tf.keras.utils.set_random_seed(0)
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(64, "relu", input_shape=(16,)), tf.keras.layers.Dense(2)]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
    batch_size = args.batch_size * strategy.num_replicas_in_sync
    history = model.fit(dataset(batch_size), epochs=args.epochs, verbose=0).history
    rank, world_size = os.environ["SLURM_PROCID"], strategy.num_replicas_in_sync
    print(
        f"rank {rank} of {world_size}: global batch {batch_size}, accuracy {history['accuracy'][-1]:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
