#!/bin/sh
# Submits a job for two nodes with two GPUs each over SSH to a real Slurm on this machine, configured like
# DAIC, and trains on four ranks. Your own settings and jobs are not used.
set -eu
cd "$(dirname "$0")"
PATH="$PWD/.venv/bin:$PATH"
work=$(mktemp -d)
export XDG_STATE_HOME="$work/state" XDG_CONFIG_HOME="$work/config"
trap 'slurmgen twin down --all >"$work/down" 2>&1 || cat "$work/down"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say slurmgen twin up --site daic --nodes 2 --ssh
slurmgen twin up --site daic --nodes 2 --ssh
export SLURMGEN_SSH_CONFIG="$XDG_STATE_HOME/slurmgen/twin/daic/ssh_config"

set -- --site daic --account demo --script training/train_ddp.py --gpus 4 --nodes 2 \
  --python-env "venv:$PWD/.venv" \
  -- --data synthetic --model cnn --limit 1024 --epochs 3 --batch-size 128

say slurmgen render "$@"
slurmgen render "$@"

say slurmgen submit --follow "$@"
slurmgen submit --follow --remote-dir "$work/remote" "$@"
