#!/bin/sh
# A twin's stand-in for environment modules: it checks the subcommand, loads nothing, and reports that.
# It is the last in PATH, so a real `module` (a shell function) is used instead where there is one.
# Called as `ml` it reads the short forms: `ml` lists, `ml NAME...` loads, `ml av` is `module avail`.

called="${0##*/}"
given="$called${*:+ $*}"

while :; do
  case "$1" in
    -*) [ "$called" = ml ] && [ "${1#--}" = "$1" ] && break; shift ;; # `ml -NAME` unloads NAME
    *) break ;;
  esac
done

case "$called:$1" in
  *:load | *:add | *:try-load | *:try-add | *:unload | *:rm | *:del | *:delete | *:swap | *:sw | *:switch) names=$# ;;
  *:use | *:unuse | *:restore | *:save | *:purge | *:reset | *:refresh | *:update | *:list | *:help) names=2 ;;
  *:avail | *:av | *:spider | *:whatis | *:show | *:display | *:keyword | *:key | *:is-loaded | *:is-avail) names=2 ;;
  ml:* | module:) names=2 ;;
  *)
    echo "twin: stand-in for '$given': module has no subcommand '$1'" >&2
    exit 1
    ;;
esac
if [ "$names" -lt 2 ]; then
  echo "twin: stand-in for '$given': it names no module" >&2
  exit 1
fi
echo "twin: stand-in for '$given', nothing was loaded" >&2
