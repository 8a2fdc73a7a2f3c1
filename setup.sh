#!/bin/sh
# Installs what the demo needs on a fresh Debian: packages, uv, and a virtual environment.
# `setup.sh tests` also installs the packages that only the tests need, such as container engines and shells.
set -eu

need() { # need COMMAND PACKAGE: remember the package if the command is missing
  PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "error: python3 is $(python3 --version). Install Python 3.11 or later." >&2
  exit 2
}

missing=
need slurmctld slurm-wlm
need munged munge
need slurmdbd slurmdbd
need mariadbd mariadb-server
need sshd openssh-server
need ssh openssh-client
need ps procps
if [ "${1:-}" = tests ]; then
  need shellcheck shellcheck
  need groff groff-base
  need fish fish
  need tcsh tcsh
  need zsh zsh
  need strace strace
  need chromium chromium
  need podman podman
  need crun crun
  need ch-run charliecloud-runtime
  need ch-image charliecloud-builders
  need c++ g++
  [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
    missing="$missing python3-dev" # torch.compile on CPUs
fi
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"

if [ -n "$missing" ]; then
  install="apt-get install --yes --no-install-recommends$missing"
  if [ "$(id -u)" = 0 ]; then
    as_root() { "$@"; }
  elif sudo -n true 2>/dev/null; then
    as_root() { sudo "$@"; }
  else
    echo "error: missing Debian packages. As root: $install" >&2
    exit 2
  fi
  as_root apt-get update --quiet
  # shellcheck disable=SC2086  # words of a command
  as_root env DEBIAN_FRONTEND=noninteractive $install
fi

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
.venv/bin/uv pip sync --quiet --require-hashes requirements/dev.txt
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
