#!/bin/sh
# Submits one job exactly once. slurmgen sends this text along; nothing of it stays on the far side.
#
# Below PARENT:
#   snapshots/HASH        a project's content, named by its hash; never changed once it has that name
#   runs/NAME-KEY         the folder that one job runs in: a copy of a snapshot, and the batch script
#   submissions/NAME-KEY  what is known of that submission, kept for good:
#       intent.N          a link to `HOST PID SECONDS`: who is about to call sbatch for the Nth time
#       intent.N.over     there: it is certain that no job came of that
#       job               the job: its id, when, and the snapshot it runs
#       closed            there: Slurm refused it or close.sh gave it up, and no job will ever have this key
#       record.json       what a person may want to know of it
#   envs/HASH             a Python environment that runs of the same uv.lock share: their .venv is a link to it
#   staging               what is not whole yet, and
#       sent.HASH.BASE.N  what was sent, as it came: the tar, and N bytes of names that are gone from snapshots/BASE
#                         (`-` for none); a snapshot is made of it when the job is submitted: nobody waits for that
#       spare.HASH        a copy of a snapshot for the next run
#
# All these are the user's alone: if another user owns one or may write to it, nothing is done. See folders.sh.
#
# Standard input, as descriptor 3: the names that are gone from BASE (each ended by a NUL), and a tar of what is
# new, which ends with .slurmgen/complete.
# The answer on standard output: texts ended by NULs, the first of them "slurmgen answers".

# shellcheck disable=SC2317  # it does not follow a trap

set -u
umask 077

parent=$1 name=$2 key=$3 hash=$4 base=$5 gone_bytes=$6
script=$7 script_text=$8 record=$9
shift 9
log_dir=$1 log_prefix=$2 comment=$3 clusters=$4 sbatch_seconds=$5 grace=$6

# A holder of an intent that says nothing for longer than this is not there any more.
lifetime=$((sbatch_seconds + 60))

answer() {
  printf '\000%s\000' 'slurmgen answers'
  printf '%s\000' "$@"
  exit 0
}

failed() { # there is no job, and nothing was left half done
  answer failed "$1"
}

now() { date +%s; }

time_up() { # in seconds; not by the clock, which a person may set, nor by a process, which takes a millisecond
  { read -r up _ </proc/uptime; } 2>/dev/null || up=$(now)
  up=${up%%.*}
}

tidy() {
  for left in "staging/$mine" "staging/$mine".* "$records/"*".$mine"; do
    [ ! -e "$left" ] || rm -rf "$left"
  done
}

# --- which job has the key -----------------------------------------------------------------------------------

tell_job() { # tell_job EARLIER
  { read -r job && read -r seconds && read -r snapshot; } <"$records/job" || return 1
  answer submitted "$job" "$run" "$1" "$seconds" "$snapshot" "$exposed"
}

made() { # made EARLIER SECONDS SNAPSHOT: there is $job, whether or not that can be written down
  fresh=$1
  printf '%s\n%s\n%s\n' "$job" "$2" "$3" >"$records/job.$mine" && mv -f "$records/job.$mine" "$records/job"
  answer submitted "$job" "$run" "$1" "$2" "$3" "$exposed"
}

last_intent() { # its number; 0 if there is none
  number=0
  while [ -L "$records/intent.$((number + 1))" ]; do number=$((number + 1)); done
}

sbatch_runs() { # a child may outlive its holder; who cannot know waits
  command -v ps >/dev/null || return 0
  # shellcheck disable=SC2009  # pgrep does not show a command line with line feeds on one line
  ps -u "$(id -u)" -o args= | grep -F -- "$key" | grep -q 'sbatch --parsable'
}

holder_lives() {
  # shellcheck disable=SC2046  # three words
  set -- $(readlink "$records/intent.$number")
  began=$3
  [ "$(now)" -le "$((began + lifetime))" ] || return 1
  [ "$1" = "$host" ] || return 0
  kill -0 "$2" 2>/dev/null || sbatch_runs
}

slurm() { timeout -s KILL "$sbatch_seconds" "$@" 3<&- </dev/null; }

seen() { # the id in the line of `ID|...` that has the key; of several clusters, with `;CLUSTER`
  # Its comment is the job's own; the folder may also be that of a job which this one submitted.
  awk -v key="$key" -v own="slurmgen:$key" -v at="${clusters:+;$clusters}" '
    /^CLUSTER: / { at = ";" $2 }
    !index($0, key) || !match($0, /^[0-9]+/) { next }
    index($0, own) { first = substr($0, 1, RLENGTH) at; exit }
    !first { first = substr($0, 1, RLENGTH) at }
    END { if (first) print first }'
}

