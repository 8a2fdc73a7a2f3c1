#!/bin/sh
# Lists what slurmgen keeps on the far side, and removes what no job needs. slurmgen sends this text along.
#
# snapshots.sh FOLDER KEEP SECONDS   lists the projects in FOLDER
# snapshots.sh FOLDER PRUNE SECONDS  and removes ended runs and unneeded snapshots not used for so long
#
# The answer on standard output: texts ended by NULs, the first of them "slurmgen answers", the second what
# Slurm complained of; then for each thing KIND PROJECT NAME KILOBYTES USED STATE DETAIL, USED in seconds
# since 1970. KIND is run, snapshot or env; STATE is kept, free or removed. See submit.sh for the folders.

set -u
umask 077

folder=$1 task=$2 age=$3

row() { printf '%s\000' "$@"; }

used() { # when a snapshot or environment was: whoever uses one touches it
  date -r "$1" +%s
}

written() { # when anything in a run was; its own time does not tell of files in folders, nor of a log that grows
  find "$1" -printf '%T@\n' 2>/dev/null | sort -n | sed -n '$s/[.].*//p'
}

kilobytes() { du -sk "$1" 2>/dev/null | cut -f 1; }

clusters() { # those that jobs are recorded on; the default one is the empty line
  echo
  for record in "$folder"/*/submissions/*/job; do
    [ -f "$record" ] && sed -n '1s/^[0-9]*;//p' "$record"
  done | sort -u
}

jobs_in_queue() { # ID or ID;CLUSTER, of every job that has not ended; fails if Slurm does not say so
  clusters | while read -r cluster; do
    listed=$(timeout -s KILL 60 squeue ${cluster:+"--clusters=$cluster"} --user="$(id -u)" --noheader \
      --format='%F' 3<&- </dev/null 2>&1) || { printf '%s\n' "$listed" && exit 1; }
    printf '%s\n' "$listed" | sed "s/\$/${cluster:+;$cluster}/"
  done
}

state_of_run() { # whether a run is done with, and the job or why not
  records=$1
  if [ -f "$records/job" ]; then
    job=$(sed -n 1p "$records/job")
    if [ -n "$complaint" ]; then
      state=kept detail="job $job, of which Slurm says nothing"
    elif printf '%s\n' "$queue" | grep -q -x -F -- "$job"; then
      state=kept detail="job $job has not ended"
    # The job may be newer than the list of Slurm's.
    elif printf '%s\n' "$known" | grep -q -x -F -- "$records"; then
      state=free detail="job $job has ended"
    else
      state=kept detail="job $job is new"
    fi
  elif [ -e "$records/closed" ]; then
    state=free detail='Slurm refused it'
  else
    state=kept detail='what became of it is not known'
  fi
}

remove() { # the name goes at one stroke, so that nobody copies from what is half removed
  mkdir -p staging && mv -T "$1" "staging/removed.$$" || return 1
  chmod -R u+rwX "staging/removed.$$" && rm -rf "staging/removed.$$"
}

settle() { # settle KIND PROJECT PATH: one thing, and what becomes of it
  if [ "$1" = run ]; then last=$(written "$3"); else last=$(used "$3"); fi
  size=$(kilobytes "$3")
  [ -z "$refused" ] || state=kept detail=$refused
  if [ "$state" = free ] && [ "$task" = PRUNE ] && [ "$((last + age))" -le "$(date +%s)" ]; then
    if remove "$3"; then state=removed; else state=kept detail='it cannot be removed'; fi
  fi
  row "$1" "$2" "${3##*/}" "$size" "$last" "$state" "$detail"
}

project() {
  cd "$1" || return
  refused=$(refusal .. . snapshots runs envs staging submissions)
  needed='
'
  for run in runs/*; do
    [ -d "$run" ] || continue
    state_of_run "$PWD/submissions/${run##*/}"
    [ "$state" = free ] || needed="$needed$(cat "submissions/${run##*/}"/intent.*.snapshot 2>/dev/null)
"
    settle run "${1##*/}" "$run"
  done
  if [ "$task" = PRUNE ] && [ -z "$refused" ]; then
    # Of what was sent so long ago no snapshot is being made any more.
    # shellcheck disable=SC2044  # our own names
    for spare in staging/spare.* $(find staging -maxdepth 1 -name 'sent.*' -mmin +60); do
      [ ! -d "$spare" ] || remove "$spare"
    done
  fi
  onto=$(ls -d staging/sent.* 2>/dev/null)
  for snapshot in snapshots/*; do
    [ -d "$snapshot" ] || continue
    state=free detail=
    case $onto in *"${snapshot##*/}"*) state=kept detail='another one is being made from it' ;; esac
    case $needed in *"${snapshot##*/}"*) state=kept detail='a run that stays has it' ;; esac
    settle snapshot "${1##*/}" "$snapshot"
  done
  for env in envs/*; do
    [ -d "$env" ] || continue
    state=free detail=
    # A snapshot has the link too. If one is just coming, its job makes the environment anew.
    users=$(find runs snapshots -type l -name .venv -lname "*/$env" -print 2>/dev/null | head -n 1)
    [ -z "$users" ] || state=kept detail="${users%/.venv} has it"
    settle env "${1##*/}" "$env"
  done
}

main() {
  printf '\000%s\000' 'slurmgen answers'
  complaint='' queue='' known=''
  cd "$folder" 2>/dev/null || { row '' && return; }
  folder=$PWD
  known=$(for record in "$folder"/*/submissions/*/job; do printf '%s\n' "${record%/job}"; done)
  queue=$(jobs_in_queue) || complaint=${queue:-squeue says nothing}
  row "$complaint"
  for one in "$folder"/*; do
    [ -d "$one/snapshots" ] && (project "$one")
  done
}

main "$@"
