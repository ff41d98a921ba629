#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two mrc_perf processes: each test, on one and eight planes, over IPv4 and IPv6, all bytes right.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"

families=(loopback)
if has_ipv6; then families+=(loopback6); else say 'no IPv6 on this machine: only IPv4 is tried'; fi
plane_counts=(1 8)
if sanitized "$mrc_perf"; then plane_counts=(8); fi  # which run the same code

for family in "${families[@]}"; do
  for planes in "${plane_counts[@]}"; do
    for test in write write_imm; do
      say "$test over $family:$planes: every byte arrives"
      checked_run "$test" --test "$test" --planes "$family:$planes" --size 777,64K \
        --iters 50 --qps 2
      expect 'a result per size' [ "$(json "$work/$test.json" gbps | wc -l)" = $((2 + 2 * planes)) ]
      expect 'each plane carried packets' \
        [ "$(jq '.results[].planes[].packets | select(. > 0)' "$work/$test.json" | wc -l)" = \
        $((2 * planes)) ]
    done
    say "latency over $family:$planes: percentiles in order"
    checked_run latency --test latency --planes "$family:$planes" --size 8 --iters 200
    json "$work/latency.json" iterations | grep_all -x 200 || fail 'not 200 round trips'
    for field in min p50 p90 p99 max; do json "$work/latency.json" "$field"; done |
      awk '$1 <= 0 || $1 < last { bad = 1 } { last = $1 } END { exit bad || NR != 5 }' ||
      fail 'the percentiles are not in order'
  done
done

say 'completion: a server that sleeps answers each write'
port=$(free_port)
start_server sleeping "$port"
start completion "$mrc_perf" 127.0.0.1 --port "$port" --test completion --size 8,64K --iters 300 \
  --quiet --json "$work/completion.json"
exit_code "$pid" 60 0
exit_code "$server" 20 0
expect 'two rows of 300 writes' \
  [ "$(json "$work/completion.json" iterations | grep -cx 300)" = 2 ]
expect_text "$work/sleeping.out" '300 messages received'

say 'bidirectional: both sides check what they receive'
checked_run both --planes 2 --size 32K --duration 200ms --bidirectional
say 'the server is reached by its IPv6 address while data goes over IPv4'
if has_ipv6; then host=::1 checked_run mixed --planes 2 --size 4K --iters 50; fi
say 'small packets without iCRC, large packets sprayed one by one'
checked_run small --mtu 256 --icrc off --size 10000 --iters 50
checked_run large --mtu 32768 --burst 1 --size 1M --iters 6
say 'all sizes, few messages each'
checked_run all --size all --iters 3 --planes 2
expect 'a row for each of 23 sizes' [ "$(json "$work/all.json" mpps | wc -l)" = 23 ]

say 'a rate: no more is sent, by two queue pairs together, and every byte arrives'
checked_run rate --size 64K --duration 500ms --qps 2 --rate 50M --bidirectional
both=$(json "$work/rate.json" gbps | head -n 1)
awk -v both="$both" 'BEGIN { exit both <= 0 || both > 0.15 }' ||
  fail "not 50 Mb/s in each direction: $both Gb/s"