in_queue() { # squeue knows a job until MinJobAge after its end, as scontrol does
  listed=$(slurm squeue ${clusters:+"--clusters=$clusters"} --user="$(id -u)" --states=all --noheader \
    --format='%F|%k|%Z' 2>&1) || { said=$listed && return 2; }
  job=$(printf '%s\n' "$listed" | seen)
  [ -n "$job" ]
}

in_accounting() {
  listed=$(slurm sacct ${clusters:+"--clusters=$clusters"} --allocations --noheader --parsable2 \
    --starttime="$(date -d "@$((began - 86400))" +%Y-%m-%dT%H:%M:%S)" --format=JobID,Comment,WorkDir 2>&1) ||
    { said=$listed && return 2; }
  job=$(printf '%s\n' "$listed" | seen)
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

look() { # 0: the job is $job; 1: there is none; 2: nobody can say
  in_queue
  answered=$?
  [ "$answered" = 1 ] || return "$answered"
  in_log && return 0
  unlogged=$?
  in_accounting && return 0
  unaccounted=$?
  # The queue forgets a job that has ended. What has no log either did not run.
  [ "$(now)" -le "$((began + 60))" ] || [ "$unaccounted" = 1 ] || [ "$unlogged" = 1 ] || return 2
  return 1
}

find_job() { # as look; a controller may take a moment to show what it has accepted
  look
  looked=$?
  [ "$looked" = 1 ] || return "$looked"
  [ "$(now)" -le "$((began + lifetime))" ] || return 1
  sleep "$grace"
  look
}

resolve() { # returns once it is certain that the key has no job; $number is the last attempt's
  deadline=
  while :; do
    [ ! -e "$records/job" ] || tell_job earlier
    [ ! -e "$records/closed" ] || answer closed
    last_intent
    [ "$number" != 0 ] && [ ! -e "$records/intent.$number.over" ] || return 0
    holder_lives || break
    : "${deadline:=$(($(now) + lifetime))}"
    [ "$(now)" -le "$deadline" ] || answer unknown "another process on $host or elsewhere is submitting it"
    sleep 0.2
  done
  conclude
}

conclude() { # what came of the last attempt
  find_job
  case $? in
    0) made earlier "$began" "$(cat "$records/intent.$number.snapshot" 2>/dev/null)" ;;
    1) printf '' >"$records/intent.$number.over" || failed "cannot write in $records" ;;
    *) answer unknown "Slurm does not say whether it has the job: $said" ;;
  esac
}

# --- the snapshot --------------------------------------------------------------------------------------------

