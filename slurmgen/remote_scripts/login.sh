# shellcheck shell=sh disable=SC2154
# The lines of `before_login`, which run on the login node before the job is submitted: once for each $login.
#
# before_login/$login is made when they have succeeded; $login.log has their output. The processes of the lines hold
# the lock: if this program is killed, they go on, and the next submission waits for them.

run_login() {
  [ ! -e "before_login/$login" ] || return 0
  { make before_login && touch "before_login/$login.lock"; } || failed "cannot write in $PWD/before_login"
  { wait_for_login && { [ -e "before_login/$login" ] || call_login; } } 9>>"before_login/$login.lock"
  printf '\n' # if the connection was closed meanwhile, the program ends here: the user did not wait for a job
}

wait_for_login() { # until no other process runs these lines; some file systems have no locks
  flock -E 75 -w "$login_seconds" 9
  [ $? != 75 ] || reply stopped "still runs for another submission after $login_seconds seconds"
}

# shellcheck disable=SC2016  # sh expands that
mark_login='bash "$1" && printf "" >"$2"'

call_login() { # in a copy of the project: what the lines leave there is in no run, whichever ran them
  at=staging/$temp.login log=$PWD/before_login/$login.log
  copy_files "staging/$temp" "$at" || failed "$message"
  printf '%s' "$login_text" >"$at.sh" || failed "cannot write in $PWD/staging"
  began=$(date +%s)
  (cd "$at" && exec bash -p -c "$as_started" slurmgen "$$" "$(secret_names)" timeout -k 10 "$login_seconds" \
    sh -c "$mark_login" slurmgen "../$temp.login.sh" "../../before_login/$login") >"$log" 2>&1 3<&- </dev/null
  status=$?
  [ "$status" != 0 ] || return 0
  ended="ended with exit status $status"
  [ "$(($(date +%s) - began))" -lt "$login_seconds" ] || ended="did not end within $login_seconds seconds"
  reply stopped "$ended on $host
$log:
$(tail -n 10 "$log" | tail -c 600)"
}
