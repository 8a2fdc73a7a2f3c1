# shellcheck shell=sh disable=SC2154,SC2034
# Lookup: which job has the key of this submission, by its record, by squeue, by the name of its log, or by sacct.

report_job() { # report_job EARLIER: replies with the recorded job
  { read -r job && read -r seconds && read -r snapshot; } <"$records/job" || return 1
  reply submitted "$job" "$run" "$1" "$seconds" "$snapshot" "$exposed"
}

record_job() { # record_job EARLIER SECONDS SNAPSHOT: the job is $job, even if it cannot be recorded
  fresh=$1
  printf '%s\n%s\n%s\n' "$job" "$2" "$3" >"$records/job.$temp" && mv -f "$records/job.$temp" "$records/job"
  reply submitted "$job" "$run" "$1" "$2" "$3" "$exposed"
}

slurm() { timeout -s KILL "$sbatch_seconds" "$@" 3<&- </dev/null; }

job_in_list() { # prints the id of the line `ID|...` that has the key; with several clusters, `ID;CLUSTER`
  # The comment belongs to the job itself; the folder may also be that of a job which this one submitted.
  awk -v key="$key" -v own="slurmgen:$key" -v at="${clusters:+;$clusters}" '
    /^CLUSTER: / { at = ";" $2 }
    !index($0, key) || !match($0, /^[0-9]+/) { next }
    index($0, own) { first = substr($0, 1, RLENGTH) at; exit }
    !first { first = substr($0, 1, RLENGTH) at }
    END { if (first) print first }'
}

in_queue() { # squeue knows a job until MinJobAge after its end, as scontrol does
  listed=$(slurm squeue --all ${clusters:+"--clusters=$clusters"} --user="$(id -u)" --states=all --noheader \
    --format='%F|%k|%Z' 2>&1) || { message=$listed && return 2; }
  job=$(printf '%s\n' "$listed" | job_in_list)
  [ -n "$job" ]
}

in_accounting() {
  listed=$(slurm sacct ${clusters:+"--clusters=$clusters"} --allocations --noheader --parsable2 \
    --starttime="$(date -d "@$((began - 86400))" +%Y-%m-%dT%H:%M:%S)" --format=JobID,Comment,WorkDir 2>&1) ||
    { message=$listed && return 2; }
  job=$(printf '%s\n' "$listed" | job_in_list)
  [ -n "$job" ]
}

in_log() { # the name of a log that appeared after the intent holds the id
  [ -n "$log_prefix" ] || return 2
  for log in "$run/$log_prefix"[0-9]*; do
    job=${log#"$run/$log_prefix"} job=${job%%[!0-9]*}
    [ -z "$(find "$log" -newer "$records/intent.$number" 2>/dev/null)" ] || return 0
  done
  return 1
}

look_up() { # 0: the job is $job; 1: there is none; 2: unknown
  in_queue
  queued=$?
  [ "$queued" = 1 ] || return "$queued"
  in_log && return 0
  logged=$?
  in_accounting && return 0
  accounted=$?
  # squeue forgets a job that has ended. A job without a log did not run.
  [ "$(now)" -le "$((began + 60))" ] || [ "$accounted" = 1 ] || [ "$logged" = 1 ] || return 2
  return 1
}

find_job() { # as look_up, with two replies: a controller may take a moment to show a job, and list nothing as it starts
  look_up
  looked=$?
  [ "$looked" = 1 ] || return "$looked"
  sleep "$grace"
  look_up
}

resolve() { # returns once it is certain that the key has no job; $number is the last attempt's
  deadline=
  while :; do
    [ ! -e "$records/job" ] || report_job earlier
    [ ! -e "$records/closed" ] || reply closed
    last_intent
    [ "$number" != 0 ] && [ ! -e "$records/intent.$number.over" ] || return 0
    holder_lives || break
    : "${deadline:=$(($(now) + lifetime))}"
    [ "$(now)" -le "$deadline" ] || reply unknown "another process, on $host or elsewhere, is submitting it"
    sleep 0.2
  done
  conclude
}

conclude() { # the holder of the last intent has ended: what did its sbatch do?
  find_job
  case $? in
    0) record_job earlier "$began" "$(cat "$records/intent.$number.snapshot" 2>/dev/null)" ;;
    1) mark_over || failed "cannot write in $records" ;;
    *) reply unknown "Slurm does not report whether it has the job: $message" ;;
  esac
}
