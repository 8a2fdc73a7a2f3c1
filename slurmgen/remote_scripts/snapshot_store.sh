# shellcheck shell=sh disable=SC2154,SC2034
# Snapshots: copying one, and making one from what was sent. sharing.sh says which files a copy shares with it.

copy() { # copy HASH TO [-l]: a snapshot for a run, or for a new snapshot (-l); fails if it is removed meanwhile
  inode=$(ls -di "snapshots/$1" 2>/dev/null) && is_intact "$1" || return 1
  copy_files "snapshots/$1" "$2" ${3:+"$3"} || return 1
  [ "$(ls -di "snapshots/$1" 2>/dev/null)" = "$inode" ] || return 1
  touch "$2" # a copy has the time of its original, and what is old in staging is removed
}

copy_files() { # copy_files FROM TO [-l]; some file systems have no hard links
  if [ $# = 3 ]; then
    link_all "$1" "$2" && return
  elif [ -s "$1.read-only" ]; then
    link_all "$1" "$2" && copy_writable "$1" "$PWD/$2" && return
  fi
  rm -rf "$2"
  message=$(cp -pPR --reflink=auto "$1" "$2" 2>&1) # a reflink shares the blocks until one side is written to
}

take() { # take HASH TO: the spare copy of a snapshot, or a new copy
  [ -d "staging/spare.$1" ] && [ -d "snapshots/$1" ] && is_intact "$1" &&
    mv -T "staging/spare.$1" "$2" 2>/dev/null && return
  build "$1" "$2"
}

build() { # build HASH TO [-l]: the content of that hash, from its snapshot or from what was sent
  copy "$@" && return
  for sent in "staging/sent.$1."*; do
    rm -rf "$2"
    if [ -d "$sent" ] && assemble "$@"; then return; fi
  done
  rm -rf "$2"
  copy "$@" # another process may have made it meanwhile
}

assemble() { # assemble HASH TO [-l]: from $sent; what fails once is discarded, and sent again
  bytes=${sent##*.} onto=${sent%.*} onto=${onto##*.}
  { if [ "$onto" = - ]; then mkdir "$2"; else copy "$onto" "$2" ${3:+"$3"}; fi; } &&
    [ "$(wc -c <"$sent/gone")" -eq "$bytes" ] && remove_gone "$2" "$PWD/$sent/gone" &&
    unpack "$2" <"$sent/tar" && is_complete "$2" "$1" && return
  discard "$sent"
  return 1
}

make_snapshot() { # make_snapshot HASH: unless it exists, or another process is faster
  [ -d "snapshots/$1" ] || { build "$1" "staging/$temp.new" -l && name_snapshot "staging/$temp.new" "$1"; }
  [ -d "snapshots/$1" ] || return 1
  for sent in "staging/sent.$1."*; do [ ! -d "$sent" ] || discard "$sent"; done
}

name_snapshot() { # name_snapshot FOLDER HASH
  [ -d "snapshots/$2" ] || rm -f "snapshots/$2.read-only" # of an earlier snapshot of that name
  mv -T "$1" "snapshots/$2" 2>/dev/null
}

make_spare() { # a copy for the next run, which need not wait for it; only one, and only of small files, which copy slowly
  [ ! -d "staging/spare.$hash" ] && ! is_large "snapshots/$hash" 16384 -writable &&
    copy "$hash" "staging/$temp.spare" || return
  for spare in staging/spare.*; do [ ! -d "$spare" ] || discard "$spare"; done
  mv -T "staging/$temp.spare" "staging/spare.$hash"
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
