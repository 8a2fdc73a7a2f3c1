# shellcheck shell=sh
# What every program begins with. A program replies on standard output with texts ended by NULs, of which the first
# is "slurmgen answers". It runs on the login node, and no part of it stays there.

set -u
umask 077

reply() {
  printf '\000%s\000' 'slurmgen answers'
  printf '%s\000' "$@"
  exit 0
}
