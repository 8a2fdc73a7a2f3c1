#!/bin/sh
# A twin's stand-in for nvidia-smi: no GPU is here, so it invents one line for each GPU of the step.
# It is called twin-nvidia-smi, so that nothing but slurmgen's `top` takes it for a program of GPUs.

IFS=,
for index in $SLURM_STEP_GPUS; do
  # The fields of --query-gpu in slurmgen/live/gpus.py.
  echo "$index, stand-in of a twin, 50, 1024, 81920, 100.00, 400.00"
done
