#!/bin/sh
# Everything that is to be measured on one GPU, in under ten minutes and without a network: `benchmarks/gpu.sh [FOLDER]`.
# It uses the torch, torchvision, lightning and accelerate that are installed. `--cpu`: the same code with tiny sizes.
# FOLDER (default: build/gpu) gets a log of each run, summary.json and summary.md.
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu.py" "$@"
