# shellcheck shell=sh disable=SC2154,SC2034,SC2317
# Submits one job exactly once. The functions are in the parts that are sent before it: see __init__.py.
#
# Standard input, as descriptor 3: the secrets of the job, as lines of bash; the names that were removed since BASE,
# each ended by a NUL; and a tar of what is new, which ends with .slurmgen/complete. submission.sh describes the
# folders, docs/reliability.md the states.

add_script() { # and the folder of the log, which Slurm does not make
  at=staging/$temp/$script
  { [ ! -e "$at" ] && [ ! -L "$at" ]; } || rm -rf "$at" # a file of the project, or a link out of it
  { printf '%s' "$script_text" >"$at" &&
    { [ "$log_dir" = ./. ] || (cd "staging/$temp" && mkdir -p "$log_dir"); }; } ||
    failed "cannot write in $PWD/staging"
}

receive_secrets() { # into a variable that no child process gets, and that ends with a line feed less
  unset slurmgen_secrets
  slurmgen_secrets=
  [ "${secret_bytes:-0}" = 0 ] || slurmgen_secrets=$(head -c "$secret_bytes" <&3)
  [ "$((${#slurmgen_secrets} + 1))" -ge "${secret_bytes:-0}" ] || failed 'the secrets of the job were not received'
}

add_secrets() { # only the user may read the file, before anything is in it, whatever the folder above it grants
  [ -n "$slurmgen_secrets" ] || return 0
  { make "$run/.slurmgen" && printf '' >"$run/$secrets"; } || give_up "cannot write $run/$secrets"
  chmod 600 "$run/$secrets" 2>/dev/null # a network share may refuse that
  printf '%s\n' "$slurmgen_secrets" >"$run/$secrets" || give_up "cannot write $run/$secrets"
}

place() { # moves the run folder to its place, which an attempt without a job may have taken
  if [ -e "$run" ]; then mv -T "$run" "staging/$temp.old" || give_up "cannot replace $run"; fi
  mv -T "staging/$temp" "$run" || give_up "cannot make $run"
}

submit() {
  place
  add_secrets
  wait # until the intent is on the disk
  call_sbatch
  [ -z "$job" ] || record_job new "$began" "$hash"
  message=$(cat "$err")
  [ "$status" != 127 ] || give_up 'sbatch was not found'
  # sbatch does not know which cluster to contact.
  case $message in *'establish a configuration source'* | *'process configuration file'*) give_up "$message" ;; esac
  refused "$status" || after_no_reply
  mark_closed || failed "$message"
  reply refused "$message"
}

finish() { # in the background, after the reply
  touch -c "snapshots/$hash"
  sleep 0.5 # until the reply is sent
  # shellcheck disable=SC2044  # our own names
  for old in $(find staging -mindepth 1 -maxdepth 1 -mmin +1440 2>/dev/null); do discard "$old"; done
  make_snapshot "$hash"
  [ "$fresh" != new ] || make_spare
  tidy
}

leave() {
  tidy
  (finish) </dev/null >/dev/null 2>&1 3<&- 9>&- & # nor the lock of login.sh
}

enter leave
resolve
printf '%s' "$record" >"$records/record.json" || failed "cannot write in $records"
receive_secrets
fetch_content
record_shared
add_script
[ -z "$login" ] || run_login
trap '' HUP INT PIPE TERM # from here on, the program must learn what sbatch did
while ! take_intent; do resolve; done
[ ! -e "$records/closed" ] || reply closed # by the process that held an intent before
submit
