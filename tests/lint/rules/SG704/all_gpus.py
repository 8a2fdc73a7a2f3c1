import deepspeed
import jax

deepspeed.initialize()
jax.distributed.initialize(local_device_ids=range(4))
