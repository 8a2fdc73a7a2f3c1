# shellcheck shell=sh disable=SC2034,SC2154
# Lists what slurmgen keeps on the remote host, and removes what no job needs. submission.sh describes the folders.
#
# prune.sh FOLDER KEEP SECONDS   lists the projects in FOLDER
# prune.sh FOLDER PRUNE SECONDS  and removes ended runs and unneeded snapshots that were not used for so long, but no
#                                run with results that were never fetched
# prune.sh FOLDER ALL SECONDS    and removes those runs too
# prune.sh FOLDER TRY SECONDS    lists what PRUNE would remove
#
# Its reply: the error of squeue, then for each thing KIND PROJECT NAME KILOBYTES USED STATE DETAIL, USED in
# seconds since 1970. KIND is run, snapshot or env; STATE is kept, free, removed,
# removable, or unfetched: a run that only ALL removes.

folder=$1 task=$2 age=$3

row() { printf '%s\000' "$@"; }

used() { # when a snapshot or environment was last used: each use touches it
  date -r "$1" +%s
}

written() { # when a file of a run was last written; the run's own time shows neither files in folders nor a longer log
  find "$1" -printf '%T@\n' 2>/dev/null | sort -n | sed -n '$s/[.].*//p'
}

kilobytes() { du -sk "$1" 2>/dev/null | cut -f 1; }

clusters() { # those that jobs are recorded on; the default one is the empty line
  echo
  for record in "$folder"/*/submissions/*/job; do
    [ -f "$record" ] && sed -n '1s/^[0-9]*;//p' "$record"
  done | sort -u
}

jobs_in_queue() { # ID or ID;CLUSTER of every job that has not ended; fails if squeue does
  clusters | while read -r cluster; do
    listed=$(timeout -s KILL 60 squeue --all ${cluster:+"--clusters=$cluster"} --user="$(id -u)" --noheader \
      --format='%F' 3<&- </dev/null 2>&1) || { printf '%s\n' "$listed" && exit 1; }
    printf '%s\n' "$listed" | sed "s/\$/${cluster:+;$cluster}/"
  done
}

state_of_run() { # sets $state, free or kept, and the reason in $detail
  records=$1
  if [ -f "$records/job" ]; then
    job=$(sed -n 1p "$records/job")
    if [ -n "$complaint" ]; then
      state=kept detail="the state of job $job is unknown"
    elif printf '%s\n' "$queue" | grep -q -x -F -- "$job"; then
      state=kept detail="job $job has not ended"
    # The job may be newer than the reply of squeue.
    elif printf '%s\n' "$known" | grep -q -x -F -- "$records"; then
      state=free detail="job $job has ended"
    else
      state=kept detail="job $job is new"
    fi
  elif [ -e "$records/closed" ]; then
    state=free detail='Slurm refused it'
  else
    state=kept detail='whether it has a job is not known'
  fi
}

remove() { # renamed first, so that no other process copies from what is half removed
  mkdir -p staging && mv -T "$1" "staging/removed.$$" || return 1
  # Not the mode of files: another run may share them.
  find "staging/removed.$$" -type d -exec chmod u+rwx {} + && rm -rf "staging/removed.$$"
}

unfetched() { # whether a run has files that its job wrote, logs apart, since all were fetched, as fetch.py notes
  records=submissions/${1##*/} attempt=1
  while [ -L "$records/intent.$((attempt + 1))" ]; do attempt=$((attempt + 1)); done
  since=$records/intent.$attempt
  [ ! -e "$records/fetched" ] || since=$records/fetched
  [ -n "$(find "$1" -mindepth 1 \( -name '.*' -o -name __pycache__ -o -name '*.out' -o -name '*.err' \) -prune \
    -o -type f -newer "$since" -print -quit 2>/dev/null)" ]
}

settle() { # settle KIND PROJECT PATH: removes it if it may, and lists it
  if [ "$1" = run ]; then last=$(written "$3"); else last=$(used "$3"); fi
  size=$(kilobytes "$3")
  case $1$state$task$refused in runfreePRUNE | runfreeALL) rm -rf -- "$3/.slurmgen" ;; esac # the secrets of a job that has ended
  [ -z "$refused" ] || state=kept detail=$refused
  if [ "$state" = free ] && [ "$task" != KEEP ] && [ "$((last + age))" -le "$(date +%s)" ]; then
    if [ "$1$task" != runALL ] && [ "$1" = run ] && unfetched "$3"; then
      state=unfetched
    elif [ "$task" = TRY ]; then
      state=removable
    elif remove "$3"; then
      state=removed
      rm -f "$3.read-only" "submissions/${3##*/}/shared"
    else
      state=kept detail='it cannot be removed'
    fi
  fi
  row "$1" "$2" "${3##*/}" "$size" "$last" "$state" "$detail"
}

settle_runs() { # settle_runs PROJECT: sets $needed, the snapshots of the runs that stay
  needed='
'
  for run in runs/*; do
    [ -d "$run" ] || continue
    state_of_run "$PWD/submissions/${run##*/}"
    [ "$state" = free ] || needed="$needed$(cat "submissions/${run##*/}"/intent.*.snapshot 2>/dev/null)
"
    settle run "$1" "$run"
  done
}

clear_staging() { # the spare copies, and what was sent so long ago that no snapshot is being made from it
  # shellcheck disable=SC2044  # our own names
  for left in staging/spare.* $(find staging -maxdepth 1 -name 'sent.*' -mmin +60); do
    [ ! -d "$left" ] || remove "$left"
  done
}

settle_snapshots() {
  sent=$(ls -d staging/sent.* 2>/dev/null)
  for snapshot in snapshots/*; do
    [ -d "$snapshot" ] || continue
    state=free detail=
    case $sent in *"${snapshot##*/}"*) state=kept detail='a newer one is being made from it' ;; esac
    case $needed in *"${snapshot##*/}"*) state=kept detail='a run that stays needs it' ;; esac
    settle snapshot "$1" "$snapshot"
  done
}

settle_environments() {
  for env in envs/*; do
    [ -d "$env" ] || continue
    state=free detail=
    # A snapshot has the link too. If a submission is adding one now, its job makes the environment again.
    users=$(find runs snapshots -type l -name .venv -lname "*/$env" -print 2>/dev/null | head -n 1)
    [ -z "$users" ] || state=kept detail="${users%/.venv} uses it"
    settle env "$1" "$env"
  done
}

project() {
  cd "$1" || return
  refused=$(refusal .. . snapshots runs envs staging submissions before_login)
  settle_runs "${1##*/}"
  if [ "$task" = PRUNE ] || [ "$task" = ALL ] && [ -z "$refused" ]; then clear_staging; fi
  settle_snapshots "${1##*/}"
  settle_environments "${1##*/}"
}

printf '\000%s\000' 'slurmgen answers'
complaint='' queue='' known=''
cd "$folder" 2>/dev/null || { row '' && exit; }
folder=$PWD
known=$(for record in "$folder"/*/submissions/*/job; do printf '%s\n' "${record%/job}"; done)
queue=$(jobs_in_queue) || complaint=${queue:-squeue failed without a message}
for pause in 1 2; do # a controller that restarts may list nothing: removal needs three replies
  if [ "$task" = KEEP ] || [ -n "$complaint" ]; then break; fi
  sleep "$pause"
  again=$(jobs_in_queue) || complaint=${again:-squeue failed without a message}
  queue="$queue
$again"
done
row "$complaint"
for parent in "$folder"/*; do
  [ -d "$parent/snapshots" ] && (project "$parent")
done