copy() { # copy FROM TO [-l]: fails if FROM is taken away meanwhile, by whoever prunes
  inode=$(ls -di "$1" 2>/dev/null) || return 1
  # A reflink shares the blocks where the file system can; a link is not to be had everywhere.
  said=$(cp -pPR "${3:---reflink=auto}" "$1" "$2" 2>&1) ||
    { [ $# = 3 ] && rm -rf "$2" && said=$(cp -pPR --reflink=auto "$1" "$2" 2>&1); } || return 1
  [ "$(ls -di "$1" 2>/dev/null)" = "$inode" ] || return 1
  touch "$2" # a copy has its original's time, and what is old in staging is taken for left behind
}

build() { # build HASH TO [-l]: the content of that hash, from a snapshot or from what will become one
  copy "snapshots/$1" "$2" ${3:+"$3"} && return
  for sent in "staging/sent.$1."*; do
    rm -rf "$2"
    if [ -d "$sent" ] && assemble "$@"; then return; fi
  done
  rm -rf "$2"
  copy "snapshots/$1" "$2" ${3:+"$3"} # it was made meanwhile
}

assemble() { # assemble HASH TO [-l]: from $sent; what fails once is discarded, and sent again
  bytes=${sent##*.} onto=${sent%.*} onto=${onto##*.}
  { if [ "$onto" = - ]; then mkdir "$2"; else copy "snapshots/$onto" "$2" ${3:+"$3"}; fi; } &&
    [ "$(wc -c <"$sent/gone")" -eq "$bytes" ] && remove_gone "$2" "$PWD/$sent/gone" &&
    unpack "$2" <"$sent/tar" && whole "$2" "$1" && return
  discard "$sent"
  return 1
}

snapshot_of() { # snapshot_of HASH: makes it, unless it is there already or somebody else is faster
  [ -d "snapshots/$1" ] || { build "$1" "staging/$mine.new" -l && mv -T "staging/$mine.new" "snapshots/$1"; }
  [ -d "snapshots/$1" ] || return 1
  for sent in "staging/sent.$1."*; do [ ! -d "$sent" ] || discard "$sent"; done
}

receive() { # what is sent, and BASE, become the run folder; what was sent is kept, for the snapshot
  coming=staging/$mine.sent
  mkdir "$coming" || failed "cannot make a folder in $PWD/staging"
  # The names come from standard input, so that they cannot be too many for a command line.
  { head -c "$gone_bytes" <&3 >"$coming/gone" && [ "$(wc -c <"$coming/gone")" -eq "$gone_bytes" ]; } ||
    failed "$PWD/$coming could not be written in full"
  begin_with_base
  said=$({ { tee "$coming/tar" <&3 || rm -f "$coming/gone"; } | unpack "staging/$mine"; } 2>&1)
  whole "staging/$mine" "$hash" || failed "${said:-the files came incomplete}"
  # Without its names the copy is not whole. Who sends the same at the same time may have been faster.
  [ ! -e "$coming/gone" ] || mv -T "$coming" "staging/sent.$hash.$base.$gone_bytes" 2>/dev/null
}

begin_with_base() {
  if [ "$base" = - ]; then
    mkdir "staging/$mine" || failed "cannot make a folder in $PWD/staging"
    return
  fi
  snapshot_of "$base" || lacking "$base" # what is sent never goes onto what is only sent itself
  mv -T "staging/spare.$base" "staging/$mine" 2>/dev/null || copy "snapshots/$base" "staging/$mine" || lacking "$base"
  touch "staging/$mine"
  remove_gone "staging/$mine" "$PWD/$coming/gone" || failed "cannot remove what is gone in $PWD/staging"
}

remove_gone() { (cd "$1" && xargs -0 rm -rf -- <"$2"); }

unpack() { # a tar that fails goes on to its end, where the mark is
  tar -x -o -p -f - -C "$1" || { rm -f "$1/.slurmgen/complete" && return 1; }
}

whole() { # whole FOLDER HASH: whether all came that was sent; takes away the mark that says so
  [ "$(cat "$1/.slurmgen/complete" 2>/dev/null)" = "$2" ] && rm -rf "$1/.slurmgen"
}

discard() { # first its name, so that nobody takes what is half removed
  mv -T "$1" "staging/$mine.old" 2>/dev/null && rm -rf "staging/$mine.old"
}

lacking() { # a snapshot could not be copied: it went away, or there is no room
  [ ! -d "snapshots/$1" ] || failed "$said"
  offer
}

offer() { # the snapshots that are here, or will be, the last used first
  # shellcheck disable=SC2046,SC2010,SC2012  # the names are hashes
  answer wanted $({ ls -t staging | sed -n 's/^sent[.]\([0-9a-f]*\)[.].*/\1/p' && ls -t snapshots; } | grep '^[0-9a-f]*$' | head -n 30)
}

finish() { # what nobody waits for
  touch -c "snapshots/$hash"
  sleep 0.5 # until the answer is there
  # shellcheck disable=SC2044  # our own names
  for old in $(find staging -mindepth 1 -maxdepth 1 -mmin +1440 2>/dev/null); do discard "$old"; done
  snapshot_of "$hash"
  # A project that is submitted again will be once more.
  if [ "$fresh" = new ] && [ "$base" != - ] && [ ! -d "staging/spare.$hash" ] &&
    copy "snapshots/$hash" "staging/$mine.spare"; then
    mv -T "staging/$mine.spare" "staging/spare.$hash"
  fi
  tidy
}

# --- the job -------------------------------------------------------------------------------------------------

add_script() { # and the folder for the log, which Slurm does not make
  at=staging/$mine/$script
  { [ ! -e "$at" ] && [ ! -L "$at" ]; } || rm -rf "$at" # the project's own, or a link to anywhere
  { printf '%s' "$script_text" >"$at" &&
    { [ "$log_dir" = ./. ] || (cd "staging/$mine" && mkdir -p "$log_dir"); }; } ||
    failed "cannot write in $PWD/staging"
}

intend() { # fails if somebody else is first
  time_up
  number=$((number + 1)) began=$(now) intended=$up
  [ -n "$began" ] || failed 'date does not tell the time'
  printf '%s\n' "$hash" >"$records/intent.$number.snapshot" || failed "cannot write in $records"
  ln -s "$host $$ $began" "$records/intent.$number" 2>/dev/null || {
    [ -L "$records/intent.$number" ] || failed "cannot write in $records"
    [ "$(readlink "$records/intent.$number")" = "$host $$ $began" ] # a file server may answer twice
  } || return 1
  timeout -s KILL 20 sync "$records" >/dev/null 2>&1 3<&- &
}

give_up() {
  printf '' >"$records/intent.$number.over"
  tidy
  failed "$1"
}

place() { # the run folder comes to its place; what an attempt without a job left there goes
  if [ -e "$run" ]; then mv -T "$run" "staging/$mine.old" || give_up "cannot replace $run"; fi
  mv -T "staging/$mine" "$run" || give_up "cannot make $run"
}

communicates() { # whether sbatch failed by not being heard or hearing nothing, rather than by a refusal
  grep -q -i -e 'timed out' -e 'unable to contact' -e 'connect' -e 'communication' -e 'zero bytes' -e 'receive' \
    -e 'endpoint' -e 'standby' -e 'temporar' "$records/sbatch.$number.err"
}

refused() {
  [ "$1" != 137 ] && ! communicates &&
    grep -q -e 'Batch job submission failed' -e 'error: ' -e 'nvalid' -e 'nrecognized' -e 'requires an argument' "$records/sbatch.$number.err"
}

unheard() { # sbatch does not know whether Slurm took the job
  words=$said said=
  find_job
  case $? in
    0) made new "$(now)" "$hash" ;;
    1) printf '' >"$records/intent.$number.over" && answer unheard "${words:-no answer within $sbatch_seconds seconds}" ;;
  esac
  answer unknown "sbatch: ${words:-no answer within $sbatch_seconds seconds}. $said"
}

is_job() { # whether that is ID or ID;CLUSTER
  case ${1%%;*} in '' | *[!0-9]*) return 1 ;; esac
  case ${1#"${1%%;*}"} in *[!A-Za-z0-9_.\;-]* | ';'*';'*) return 1 ;; esac
}

# The user may have variables of the same names as ours, and it is the user's that the job gets.
# shellcheck disable=SC2016  # bash expands that
as_started='own=()
while IFS= read -r -d "" one; do own+=("$one"); done <"/proc/$1/environ"
shift
exec ${own[0]+env -i -- "${own[@]}"} "$@"'

call_sbatch() {
  out=$records/sbatch.$number.out err=$records/sbatch.$number.err
  # Not `:`, at which a shell would end if it cannot write.
  { printf '' >"$out" && printf '' >"$err"; } || give_up "cannot write in $records"
  time_up # whoever was held up for so long may have been given up
  [ "$up" -le "$((intended + 30))" ] || give_up 'this machine is too busy'
  [ ! -e "$records/intent.$number.over" ] || give_up 'somebody else took it for given up'
  bash -p -c "$as_started" slurmgen "$$" \
    timeout -s KILL "$sbatch_seconds" sbatch --parsable "--comment=$comment" "--chdir=$run" "$run/$script" \
    >"$out" 2>"$err" 3<&- </dev/null
  status=$?
  job=
  while read -r line; do ! is_job "$line" || job=$line; done <"$out"
}

submit() {
  place
  wait # until the intent is on the disk
  call_sbatch
  if [ -z "$job" ]; then
    said=$(cat "$err")
    [ "$status" != 127 ] || give_up 'slurmgen finds no sbatch'
    # It does not know which cluster to ask.
    case $said in *'establish a configuration source'* | *'process configuration file'*) give_up "$said" ;; esac
    refused "$status" || unheard
    { printf '' >"$records/closed" && printf '' >"$records/intent.$number.over"; } || failed "$said"
    answer refused "$said"
  fi
  made new "$began" "$hash"
}

