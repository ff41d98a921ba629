#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fabric whose uSIDs are those of links (uA), each of one switch, as public labs have it: packets
# reach their host over all T1s, mrc_probe names a link that is down, and a denied T1 carries none.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
need_program "$mrc_probe"

fabric_up '{ "name": "demo", "planes": 2, "t0": 2, "t1": 2,
  "blocks": ["fc00::/32", "fc00:1::/32"],
  "hosts": [{ "t0": 0, "downlink": 9 }, { "t0": 1, "downlink": 9 }],
  "usids": { "plane": 0, "t0": "0xe000", "t1": "0xf000", "host": "0xe000", "host_t0": 0 },
  "templates": [{ "remote": ["t1", "host_t0", "host", "0xd001"], "local": ["host", "0xd001"] }] }'

say 'all T1s of all planes carry traffic, every byte is right'
start_pair links --size 1M --iters 100 --check --quiet
end_pair links 60
for p in 0 1; do
  for u in 0 1; do
    expect "T1 $u of plane $p" [ "$(packets "p${p}t0-0" "s$u")" -gt 300 ]
  done
done

say 'every path is alive, and a link that is down is named'
start answers "${at_host[@]}" h1 -- "$mrc_probe" --answer
until_true 10 grep -qs 'h1 answers' "$work/answers.out" || fail 'h1 does not answer'
probe_says() {  # probe_says STATUS TEXT: late probes count as losses, so it is tried again
  local try code
  for try in 10 100 1000; do
    code=0
    on h0 "$mrc_probe" --timeout "${try}ms" >"$work/sweep.out" 2>"$work/sweep.err" || code=$?
    if [[ $code == "$1" ]] && grep -qF -- "$2" "$work/sweep.out"; then return; fi
  done
  fail "status $code, not $1, or not: $2: $(cat "$work/sweep.out" "$work/sweep.err")"
}
probe_says 0 'all alive'
fabric link p1t0-0 p1t1-1 down
probe_says 1 'dead: link p1t0-0 - p1t1-1'
fabric link p1t0-0 p1t1-1 up
probe_says 0 'all alive'

say 'a denied T1 carries nothing'
sed -i 's/"planes": 2,/"planes": 2, "deny": [{ "plane": 0, "t1": 0 }],/' "$fabric_file"
before=$(packets p0t0-0 s0)
start_pair denied --size 1M --iters 100 --check --quiet
end_pair denied 60
# But for some packets of mrc_perf's TCP connection, which are not source-routed.
expect 'T1 0 of plane 0 carries no data' [ $(($(packets p0t0-0 s0) - before)) -lt 100 ]
