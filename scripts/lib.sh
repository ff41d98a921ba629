# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What scripts share that start servers, those of test/ among them.

# listening PORT [COMMAND...]: something accepts TCP connections there; where COMMAND runs programs,
# such as `ip netns exec NAME`.
listening() {
  local port
  printf -v port ':%04X$' "$1"  # no $(): in the middle of one, bash 5.2 can't read a trap's command
  { "${@:2}" cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true; } |
    awk -v port="$port" '$4 == "0A" && $2 ~ port { n++ } END { exit n == 0 }'
}

free_port() {  # free_port [FIRST]: prints a TCP port, from that one on, on which nobody listens
  local port=${1:-$((14000 + RANDOM % 4000))}
  while listening "$port"; do port=$((port + 1)); done
  echo "$port"
}

# until_true SECONDS COMMAND...: true as soon as the command is; false after that time, or $slack
# times that time.
until_true() {
  local end=$((SECONDS + ${slack:-1} * $1))
  shift
  until "$@"; do
    if ((SECONDS >= end)); then return 1; fi
    sleep 0.05
  done
}

gone() {  # gone PID: it has ended; asked twenty times a second, so without a program
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  [[ ${stat##*) } == Z* ]]
}

# listening_or_gone PORT PID [COMMAND...]: it listens, or will not any more
listening_or_gone() { gone "$2" || listening "$1" "${@:3}"; }
