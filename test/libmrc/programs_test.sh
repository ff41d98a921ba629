#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs written for libMRC, between two processes: a benchmark and collectives, on good networks
# and on bad ones, and one controller of each kind.
. "$(dirname "${BASH_SOURCE[0]}")/../verbs/verbs_lib.sh"
examples=$build/examples/libmrc
need_program "$examples/libmrc_benchmark"

benchmark() {  # benchmark NAME OPTION...: all sizes to 64 MiB; the data is checked
  two "$1" 60 "$examples/libmrc_benchmark" "${@:2}"
  expect "$1: 27 sizes" [ "$(grep -cE '^ +[0-9]+ ' "$work/$1.client.out")" -eq 27 ]
  expect_text "$work/$1.server.out" '27 sizes, all data as it was sent'
}

say 'a benchmark: 1 byte to 64 MiB'
benchmark clean -n 300 -b 1
if full; then
  say 'with 1 % loss'
  MRC_FAULTS=loss=0.01 benchmark loss -n 40 -w 2
fi
say 'while a plane goes down and comes back'
MRC_FAULTS='plane=1,down@200ms-1200ms' benchmark down -n 200 -b 1

say 'collectives'
conditions=(loss=0.01)
if full; then conditions+=('' 'plane=0,down@100ms-600ms'); fi
for faults in "${conditions[@]}"; do
  MRC_FAULTS=$faults two "collectives-$faults" 60 "$examples/libmrc_collectives" -n 5 -e 300001
  for side in client server; do
    expect_text "$work/collectives-$faults.$side.out" \
      '110 operations, all results as they should be'
  done
done

export MRC_PATHS=4
say 'controllers: explicit paths'
controller explicit
expect '4 of 8 paths' [ "$(grep -c ': GOOD' "$work/explicit.out")" -eq 4 ]
say 'a path replaced'
controller replace
expect 'two states of three entries' [ "$(grep -c 'port' "$work/replace.out")" -eq 6 ]
say 'paths denied'
controller deny
expect 'those over port 1' [ "$(grep -c 'port 1,.*DENIED' "$work/deny.out")" -eq 4 ]
expect 'and no others' [ "$(grep -c DENIED "$work/deny.out")" -eq 4 ]
say 'ports taken out of use'
controller port
for port in 1 2; do
  expect "port $port went" grep -q "port $port: .*error" "$work/port.out"
  expect "port $port came" grep -q "port $port: .*active" "$work/port.out"
done
say 'probes'
controller probe
expect_text "$work/probe.out" '8 of 8 paths answered'
limit 60
if "${run[@]}" "$examples/libmrc_controller_probe" 127.0.0.77 >"$work/nobody.out" 2>&1; then
  fail 'probes of nobody were answered'
fi
expect_text "$work/nobody.out" '0 of 8 paths answered'
say 'events'
MRC_FAULTS='plane=1,blackhole@300ms-4s' controller events 60
expect 'paths became bad' grep -q 'port 2, .*ASSUMED_BAD' "$work/events.out"
expect 'and good again' grep -q 'port 2, .*: GOOD' "$work/events.out"
expect 'of plane 1 only' [ "$(grep -c 'port 1, ' "$work/events.out")" -eq 0 ]
say 'fields need a fabric that forwards by them, and say so'
limit 60
if "${run[@]}" "$examples/libmrc_controller_fields" >"$work/fields.out" 2>&1; then
  fail 'fields on UDP planes'
fi
expect_text "$work/fields.out" 'the planes send no EVs of 32 bits'
