#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The second demonstration, as a new user runs it: it ends well, leaves figures and a plot behind,
# and no namespaces.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
demo=$source_dir/scripts/demo_srv6

say 'scripts/demo_srv6'
start demo "$demo" --build "$(cd "$build" && pwd)" --prefix "$prefix" --out "$work/out" \
  --rate 100Mbit
exit_code "$pid" 90 0
grep -E '^ +(on|off): ' "$work/demo.out"
sed -n '/^packets per path/,/^paths over/p' "$work/demo.out"
expect_text "$work/demo.out" 'T1 p1t1-0 down' 'p1t1-0 carried ' '% of a fair share' \
  'paths over which nothing failed: 3; taken out of use: '
expect_text "$work/out/srv6.svg" '<svg' 'T0 p2t0-1 down'
expect 'every byte is right' [ "$(json "$work/out/srv6.json" check_errors | total)" = 0 ]
expect 'nothing is left' [ -z "$(ip netns | grep "^$prefix-" || true)" ]

say 'it goes away when it is interrupted'
start interrupted "$demo" --build "$(cd "$build" && pwd)" --prefix "$prefix" --out "$work/out"
until_true 20 grep -q '^marks:' "$work/interrupted.out" || fail 'the second one does not start'
kill -TERM "$pid"
exit_code "$pid" 30 130
expect 'nothing is left' [ -z "$(ip netns | grep "^$prefix-" || true)" ]
expect 'nobody is left' [ -z "$(pgrep -f -- "--json $work/out/srv6.json" || true)" ]
