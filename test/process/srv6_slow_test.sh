#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A link that falls back to a twentieth of its rate under a program's traffic: `mrc_ctl paths --for`
# and `mrc_ctl serve` name it, and nothing before. Rates are low enough for a busy machine.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
need_program "$mrc_ctl"

fabric_up "$source_dir/tools/fabrics/demo.json"
fabric set all rate=100Mbit ecn=40000:140000 drop=1M >"$work/set.out" 2>&1 ||
  skip "no switch ports: $(head -n 1 "$work/set.out")"
link='link p1t0-0 - p1t1-1'

start_pair slow --size 1M --depth 4 --duration 3600s --quiet
client=$pid
look() {  # look TIME: rates.json; the exit status in $code
  code=0
  on h0 "$mrc_ctl" --pid "$client" --json paths --for "$1" >"$work/rates.json" \
    2>"$work/rates.err" || code=$?
}
rates() { value_of "$work/rates.json" "$1"; }
device_is_open() { on h0 "$mrc_ctl" --pid "$client" paths >/dev/null 2>&1; }
until_true 30 device_is_open || fail 'no device of the client'

say 'rates of all paths, and nothing is slow'
carries() {
  look 2s
  [[ $(rates 'sum(p["gbit_per_s"] > 0 for p in d[0]["answer"][0]["paths"])') -ge 8 ]]
}
until_true 30 carries || fail "rates: $(cat "$work/rates.json" "$work/rates.err")"
look 8s
expect "exit status: $(cat "$work/rates.json" "$work/rates.err")" [ "$code" = 0 ]
expect 'slow' [ "$(rates 'd[0]["slow"]')" = '[]' ]

say 'the link falls back'
# With a queue of 160 ms: what waits for a second counts as lost, and its path as bad, not slow.
# That still happens for a while where others use the processors: these get twenty times the 10 s.
fabric set 'p1t0-0>p1t1-1' rate=5Mbit drop=100K >/dev/null || fail 'mrc_fabric set'
began=$SECONDS
# The traffic of two hosts alone does not tell the parts of a path apart.
in_list() { value_of "$1" "any('$link' in [s['what']] + s['alike'] for s in $2)"; }
named() {
  look 8s
  [[ $code == 1 && $(in_list "$work/rates.json" 'd[0]["slow"]') == True ]]
}
until_true 10 named || fail "not named: $(cat "$work/rates.json" "$work/rates.err")"
say "named within $((SECONDS - began)) s"
expect 'only it' [ "$(rates 'len(d[0]["slow"])')" = 1 ]
on h0 "$mrc_ctl" --pid "$client" paths --for 8s >"$work/rates.out" 2>&1 || true
expect_text "$work/rates.out" 'Gb/s' 'marked %'
on h0 "$mrc_ctl" --pid "$client" --json paths --for 1s --plane 1 --bad >"$work/rates.json" || true
expect '--plane and --bad' [ "$(rates 'all(p["plane"] == 1 and p["state"] == "assumed_bad"
  for p in d[0]["answer"][0]["paths"])')" = True ]
on h0 "$mrc_ctl" --pid "$client" paths --for 1s --peer 77 >"$work/rates.out" || true
expect_text "$work/rates.out" 'no peer 77'
refused 2 'only with --for' -- "$mrc_ctl" paths --fabric "$fabric_file"
refused 2 'no-such.json' -- on h0 "$mrc_ctl" --pid "$client" paths --for 1s --fabric no-such.json

say 'the page of mrc_ctl serve has it'
if can_serve; then
  port=$(free_port)
  start serve "$mrc_ctl" serve --listen "127.0.0.1:$port" --fabric "$fabric_file"
  serve=$pid
  until_listening "$port"
  shown() {
    python3 -B "$support/http_ask.py" GET "$port" /api/snapshot >"$work/page.json" 2>/dev/null &&
      [[ $(in_list "$work/page.json" 'd["slow"]') == True ]]
  }
  until_true 10 shown || fail "not shown: $(head -c 2000 "$work/page.json")"
  kill -INT "$serve"
  exit_code "$serve" 20 130
fi

pid=$client
interrupt_pair slow
