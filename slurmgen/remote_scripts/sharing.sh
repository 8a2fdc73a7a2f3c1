# shellcheck shell=sh disable=SC2154,SC2034
# Sharing: which files of a snapshot its runs share, so that a large project is on the disk once.
#
# A job may write to the files in its folder, and neither the snapshot nor another run may change by that. So:
# - Where the file system can, each copy is a reflink, which shares blocks until one side is written to.
# - Elsewhere a run gets hard links to the files to which the user has no right to write, and copies of the others.
# A job could still give itself that right (chmod). snapshots/HASH.read-only lists those files, if any, with the inode
# and the time of each: if that has changed, the snapshot is discarded, and the project is sent again.

is_large() { # is_large FOLDER BYTES TEST...: whether its files that pass these tests of find take 8 MiB more than BYTES each
  allowed=$2
  (cd "$1" && shift 2 && find . -type f "$@" -printf '%s\n') 2>/dev/null |
    awk -v allowed="$allowed" '{ sum += $1 - allowed } END { exit sum <= 8 * 1024 * 1024 }'
}

clones() { # clones FILE: whether the file system of staging can make reflinks
  cp --reflink=always "$1" "staging/$temp.clone" 2>/dev/null
  cloned=$?
  rm -f "staging/$temp.clone"
  return "$cloned"
}

can_share() { # whether a copy of staging/$temp shares with it much of what was sent
  [ "$(wc -c <"$incoming/tar")" -gt 8388608 ] && { clones "$incoming/tar" || is_large "staging/$temp" 0 ! -writable; }
}

link_all() { message=$(cp -pPRl "$1" "$2" 2>&1); }

copy_writable() { # copy_writable FROM TO: replaces the links in TO to files that a job can write to
  message=$(cd "$1" && find . -type f -writable -print0 2>&1 |
    xargs -0 -r cp -pP --parents --remove-destination --reflink=auto -t "$2" 2>&1)
}

read_only_files() { # read_only_files FOLDER [TEST...]: NAME INODE TIME of each file to which the user cannot write
  (cd "$1" && shift && find . -type f ! -writable "$@" -printf '%p %i %T@\0' | LC_ALL=C sort -z)
}

is_intact() { # is_intact HASH: whether the read-only files of a snapshot are what they were when runs first shared them
  if [ -s "snapshots/$1.read-only" ]; then
    read_only_files "snapshots/$1" 2>/dev/null | cmp -s - "snapshots/$1.read-only" && return
    message="a job changed read-only files of $PWD/snapshots/$1"
    for changed in "snapshots/$1" "staging/spare.$1"; do discard "$changed"; done
    rm -f "snapshots/$1.read-only"
    return 1
  fi
  [ ! -e "snapshots/$1.read-only" ] || return 0 # it has none
  message=$({ read_only_files "snapshots/$1" >"staging/$temp.list" &&
    mv -f "staging/$temp.list" "snapshots/$1.read-only"; } 2>&1)
}

record_shared() { # for `slurmgen fetch`: the files that a run shares are not results
  [ -n "$(find snapshots -maxdepth 1 -name '*.read-only' -size +0 -print -quit)" ] || return 0
  message=$({ read_only_files "staging/$temp" -links +1 >"$records/shared"; } 2>&1) ||
    failed "cannot write in $records: $message"
}
