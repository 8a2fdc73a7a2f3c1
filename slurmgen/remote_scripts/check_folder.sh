# shellcheck shell=sh disable=SC2034,SC2154
# Checks whether submissions can be written, for `slurmgen doctor`.
#
# check_folder.sh PARENT: the folder of the project, as for submit.sh; it and those above it may be missing
#
# Its reply: why the folder cannot be used, what else the user should know, and the last line of df.

nearest() { # nearest FOLDER: sets $at to the first that exists, going up
  at=$1
  while [ ! -d "$at" ]; do
    { [ ! -e "$at" ] && [ ! -L "$at" ]; } || reply "$at is not a folder" '' ''
    at=$(dirname -- "$at")
  done
}

nearest "$1"
message=$(cd "$at" 2>&1) || reply "$message" '' ''
cd "$at" || exit
why=
case $at in
  "$1") why=$(refusal .. . snapshots runs envs staging submissions before_login) first=$(pwd -P) ;;
  "${1%/*}") why=$(refusal .) first=$(pwd -P)/new ;;
  *) first=$(pwd -P)/new ;;
esac
[ -z "$why" ] || reply "$why" '' ''
# A real file: the mode of the folder shows neither a quota nor a read-only mount.
new=$(mktemp -d "$PWD/.slurmgen-doctor.XXXXXX" 2>&1) || reply "$new" '' ''
message=$(head -c 65536 /dev/zero 2>&1 >"$new/test") || why=${message:-"there is no space left"}
rm -rf -- "$new"
reply "$why" "$(exposure "$first" "$PWD/new")" "$(df -Pk . | tail -n 1)"
