# shellcheck shell=sh disable=SC2154
# Asks Slurm when scripts would start, and which nodes are free; nothing is submitted.
#
# Arguments: the seconds that each command may take, the format of sinfo, and the size of each script. Standard
# input, as descriptor 3: the scripts. The reply: the time, its zone, the nodes, the partitions of pending jobs, and
# for each script the exit status and the output of sbatch.

seconds=$1 format=$2
shift 2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

limited() { timeout -s KILL "$seconds" "$@" 3<&- </dev/null 2>/dev/null; }

limited sinfo --all --Node --noheader "--Format=$format" >"$folder/nodes" &
limited squeue --all --noheader --states=PENDING '--format=%P' >"$folder/pending" &
count=0
for size do
  count=$((count + 1))
  head -c "$size" <&3 >"$folder/script.$count" || exit 1
  {
    timeout -s KILL "$seconds" sbatch --test-only <"$folder/script.$count" >"$folder/reply.$count" 2>&1 3<&-
    echo "$?" >"$folder/status.$count"
  } &
done
wait
replies=0
set -- "$(date +%s)" "$(date +%z)" "$(cat "$folder/nodes")" "$(sort "$folder/pending" | uniq -c)"
while [ "$replies" -lt "$count" ]; do
  replies=$((replies + 1))
  set -- "$@" "$(cat "$folder/status.$replies")" "$(cat "$folder/reply.$replies")"
done
rm -rf "$folder"
reply "$@"
