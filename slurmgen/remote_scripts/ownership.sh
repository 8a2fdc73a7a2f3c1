# shellcheck shell=sh disable=SC2034
# Which other users may write to the remote folder? A job runs what is in its folder, with the rights of its user.

user=$(id -u)

unfit() { # unfit FOLDER...: those that another user owns or may write to; with an ACL, the group's bits show the mask
  find -H "$@" -prune \( ! -user "$user" -o -perm -020 -o -perm -002 \) 2>/dev/null
}

shows_no_owners() ( # whether even a new private file looks unfit, as on a network share with permissions of its own
  probe=.slurmgen-probe.$$
  set -C
  # By its descriptor: a user who may write here could exchange the file.
  exec 4>"$probe" || exit 1
  chmod 600 /proc/self/fd/4
  bad=$(unfit /proc/self/fd/4)
  status=$?
  rm -f "$probe"
  [ "$status" = 0 ] && [ -n "$bad" ]
) 2>/dev/null

refusal() { # refusal ALL FOLDER...: why the folders of a project must not be used, if so; ALL holds all projects
  all=$1
  for folder; do
    shift
    [ "$folder" = "$all" ] || [ ! -e "$folder" ] || set -- "$@" "$folder"
  done
  bad=$(find -H "$all" -prune ! -user "$user" ! -user 0) || bad=$all # root may own it, as it owns /scratch
  [ -n "$bad" ] || [ $# = 0 ] || bad=$(unfit "$@") || bad=.
  bad=${bad%%
*}
  if [ -z "$bad" ] || shows_no_owners; then return; fi
  at=$(cd "$bad" 2>/dev/null && pwd) || at=$PWD/$bad
  if [ -O "$bad" ]; then
    printf '%s' "other users may write to $at"
  else
    printf '%s' "$at belongs to another user"
  fi
}

exposure() { # exposure PATH...: why another user could exchange PATH, and with it what jobs run; nothing if none could
  [ ! -d "$1" ] || [ -z "$(unfit "$1")" ] || { printf '%s' "the file system of $1 does not show who may write to it" && return; }
  for at; do
    shift
    while [ -n "$at" ]; do
      at=${at%/*}
      set -- "$@" "${at:-/}"
    done
  done
  bad=$(find -H "$@" -prune ! -perm -1000 \( -perm -020 -o -perm -002 \) 2>/dev/null | head -n 1)
  [ -z "$bad" ] || printf '%s' "other users may rename what is in $bad, and so exchange what your jobs run"
}
