# shellcheck shell=sh disable=SC2154,SC2034
# Gives up a submission: reports its job if it has one, and otherwise makes certain that it never gets one.
#
# It takes the arguments of submit.sh, and replies `submitted`, `closed`, `unknown` or `failed`, as that does.

enter tidy
resolve
trap '' HUP INT PIPE TERM
# Only the holder of an intent may call sbatch, and it looks for `closed` first.
while ! take_intent; do resolve; done
mark_closed || failed "cannot write in $records"
reply closed
