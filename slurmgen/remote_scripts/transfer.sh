# shellcheck shell=sh disable=SC2154,SC2034
# Transfer: from what slurmgen sends on descriptor 3, and from snapshots, to the content of a run folder.

fetch_content() { # the content of the project, in staging/$temp
  set -- "staging/sent.$hash."*
  if [ -d "snapshots/$hash" ] || [ -d "$1" ]; then
    take "$hash" "staging/$temp" || report_missing "$hash"
  else
    [ "$base" != '?' ] || offer
    receive
  fi
}

receive() { # what is sent is unpacked onto BASE, and is kept until a snapshot is made from it
  incoming=staging/$temp.sent
  mkdir "$incoming" || failed "cannot make a folder in $PWD/staging"
  # The names come from standard input: there can be too many for a command line.
  { head -c "$gone_bytes" <&3 >"$incoming/gone" && [ "$(wc -c <"$incoming/gone")" -eq "$gone_bytes" ]; } ||
    failed "$PWD/$incoming could not be written in full"
  begin_with_base
  message=$({ { tee "$incoming/tar" <&3 || rm -f "$incoming/gone"; } | unpack "staging/$temp"; } 2>&1)
  is_complete "staging/$temp" "$hash" || failed "${message:-not all files were received}"
  if can_share; then share_received; fi
  # Without its names the copy is incomplete. Another process may have sent the same, and be faster.
  [ ! -e "$incoming/gone" ] || mv -T "$incoming" "staging/sent.$hash.$base.$gone_bytes" 2>/dev/null
}

share_received() { # what was received is the snapshot, unless another process is faster, and the run is a copy of it
  name_snapshot "staging/$temp" "$hash" || return
  rm -rf "$incoming"
  build "$hash" "staging/$temp" || report_missing "$hash"
}

begin_with_base() {
  if [ "$base" = - ]; then
    mkdir "staging/$temp" || failed "cannot make a folder in $PWD/staging"
    return
  fi
  make_snapshot "$base" || report_missing "$base" # what is sent is never based on what was only sent itself
  take "$base" "staging/$temp" || report_missing "$base"
  touch "staging/$temp"
  remove_gone "staging/$temp" "$PWD/$incoming/gone" || failed "cannot remove files in $PWD/staging"
}

report_missing() { # report_missing HASH: that snapshot was removed, or there is no space for a copy
  [ ! -d "snapshots/$1" ] || [ -z "$message" ] || failed "$message"
  [ ! -d "snapshots/$1" ] || reply late 'another process made the same snapshot meanwhile' # slurmgen sends again
  offer
}

offer() { # replies with the snapshots that exist, or will: the last used first
  # shellcheck disable=SC2046,SC2010,SC2012  # the names are hashes
  reply wanted $({ ls -t staging | sed -n 's/^sent[.]\([0-9a-f]*\)[.].*/\1/p' && ls -t snapshots; } | grep '^[0-9a-f]*$' | head -n 30)
}
