"""TensorFlow on all GPUs of one node: one process, MirroredStrategy."""

import argparse

import tensorflow as tf


def strategy(replicas: int) -> tf.distribute.MirroredStrategy:
    """One replica for each GPU; without GPUs, `replicas` parts of the CPU, for a test."""
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])


def dataset(batch_size: int) -> tf.data.Dataset:
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""
    points = tf.random.stateless_normal([512, 16], seed=[0, 0])
    labels = tf.cast(tf.reduce_sum(points, axis=1) > 0, tf.int32)
    data = tf.data.Dataset.from_tensor_slices((points, labels)).shuffle(512, seed=0)
    return data.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16, help="of one GPU")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--cpu-replicas", type=int, default=2)
    args = parser.parse_args()

    tf.keras.utils.set_random_seed(0)
    mirrored = strategy(args.cpu_replicas)
    replicas = mirrored.num_replicas_in_sync
    with mirrored.scope():  # variables created here are copied to each GPU and kept equal
        model = tf.keras.Sequential(
            [tf.keras.Input((16,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(2)]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
    batch_size = args.batch_size * replicas  # the strategy splits each batch of the dataset
    history = model.fit(dataset(batch_size), epochs=args.epochs, verbose=0).history
    print(
        f"{replicas} replicas, global batch {batch_size}, accuracy {history['accuracy'][-1]:.4f}", flush=True
    )


if __name__ == "__main__":
    main()
