# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What tests that are scripts share. Source it first, or another *_lib.sh, which does that. Programs
# come from the build in MRC_BUILD_DIR. Everything that a test starts is ended with it, by its
# process id.
if declare -F clean_up >/dev/null; then return; fi
set -euo pipefail
export LC_ALL=C
build=${MRC_BUILD_DIR:?set it to the build folder}
# shellcheck disable=SC2034  # for those who source it
mrc_perf=$build/bench/mrc_perf nccl_perf=$build/bench/nccl_perf mrc_ctl=$build/tools/mrc_ctl \
  mrc_fabric=$build/tools/mrc_fabric mrc_probe=$build/tools/mrc_probe mrc_sim=$build/tools/mrc_sim
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
support=$source_dir/test/support
work=$(mktemp -d)
. "$source_dir/scripts/lib.sh"
# Only a hang makes a test wait so long: a machine that is busy gets twenty times the SECONDS that
# are generous on an idle one.
slack=20

clean_up() {
  local pid
  for pid in $(jobs -pr) $(jobs -ps); do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

# Debian's modules are those of Debian's Python. And what pyenv calls python3 is a script, which
# takes longer to find one than most tests need it.
if [[ -x /usr/bin/python3 ]]; then
  mkdir "$work/bin"
  ln -s /usr/bin/python3 "$work/bin/python3"
  PATH=$work/bin:$PATH
fi

# How much the test is to do: check, full or long (test/where.cmake).
scope=${MRC_TEST_SCOPE:-full}
full() { [[ $scope != check ]]; }

without() {  # without PREFIX: no variable from outside that begins so
  local name
  for name in $(compgen -e "$1"); do unset "$name"; done
}
# The tests' own settings only, and UDP ports where nothing else is.
without MRC_
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

need_program() {  # need_program FILE...
  local file
  for file; do [[ -x $file ]] || skip "${file##*/} was not built"; done
}
namespaces() {  # they can be made here
  ((EUID == 0)) && ip netns add "openmrc-try-$$" 2>/dev/null && ip netns del "openmrc-try-$$"
}
need_namespaces() { namespaces || skip 'network namespaces can not be made here, or need root'; }
need_tool() {  # need_tool NAME...: programs of others
  local name
  for name; do
    command -v "$name" >/dev/null || skip "$name is not installed (scripts/install-deps)"
  done
}
can_serve() {  # it has an HTTP server; asked at an address that no host has
  ! grep_all 'built without cpp-httplib' < <("$mrc_ctl" serve --listen 192.0.2.1:1 2>&1)
}
need_serve() { can_serve || skip 'mrc_ctl was built without cpp-httplib'; }
need_tool jq python3
has_ipv6() { grep -q '^00000000000000000000000000000001 ' /proc/net/if_inet6 2>/dev/null; }
sanitized() { grep -q -e __asan_init -e __tsan_init "$1"; }

start() {  # start NAME COMMAND...: in the background; output in NAME.out and NAME.err, pid in $pid
  local name=$1
  shift
  "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
  pid=$!
}

until_listening() {  # until_listening PORT [COMMAND...]: as listening()
  until_true 20 listening "$@" || fail "nobody listens on port $1"
}

where_is() {  # where_is PID: what each of its threads does, as far as the machine tells
  local task
  for task in "/proc/$1/task"/*; do
    printf -- '---- thread %s of process %s\n' "$(cat "$task/comm")" "$1"
    grep -E '^(State|SigBlk|voluntary_ctxt)' "$task/status"
    cat "$task/syscall" "$task/stack"
  done 2>/dev/null
  if command -v gdb >/dev/null; then
    timeout 60 gdb -p "$1" -batch -ex 'thread apply all backtrace' </dev/null 2>/dev/null
  fi
}

# exit_code PID SECONDS [STATUS [WHO]]: its exit status in $code, which has to be that; a hang fails
# the test, and shows where it hangs
exit_code() {
  if ! until_true "$2" gone "$1"; then
    where_is "$1" >&2 || true
    fail "${4:-process $1} still runs after $((slack * $2)) s"
  fi
  code=0
  wait "$1" || code=$?
  [[ $code == "${3:-$code}" ]] || fail "${4:-process $1} ended with status $code, not $3"
}
interrupt() {  # interrupt PID SECONDS [STATUS [WHO]]: Ctrl-C, which ends it with STATUS, mostly 130
  kill -INT "$1"
  exit_code "$1" "$2" "${3:-130}" "${@:4}"
}
kill_off() {  # kill_off PID: whether it runs or not
  kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
succeeds() {  # succeeds TEXT... -- COMMAND...: it ends well, and says all that on standard output
  local texts=() pid
  while [[ $1 != -- ]]; do texts+=("$1") && shift; done
  shift
  start succeeds "$@"
  exit_code "$pid" 60 0 "$*"
  expect_text "$work/succeeds.out" "${texts[@]}"
}
refused() {  # refused STATUS TEXT... -- COMMAND...: it ends so, and says all that on standard error
  local status=$1 texts=() pid
  shift
  while [[ $1 != -- ]]; do texts+=("$1") && shift; done
  shift
  start refused "$@"
  exit_code "$pid" 30 "$status" "$*"
  expect_text "$work/refused.err" "${texts[@]}"
}

start_server() {  # start_server NAME PORT OPTION...: mrc_perf that waits for a client
  start "$1" "$mrc_perf" --port "$2" "${@:3}"
  server=$pid
  until_listening "$2"
}

json() {  # json FILE FIELD: its values, one per line, wherever they are
  jq -r --arg field "$2" '.. | objects | select(has($field))[$field]' "$1"
}
value_of() {  # value_of FILE EXPRESSION: of the JSON object d
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}
holds() {  # holds FILE WHAT EXPRESSION: fails with the object's words if it is false
  [[ $(value_of "$1" "bool($3)") == True ]] || fail "$2: not true: $3"
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
  exit_code "$pid" 100 0 "$name: the client"
  exit_code "$server" 20 0 "$name: the server"
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
  value_of "$work/ask.json" "$expression"
}
is() { [[ $(ask "$@") == True ]]; }
