#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A T1 of a kernel fabric fails under traffic and is repaired: each of its paths carries its share
# again, by the kernel's count of packets, and paths over it were taken out of use, others not more.
# h0 sends to two hosts, so that two of its paths lead over each T1.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
fabric_up '{ "name": "demo", "planes": 4, "t0": 3, "t1": 4, "hosts": 3, "link_speed": 0.5 }'
t1=p1t1-2

say "two connections over 4 planes x 4 T1s; $t1 is down for three seconds"
start_pair one --size 64K --duration 3600s --check --quiet
pairs=("$pid $server")
to=2 start_pair two --size 64K --duration 3600s --check --quiet
pairs+=("$pid $server")
start counts "$source_dir/scripts/path_counts.py" record "$prefix-demo-" "$work/packets.csv"
counts=$pid
shares() {  # shares SINCE: each path over the T1 carries its share, in a second after that time
  python3 -B "$support/path_shares.py" "$work/packets.csv" "$t1" "$1" 2>/dev/null
}
until_true 20 shares 0 || fail 'the paths do not carry their shares'
failed=$EPOCHREALTIME
fabric switch "$t1" down >"$work/acts.out" 2>&1 || fail "mrc_fabric switch $t1 down"
broken=$EPOCHREALTIME
sleep 3
mending=$EPOCHREALTIME
fabric switch "$t1" up >>"$work/acts.out" 2>&1 || fail "mrc_fabric switch $t1 up"
mended=$EPOCHREALTIME
until_true 20 shares "$mended" || fail 'the paths do not carry their shares again'

say 'packets of its paths, and when they are as many as before'
kill "$counts"
wait "$counts" || true
names=(one two)
for i in 0 1; do
  read -r pid server <<<"${pairs[i]}"
  gone "$pid" && fail 'a run was over before it was interrupted'
  interrupt_pair "${names[i]}"
done
python3 -B "$support/path_shares.py" "$work/packets.csv" "$t1" \
  "$failed" "$broken" "$mending" "$mended" 2>"$work/shares.err" ||
  fail "shares of the paths over $t1"

say 'paths taken out of use: those over it'
for name in one two; do
  result=$work/$name.json
  value_of "$result" '"\n".join("retired: plane %d T1 %d EV %d %d times, %d losses, %d timeouts" %
    tuple(p[key] for key in ("plane", "port_path", "ev", "times_bad", "losses", "timeouts"))
    for p in d["paths"] if p["times_bad"])'
  over="(p[\"plane\"], p[\"port_path\"]) == (1, 2)"
  holds "$result" "$name: paths over $t1 were" \
    "sum(p['times_bad'] for p in d['paths'] if $over) > 0"
  # A process that did not run for a while may have cost others a turn.
  holds "$result" "$name: no path over another T1 was more often" \
    "max(p['times_bad'] for p in d['paths'] if not ($over)) <=
     max(p['times_bad'] for p in d['paths'] if $over)"
done