make() { # make FOLDER: for the user alone, whatever the folder above it grants to a group beyond the umask
  [ -d "$1" ] || { mkdir -p "$1" && { chmod 700 "$1" 2>/dev/null || :; }; } # a network share may refuse that
}

make_folders() {
  make "${parent%/*}/" && make "$parent" || return
  for folder in snapshots runs envs staging submissions "submissions/$name"; do
    make "$parent/$folder" || return
  done
}

leave() {
  tidy
  (finish) </dev/null >/dev/null 2>&1 3<&- &
}

enter() { # the folders of the project and of this submission
  { read -r host </proc/sys/kernel/hostname; } 2>/dev/null || host=$(uname -n)
  said='' fresh=''
  mine=$name.$host.$$
  said=$(make_folders 2>&1) || failed "cannot make folders in $parent: $said"
  cd "$parent" || failed "cannot enter $parent"
  said=$(refusal .. . snapshots runs envs staging submissions)
  [ -z "$said" ] || answer unsafe "$said"
  exposed=$(exposure "$(pwd -P)" "$PWD")
  run=$PWD/runs/$name records=$PWD/submissions/$name
  trap leave EXIT
  trap 'exit 1' HUP INT PIPE TERM
  tidy # what another of that number left
}

main() {
  enter
  resolve
  printf '%s' "$record" >"$records/record.json" || failed "cannot write in $records"
  set -- "staging/sent.$hash."*
  if [ -d "snapshots/$hash" ] || [ -d "$1" ]; then
    mv -T "staging/spare.$hash" "staging/$mine" 2>/dev/null || build "$hash" "staging/$mine" || lacking "$hash"
  else
    [ "$base" != '?' ] || offer
    receive
  fi
  add_script
  trap '' HUP INT PIPE TERM # from here on it must be known what became of it
  while ! intend; do resolve; done
  [ ! -e "$records/closed" ] || answer closed # by who held an intent before us
  submit
}

main "$@"
