#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/run_tests: what failed beside others runs three times more, alone; what becomes of each
# test is counted once, and a finding is not excused.
set -euo pipefail
run_tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/run_tests
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  tail -n 40 run.out results/outcomes.tsv results/failures.txt >&2
  exit 1
}
add() {  # add NAME COMMANDS: a test of bash commands
  printf 'add_test([==[%s]==] bash -c [==[%s]==])\n' "$@" >>CTestTestfile.cmake
}
once() {  # once NAME WORDS: a test that fails the first time, saying so
  add "$1" "[ -e 'seen $1' ] || { touch 'seen $1'; echo '$2'; exit 1; }"
}
run() {  # run STATUS [OPTION]...: run_tests ends with it
  local status=0 wanted=$1
  shift
  rm -f seen*
  "$run_tests" results --jobs 2 "$@" -- --test-dir . >run.out 2>&1 || status=$?
  if [[ $status != "$wanted" ]]; then fail "exit status $status, expected $wanted"; fi
}
outcomes() {  # outcomes LINE...: each 'OUTCOME NAME', and no others
  diff <(printf '%s\n' "$@" | sort) <(tr '\t' ' ' <results/outcomes.tsv | sort) || fail outcomes
}
says() { grep -qF -- "$1" results/failures.txt || fail "the summary does not say '$1'"; }

add 'one, two: <good>' true
run 0
outcomes 'passed one, two: <good>'
if [[ -s results/failures.txt || -e results/second.xml ]]; then fail 'runs alone of nothing'; fi

once 'short of "time" & more' 'was late'
add skipped 'exit 77'
echo 'set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)' >>CTestTestfile.cmake
run 0
outcomes 'passed one, two: <good>' 'unstable short of "time" & more' 'skipped skipped'
says '-- short of "time" & more: failed beside others'
says 'was late'
run 1 --strict
outcomes 'passed one, two: <good>' 'unstable short of "time" & more' 'skipped skipped'

add bad 'echo wrong; exit 1'
echo 'add_test(missing /nowhere/program)' >>CTestTestfile.cmake
# Fails in its first and in its fourth run.
add seldom 'echo >>"seen seldom"; lines=$(wc -l <"seen seldom"); [ $((lines % 3)) != 1 ]'
once race 'WARNING: ThreadSanitizer: data race (pid=1)'
once overflow 'a.cpp:1:2: runtime error: signed integer overflow'
once crash 'test case CRASHED: SIGSEGV - Segmentation violation signal'
run 1
outcomes 'passed one, two: <good>' 'unstable short of "time" & more' 'skipped skipped' \
  'failed bad' \
  'failed seldom' 'failed missing' 'failed race' 'failed overflow' 'failed crash'
says '-- bad: failed alone, too'

rm CTestTestfile.cmake
for i in {1..11}; do once "late $i" late; done
run 1
if grep -qv '^failed' results/outcomes.tsv; then fail 'eleven failures are excused'; fi
if [[ -e results/second.xml ]]; then fail 'runs alone of eleven'; fi
rm CTestTestfile.cmake
touch CTestTestfile.cmake
status=0
"$run_tests" results -- --test-dir . >run.out 2>&1 || status=$?
if [[ $status == 0 ]]; then fail 'no tests are a success'; fi
echo 'runs alone are given and counted'
