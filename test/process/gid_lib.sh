# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Two processes of gid_connect that swap their lines. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
gid_connect=$build/examples/gid_connect
need_program "$gid_connect"

gid_start() {  # gid_start NAME ROUNDS COMMAND...: the program, after COMMAND; pid in $pid
  local name=$1 rounds=$2
  shift 2
  rm -f "$work/$name.in"
  mkfifo "$work/$name.in"
  # Opened for both directions, so that it does not wait for a writer.
  "$@" "$gid_connect" --rounds "$rounds" <>"$work/$name.in" >"$work/$name.out" \
    2>"$work/$name.err" &
  pid=$!
  until_true 20 [ -s "$work/$name.out" ] || fail "$name: prints no line"
}
tell() { head -n 1 "$work/$1.out" >"$work/$2.in"; }  # tell NAME OTHER: gives OTHER the line of NAME

# gid_pair NAME ROUNDS COMMAND_A COMMAND_B: what runs before each of the two programs, as arrays'
# names. Their output is in NAME-a.out and NAME-b.out; both must succeed. The second one connects
# $late seconds after the first.
gid_pair() {
  local -n before_a=$3 before_b=$4
  local name=$1 rounds=$2 a b
  gid_start "$name-a" "$rounds" "${before_a[@]}"
  a=$pid
  gid_start "$name-b" "$rounds" "${before_b[@]}"
  b=$pid
  tell "$name-b" "$name-a"
  if [[ -n ${late-} ]]; then sleep "$late"; fi
  tell "$name-a" "$name-b"
  exit_code "$a" 60 0 "$name: the first one"
  exit_code "$b" 60 0 "$name: the second one"
  expect_text "$work/$name-a.out" 'over '
  expect_text "$work/$name-a.out" "$rounds round trips"
  expect_text "$work/$name-b.out" "$rounds round trips"
}
gid_refused() {  # gid_refused LINE TEXT... -- COMMAND...: the program, after COMMAND, says so of it
  local line=$1 texts=()
  shift
  while [[ $1 != -- ]]; do texts+=("$1") && shift; done
  shift
  code=0
  "$@" "$gid_connect" <<<"$line" >"$work/refused.out" 2>"$work/refused.err" || code=$?
  expect "exit status of '$line'" [ "$code" = 1 ]
  expect_text "$work/refused.err" "${texts[@]}"
}
gid_of() { sed -n '1s/ .*//p' "$work/$1.out"; }  # gid_of NAME-a
