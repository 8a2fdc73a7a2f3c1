#!/bin/sh
# Reports what Slurm cannot know of a compute node: `sh probe.sh node` once, `sh probe.sh task` in each task.
# It reads, makes one HTTPS request, and changes nothing. Each line of the report begins with "probe: ".
export LC_ALL=C

report() { printf 'probe: %s: %s\n' "$1" "$2"; }

# Report each line of standard input.
report_lines() { while IFS= read -r line; do report "$1" "$line"; done; }

# Print the first line of a file, or ? if there is none.
first() { { [ -r "$1" ] && head -n 1 "$1" 2>/dev/null; } || echo '?'; }

# Make one request within five seconds; the words are options of curl.
fetch() { curl --silent --head --max-time 5 --output /dev/null "$@" https://example.org/; }

interfaces() {
  for path in /sys/class/net/*; do
    case ${path##*/} in lo | '*') continue ;; esac
    report interface "${path##*/}: $(first "$path/operstate"), $(first "$path/speed") Mb/s"
  done
  for path in /sys/class/infiniband/*/ports/*; do
    [ -d "$path" ] || continue
    device=${path#/sys/class/infiniband/}
    report infiniband "${device%%/*}: $(first "$path/link_layer"), $(first "$path/rate"), $(first "$path/state")"
  done
  for path in /sys/class/cxi/*; do
    if [ -d "$path" ]; then report slingshot "${path##*/}"; fi
  done
}

gpus() {
  if command -v nvidia-smi >/dev/null; then
    report vendor nvidia
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | report_lines gpu
    nvidia-smi topo -m | report_lines link
  elif command -v rocm-smi >/dev/null; then
    report vendor amd
    rocm-smi --showproductname | grep -i 'card series' | report_lines gpu
    rocm-smi --showtopotype | report_lines link
  fi
}

# Report yes, proxy or no; nothing without curl.
internet() {
  command -v curl >/dev/null || return 0
  if fetch --noproxy '*'; then
    report internet yes
  elif [ -n "${https_proxy-}${HTTPS_PROXY-}${all_proxy-}${ALL_PROXY-}" ] && fetch; then
    report internet proxy
  else
    report internet no
  fi
}

# Count the GPU devices that this process may open: cgroups may hide those of other jobs.
devices() {
  count=0
  for path in /dev/nvidia[0-9]* /dev/dri/renderD*; do
    if [ -c "$path" ] && (: <"$path") 2>/dev/null; then count=$((count + 1)); fi
  done
  echo "$count"
}

node() {
  report architecture "$(uname -m)"
  interfaces
  gpus
  report shm "$(df -Pk /dev/shm | awk 'END { printf "%d", $2 / 1024 }')"  # MiB
  report ports "$(first /proc/sys/net/ipv4/ip_local_port_range)"
  report cgroup "$(first /proc/self/cgroup)"
  internet
  report node 'done'
}

task() {
  visible=${CUDA_VISIBLE_DEVICES-${ROCR_VISIBLE_DEVICES-${HIP_VISIBLE_DEVICES-unset}}}
  cpus=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)
  report task "${SLURM_PROCID-0}: visible GPUs $visible; GPU devices $(devices); CPUs $cpus"
}

"$1"
