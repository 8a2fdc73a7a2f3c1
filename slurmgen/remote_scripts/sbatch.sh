# shellcheck shell=sh disable=SC2154,SC2034
# Calling sbatch, and reading what it printed: a job, a refusal, or neither.

give_up() { # give_up MESSAGE: this attempt makes no job, and the next one may
  mark_over
  tidy
  failed "$1"
}

give_way() { # give_way MESSAGE: as give_up; slurmgen sends the key again by itself
  mark_over
  tidy
  reply late "$1"
}

# The user may have variables of the same names as ours, and the job gets the user's. Not by `env NAME=VALUE`: every user
# of the host can see arguments. Names that bash cannot set, such as BASH_FUNC_x%%, it passes on.
# shellcheck disable=SC2016  # bash expands that
as_started='set +p
export -n OLDPWD PWD SHLVL
{ while IFS= read -r -d "" slurmgen_entry; do
  case ${slurmgen_entry%%=*} in [0-9]* | *[!A-Za-z0-9_]*) ;; *) export "$slurmgen_entry" ;; esac
done <"/proc/$1/environ"; } 2>/dev/null
# shellcheck disable=SC2086  # names; Slurm keeps the environment of sbatch
unset -v $2
shift 2
exec "$@"'

secret_names() { printf '%s\n' "$slurmgen_secrets" | sed -n 's/^export \([A-Za-z0-9_]*\)=.*/\1/p'; }

is_job() { # whether that is ID or ID;CLUSTER
  case ${1%%;*} in '' | *[!0-9]*) return 1 ;; esac
  case ${1#"${1%%;*}"} in *[!A-Za-z0-9_.\;-]* | ';'*';'*) return 1 ;; esac
}

call_sbatch() { # sets $job, empty if sbatch printed none, and $status
  out=$records/sbatch.$number.out err=$records/sbatch.$number.err
  # Not `:`, at which a shell would end if it cannot write.
  { printf '' >"$out" && printf '' >"$err"; } || give_up "cannot write in $records"
  time_up # after a long delay, another process may have concluded that this attempt is over
  [ "$up" -le "$((intended + 30))" ] || give_way 'this machine is too busy'
  [ ! -e "$records/intent.$number.over" ] || give_way 'another process has given up this attempt'
  called=$(now)
  lines=$IFS && IFS='
' && set -f
  # shellcheck disable=SC2086  # one word for each line
  set -- $sbatch_options
  IFS=$lines && set +f
  bash -p -c "$as_started" slurmgen "$$" "$(secret_names)" \
    timeout -s KILL "$sbatch_seconds" sbatch --parsable "--comment=$comment" "--chdir=$run" \
    ${dependency:+"--dependency=$dependency"} ${dependency:+--kill-on-invalid-dep=yes} "$@" "$run/$script" \
    >"$out" 2>"$err" 3<&- </dev/null
  status=$?
  job=
  while read -r line; do ! is_job "$line" || job=$line; done <"$out"
}

no_connection() { # whether sbatch failed because it had no connection or no reply, and not by a refusal
  grep -q -i -e 'timed out' -e 'unable to contact' -e 'connect' -e 'communication' -e 'zero bytes' -e 'receive' \
    -e 'endpoint' -e 'standby' -e 'temporar' "$records/sbatch.$number.err"
}

refused() { # refused STATUS
  [ "$1" != 137 ] && ! no_connection &&
    grep -q -e 'Batch job submission failed' -e 'error: ' -e 'nvalid' -e 'nrecognized' -e 'requires an argument' "$records/sbatch.$number.err"
}

patience() { # a controller that did not reply for some seconds may take the job as many seconds later
  waited=$(($(now) - called))
  [ "$waited" -le 50 ] || waited=50 # so that the holder of the intent ends within its lifetime
  [ "$waited" -le "$grace" ] || grace=$waited
}

after_no_reply() { # sbatch does not know whether Slurm took the job
  patience
  error=${message:-no reply within $sbatch_seconds seconds} message=
  find_job
  case $? in
    0) record_job new "$(now)" "$hash" ;;
    1) mark_over && reply undelivered "$error" ;;
  esac
  reply unknown "sbatch: $error. $message"
}
