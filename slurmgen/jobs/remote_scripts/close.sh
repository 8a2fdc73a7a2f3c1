# Gives up a submission: its job if it has one, else makes certain that none comes. It follows submit.sh without its
# last line, takes the same arguments, and answers `submitted`, `closed`, `unknown` or `failed` as that does.
# shellcheck shell=sh disable=SC2154,SC2034  # the functions and variables of submit.sh

close() {
  enter
  trap tidy EXIT # nothing was sent of which a snapshot could be made
  resolve
  trap '' HUP INT PIPE TERM
  # Who holds the intent is the only one who may call sbatch, and looks for `closed` before.
  while ! intend; do resolve; done
  { printf '' >"$records/closed" && printf '' >"$records/intent.$number.over"; } ||
    failed "cannot write in $records"
  answer closed
}

close "$@"
