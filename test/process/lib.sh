# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the process tests share. Source it first. Programs come from the build in MRC_BUILD_DIR.
# Everything that a test starts is ended with it, by its process id.
set -euo pipefail
export LC_ALL=C
build=${MRC_BUILD_DIR:?set it to the build folder}
mrc_perf=$build/bench/mrc_perf
work=$(mktemp -d)

clean_up() {
  local pid
  for pid in $(jobs -pr) $(jobs -ps); do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

# How much the test is to do: check, full or long (test/where.cmake).
scope=${MRC_TEST_SCOPE:-full}
full() { [[ $scope != check ]]; }

# The tests' own settings only: no MRC_* from outside, and UDP ports where nothing else is.
while IFS='=' read -r name _; do
  if [[ $name == MRC_* ]]; then unset "$name"; fi
done < <(env)
export MRC_UDP_PORT=$((12000 + RANDOM % 2000))  # eight planes on one address take 2,048

# mrc_perf polls memory that its peer writes to, as programs do that know RDMA. Seen as C++ that is
# a race with the thread that places the packet; every other race is still reported.
printf 'race:mrc::*::engine::Responder::place\n' >"$work/thread_sanitizer"
export TSAN_OPTIONS="${TSAN_OPTIONS-} suppressions=$work/thread_sanitizer"

# Like grep -q, but reads all of its input: a writer that its reader leaves ends with SIGPIPE, which
# pipefail takes for a failure.
grep_all() { grep -q "$@" <<<"$(cat)"; }

say() { printf '%s\n' "-- $*"; }

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  local log
  for log in "$work"/*.out "$work"/*.err; do
    if [[ -s $log ]]; then printf '%s\n' "---- ${log##*/}" && tail -n 20 "$log"; fi
  done >&2
  exit 1
}

skip() {
  printf '[test skipped] %s\n' "$*"
  exit 77
}

catches() {  # catches PID: it is no shell any more, and has a handler of SIGINT
  ! [[ /proc/$1/exe -ef /proc/$$/exe ]] &&
    (($((16#$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status"))) & 2))
}
busy() {  # busy PID: it has computed for half a second
  local fields
  read -r -a fields <"/proc/$1/stat" && ((fields[13] + fields[14] >= 50))
}

# few_lost FILE: examples/datagrams has lost at most a tenth of 300; a late one counts as lost.
few_lost() { awk '/ lost/ { for (i = 2; i <= NF; i++) if ($i ~ /^lost/) n = $(i - 1) }
  END { exit !(n != "" && n + 0 <= 30) }' "$1"; }

# The client of mrc_perf has said so after a message: at 0.00 Gb/s none has come yet.
client_runs() { grep -Eq '[1-9][0-9.]* Gb/s' "$work/client.out" 2>/dev/null; }

need_program() { [[ -x $1 ]] || skip "${1##*/} was not built"; }
need_serve() {  # need_serve MRC_CTL: it has an HTTP server
  # At an address that no host has.
  if grep_all 'built without cpp-httplib' < <("$1" serve --listen 192.0.2.1:1 2>&1); then
    skip 'mrc_ctl was built without cpp-httplib'
  fi
}
has_ipv6() { grep -q '^00000000000000000000000000000001 ' /proc/net/if_inet6 2>/dev/null; }
sanitized() { grep -q -e __asan_init -e __tsan_init "$1"; }

listening() {  # listening PORT: something accepts TCP connections there
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk -v port="$(printf ':%04X$' "$1")" '$4 == "0A" && $2 ~ port { n++ } END { exit n == 0 }'
}

free_port() {  # prints a TCP port on which nobody listens
  local port=$((14000 + RANDOM % 4000))
  while listening "$port"; do port=$((port + 1)); done
  echo "$port"
}

start() {  # start NAME COMMAND...: in the background; output in NAME.out and NAME.err, pid in $pid
  local name=$1
  shift
  "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
  pid=$!
}

# Only a hang makes it wait so long: a machine that is busy gets twenty times the SECONDS that are
# generous on an idle one.
until_true() {  # until_true SECONDS COMMAND...: true as soon as the command is
  local end=$((SECONDS + 20 * $1))
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

exit_code() {  # exit_code PID SECONDS: its exit status in $code; a hang fails the test
  until_true "$2" gone "$1" || fail "process $1 still runs after $((20 * $2)) s"
  code=0
  wait "$1" || code=$?
}

start_server() {  # start_server NAME PORT OPTION...: mrc_perf that waits for a client
  local name=$1 port=$2
  shift 2
  start "$name" "$mrc_perf" --port "$port" "$@"
  server=$pid
  until_true 20 listening "$port" || fail "the server $name does not listen on port $port"
}

json() {  # json FILE FIELD: its values, one per line, wherever they are
  sed -n 's/^ *"'"$2"'": *\(.*[^,]\),\{0,1\}$/\1/p' "$1"
}

total() { awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

expect() {  # expect WHAT TEST...: a test command that has to hold
  local what=$1
  shift
  "$@" || fail "$what: not true: $*"
}

expect_text() {  # expect_text FILE TEXT...: all of the texts are in the file
  local file=$1 text
  shift
  for text in "$@"; do grep -qF -- "$text" "$file" || fail "${file##*/} does not say '$text'"; done
}

checked_run() {  # checked_run NAME OPTION...: server and client; every byte checked, and right
  local name=$1 port
  shift
  port=$(free_port)
  start_server "$name-server" "$port" --quiet
  start "$name" "$mrc_perf" "${host:-127.0.0.1}" --port "$port" --quiet --check \
    --warmup "${warmup:-20ms}" --json "$work/$name.json" "$@"
  exit_code "$pid" 100
  expect "$name: the client's exit status" [ "$code" = 0 ]
  exit_code "$server" 20
  expect "$name: the server's exit status" [ "$code" = 0 ]
  checked_result "$name"
}

checked_result() {  # checked_result NAME: NAME.json tells of checked bytes and no errors
  local file=$work/$1.json
  expect "$1: check_errors" [ "$(json "$file" check_errors | total)" = 0 ]
  expect "$1: checked_bytes" [ "$(json "$file" checked_bytes | total)" -gt 0 ]
  expect "$1: error" [ "$(json "$file" error)" = null ]
}

# What mrc_ctl tells: a test defines ctl(), which runs it.
ask() {  # ask EXPRESSION OPTION...: of the JSON that it prints, d
  local expression=$1
  shift
  ctl --json "$@" >"$work/ask.json" 2>"$work/ask.err" || return 1
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
    "$work/ask.json" "$expression"
}
is() { [[ $(ask "$@") == True ]]; }
