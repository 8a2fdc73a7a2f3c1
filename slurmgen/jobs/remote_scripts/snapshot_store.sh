# shellcheck shell=sh disable=SC2154,SC2034
# Snapshots: copying one, and making one from what was sent.

copy() { # copy FROM TO [-l]: fails if FROM is removed meanwhile, by `slurmgen snapshots --prune`
  inode=$(ls -di "$1" 2>/dev/null) || return 1
  # A reflink shares the blocks where the file system can; some file systems have no hard links.
  message=$(cp -pPR "${3:---reflink=auto}" "$1" "$2" 2>&1) ||
    { [ $# = 3 ] && rm -rf "$2" && message=$(cp -pPR --reflink=auto "$1" "$2" 2>&1); } || return 1
  [ "$(ls -di "$1" 2>/dev/null)" = "$inode" ] || return 1
  touch "$2" # a copy has the time of its original, and what is old in staging is removed
}

build() { # build HASH TO [-l]: the content of that hash, from its snapshot or from what was sent
  copy "snapshots/$1" "$2" ${3:+"$3"} && return
  for sent in "staging/sent.$1."*; do
    rm -rf "$2"
    if [ -d "$sent" ] && assemble "$@"; then return; fi
  done
  rm -rf "$2"
  copy "snapshots/$1" "$2" ${3:+"$3"} # another process may have made it meanwhile
}

assemble() { # assemble HASH TO [-l]: from $sent; what fails once is discarded, and sent again
  bytes=${sent##*.} onto=${sent%.*} onto=${onto##*.}
  { if [ "$onto" = - ]; then mkdir "$2"; else copy "snapshots/$onto" "$2" ${3:+"$3"}; fi; } &&
    [ "$(wc -c <"$sent/gone")" -eq "$bytes" ] && remove_gone "$2" "$PWD/$sent/gone" &&
    unpack "$2" <"$sent/tar" && is_complete "$2" "$1" && return
  discard "$sent"
  return 1
}

make_snapshot() { # make_snapshot HASH: unless it exists, or another process is faster
  [ -d "snapshots/$1" ] || { build "$1" "staging/$temp.new" -l && mv -T "staging/$temp.new" "snapshots/$1"; }
  [ -d "snapshots/$1" ] || return 1
  for sent in "staging/sent.$1."*; do [ ! -d "$sent" ] || discard "$sent"; done
}

make_spare() { # a copy of the snapshot: a project that is submitted again is likely to be so once more
  copy "snapshots/$hash" "staging/$temp.spare" && mv -T "staging/$temp.spare" "staging/spare.$hash"
}

remove_gone() { (cd "$1" && xargs -0 rm -rf -- <"$2"); }

unpack() { # tar continues after an error, up to the mark at the end
  tar -x -o -p -f - -C "$1" || { rm -f "$1/.slurmgen/complete" && return 1; }
}

is_complete() { # is_complete FOLDER HASH: whether all that was sent was unpacked; removes the mark that shows it
  [ "$(cat "$1/.slurmgen/complete" 2>/dev/null)" = "$2" ] && rm -rf "$1/.slurmgen"
}

discard() { # renamed first, so that no other process uses it while it is being removed
  mv -T "$1" "staging/$temp.old" 2>/dev/null && rm -rf "staging/$temp.old"
}
