import os

from lightning.pytorch import Trainer

trainer = Trainer(devices=4, num_nodes=int(os.environ["SLURM_NNODES"]))
