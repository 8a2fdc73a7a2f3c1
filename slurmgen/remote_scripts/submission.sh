# shellcheck shell=sh disable=SC2034
# The arguments of submit.sh and close.sh, and the folders of a project and of one submission.
#
# Below PARENT, the folder of the project:
#   snapshots/HASH        the content of the project, named by its hash; never changed once it has that name
#   snapshots/HASH.read-only  the files of a snapshot that runs share: see sharing.sh
#   runs/NAME-KEY         the folder that one job runs in: a copy of a snapshot, and the batch script
#       .slurmgen/secrets  the job's secrets; the batch script reads and removes them
#   submissions/NAME-KEY  the records of one submission, kept for good:
#       intent.N          a link to `HOST PID SECONDS`: the process that calls sbatch for the Nth time
#       intent.N.over     exists: that attempt made no job, and never will
#       intent.N.snapshot  the hash of the snapshot that it submits
#       job               the job: its id, when it was submitted, and its snapshot
#       closed            exists: Slurm refused the job or close.sh gave it up, and this key never gets a job
#       shared            the files that the run shares with its snapshot
#       record.json       the entry of the ledger, for the user to read
#   envs/HASH             a Python environment that runs with the same uv.lock share: their .venv is a link to it
#   before_login/HASH     exists: these lines, as text of that hash, have run on a login node: see login.sh
#   staging               what is incomplete, and:
#       sent.HASH.BASE.N  what was sent: the tar, and N bytes of names that were removed since snapshots/BASE (`-` for
#                         none); a snapshot is made from it in the background, after the job is submitted
#       spare.HASH        a copy of a snapshot for the next run
#
# All of these belong to the user alone: see ownership.sh.

parent=$1 name=$2 key=$3 hash=$4 base=$5 gone_bytes=$6
script=$7 script_text=$8 record=$9
shift 9
log_dir=$1 log_prefix=$2 comment=$3 clusters=$4 sbatch_seconds=$5 grace=$6
login=${7-} login_text=${8-} login_seconds=${9-} dependency=${10-}
secret_bytes=${11-} sbatch_options=${12-} # one option a line

secrets=.slurmgen/secrets # below the run folder; plan/job_secrets.py has the same path

failed() { # there is no job, and nothing is left half done
  reply failed "$1"
}

now() { date +%s; }

time_up() { # sets $up, in seconds; the clock can be set, and a process takes a millisecond
  { read -r up _ </proc/uptime; } 2>/dev/null || up=$(now)
  up=${up%%.*}
}

tidy() {
  for left in "staging/$temp" "staging/$temp".* "$records/"*".$temp"; do
    [ ! -e "$left" ] || rm -rf "$left"
  done
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

enter() { # enter COMMAND: makes the folders, and runs COMMAND at the end of the program
  { read -r host </proc/sys/kernel/hostname; } 2>/dev/null || host=$(uname -n)
  message='' fresh=''
  temp=$name.$host.$$
  message=$(make_folders 2>&1) || failed "cannot make folders in $parent: $message"
  cd "$parent" || failed "cannot enter $parent"
  message=$(refusal .. . snapshots runs envs staging submissions before_login)
  [ -z "$message" ] || reply unsafe "$message"
  exposed=$(exposure "$(pwd -P)" "$PWD")
  run=$PWD/runs/$name records=$PWD/submissions/$name
  # shellcheck disable=SC2064  # the command is known now
  trap "$1" EXIT
  trap 'exit 1' HUP INT PIPE TERM
  tidy # an earlier process may have had the same number
}
