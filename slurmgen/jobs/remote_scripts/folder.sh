#!/bin/sh
# Looks whether submissions can be written, for `slurmgen doctor`. slurmgen sends this text along.
#
# folder.sh PARENT: the folder of the project, as for submit.sh; it and those above it may be missing
#
# The answer on standard output: texts ended by NULs: "slurmgen answers", why it cannot be used, what else the user
# should know, and the last line of df.

set -u
umask 077

answer() {
  printf '\000%s\000' 'slurmgen answers'
  printf '%s\000' "$@"
  exit 0
}

nearest() { # nearest FOLDER: the first that exists, going up
  at=$1
  while [ ! -d "$at" ]; do
    { [ ! -e "$at" ] && [ ! -L "$at" ]; } || answer "$at is no folder" '' ''
    at=$(dirname -- "$at")
  done
}

main() {
  nearest "$1"
  said=$(cd "$at" 2>&1) || answer "$said" '' ''
  cd "$at" || exit
  why=
  case $at in
    "$1") why=$(refusal .. . snapshots runs envs staging submissions) first=$(pwd -P) ;;
    "${1%/*}") why=$(refusal .) first=$(pwd -P)/new ;;
    *) first=$(pwd -P)/new ;;
  esac
  [ -z "$why" ] || answer "$why" '' ''
  # Written for real: neither a quota nor a read-only mount shows in the folder's mode.
  new=$(mktemp -d "$PWD/.slurmgen-doctor.XXXXXX" 2>&1) || answer "$new" '' ''
  said=$(head -c 65536 /dev/zero 2>&1 >"$new/room") || why=${said:-"there is no room"}
  rm -rf -- "$new"
  answer "$why" "$(exposure "$first" "$PWD/new")" "$(df -Pk . | tail -n 1)"
}

main "$@"
