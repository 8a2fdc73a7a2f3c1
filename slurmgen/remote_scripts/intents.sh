# shellcheck shell=sh disable=SC2154,SC2034
# Intents: only the process that holds the last intent of a submission may call sbatch or close the key.

# The holder of an intent that is older than this has ended.
lifetime=$((sbatch_seconds + 60))

last_intent() { # sets $number; 0 if there is none
  number=0
  while [ -L "$records/intent.$((number + 1))" ]; do number=$((number + 1)); done
}

sbatch_runs() { # a child may outlive the holder; without ps, assume that it does
  command -v ps >/dev/null || return 0
  # shellcheck disable=SC2009  # pgrep does not show a command line with line feeds on one line
  ps -u "$(id -u)" -o args= | grep -F -- "$key" | grep -q 'sbatch --parsable'
}

holder_lives() { # sets $began
  # shellcheck disable=SC2046  # three words
  set -- $(readlink "$records/intent.$number")
  began=$3
  [ "$(now)" -le "$((began + lifetime))" ] || return 1
  [ "$1" = "$host" ] || return 0
  kill -0 "$2" 2>/dev/null || sbatch_runs
}

take_intent() { # takes the next intent; fails if another process is first
  time_up
  number=$((number + 1)) began=$(now) intended=$up
  [ -n "$began" ] || failed 'date does not print the time'
  printf '%s\n' "$hash" >"$records/intent.$number.snapshot" || failed "cannot write in $records"
  ln -s "$host $$ $began" "$records/intent.$number" 2>/dev/null || {
    [ -L "$records/intent.$number" ] || failed "cannot write in $records"
    [ "$(readlink "$records/intent.$number")" = "$host $$ $began" ] # a file server may reply twice
  } || return 1
  timeout -s KILL 20 sync "$records" >/dev/null 2>&1 3<&- &
}

mark_over() { # this attempt made no job, and never will; a later one may have its run folder already
  [ -e "$records/intent.$number.over" ] || rm -f -- "$run/$secrets"
  printf '' >"$records/intent.$number.over"
}

mark_closed() { # this key never gets a job
  printf '' >"$records/closed" && mark_over
}
