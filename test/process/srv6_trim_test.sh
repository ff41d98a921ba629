#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Congested switch ports: packets are trimmed, asked for again and repaired, not by timeouts; trims
# at the last hop do not punish a path; marks move traffic away from a slow one. Packets are
# counted, so the speed of the machine does not matter.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
need_tool tcpdump
cat >"$work/fabric.json" <<'JSON'
{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 2,
  "base_rtt": "500us" }
JSON
fabric_up "$work/fabric.json"
# Of 268 ms: where two processors do the work of ten switches, they stall for longer than the usual.
export MRC_TIMEOUT=18

# The ports are so slow that a busy machine fills them, too.
say 'all last hops at 20 Mb/s, short queues, no marks: the receiver is sent too much'
fabric set t0-host rate=20Mbit trim=20000 >/dev/null || fail 'mrc_fabric set'
captures=()
for p in 0 1 2 3; do
  start "capture$p" ip netns exec "$prefix-demo-h1" tcpdump --immediate-mode -i "p$p" \
    -w "$work/p$p.pcap" -s 160 -B 32768 inbound
  captures+=("$pid")
  until_true 10 grep -q listening "$work/capture$p.err" || fail 'tcpdump does not start'
done
MRC_KEYLOG=$work/keys start_pair last --size 64K --duration 3 --check --quiet
end_pair last 60
captured "$work"/p?.pcap
kill "${captures[@]}"
wait "${captures[@]}" || true
holds "$work/last.json" 'packets were trimmed' 'd["device"]["engine"]["nacks_received"] > 50'
# A busy machine may stall for longer than a timeout, now and then.
holds "$work/last.json" 'repaired by NACKs' \
  'd["device"]["engine"]["timeouts"] * 20 < d["device"]["engine"]["nacks_received"]'
holds "$work/last.json" 'trims of the last hop are not held against a path' \
  'all(p["trims"] == 0 for p in d["paths"])'
python3 "$support/repair_times.py" 12,16 "$work"/p?.pcap >"$work/repair.txt" ||
  fail 'nothing was trimmed'
cat "$work/repair.txt"
read -r repaired never < <(sed -n 's/.*repaired: \([0-9]*\), never: \([0-9]*\)$/\1 \2/p' \
  "$work/repair.txt")
# One whose trimmed copy came after the whole one is never repaired.
expect 'trimmed packets are repaired' [ "$repaired" -gt $((50 + 10 * never)) ]
if command -v tshark >/dev/null; then
  say 'Wireshark tells trimmed packets from others'
  # One plane of the four, which takes Wireshark 6 s.
  python3 "$support/mrc_check.py" --fabric "$fabric_file" --keylog "$work/keys" \
    --min 500 "$work/p0.pcap" >"$work/check.out" 2>&1 ||
    fail "captured at h1: $(tail -n 20 "$work/check.out")"
  head -n 2 "$work/check.out"
  expect_text "$work/check.out" ' unchecked 0,'
  # Counted only: a packet that was trimmed in plane 0 is sent again in any plane.
  python3 "$support/repair_times.py" 12,16 "$work/p0.pcap" >"$work/repair0.txt" ||
    fail 'nothing was trimmed in plane 0'
  trims=$(sed -n 's/^trimmed: \([0-9]*\),.*/\1/p' "$work/repair0.txt")
  expect_text "$work/check.out" "trimmed $trims,"
fi

say 'marks move traffic away from a slow link between switches'
fabric set t0-host clear >/dev/null
fabric set t0-host rate=20Mbit ecn=20000:60000 trim=120000 >/dev/null
fabric set 'p1t0-0>p1t1-0' rate=5Mbit ecn=5000:15000 trim=60000 >/dev/null
start_pair marks --size 64K --duration 250s --check --quiet
# Until the switch has sent half as much that way; the slower the machine, the longer that takes. A
# SACK tells of several marks at once.
moved() {
  fabric show --json | jq -e '(.ports | INDEX(.direction)) as $ports |
    $ports["p1t0-0>p1t1-0"] as $slow | $ports["p1t0-0>p1t1-1"] as $other |
    $slow.switch_port.marked > 60 and $slow.sent_packets < 0.5 * $other.sent_packets' >/dev/null
}
until_true 60 moved || fail 'the slow link slows down the rest, or marks nothing'
interrupt_pair marks
# The plane has 20 Mb/s for both, of which the slow link can carry 5.
sum_of() {  # sum_of FIELD T1: of the paths of plane 1 over it
  printf 'sum(p["%s"] for p in d["paths"] if (p["plane"], p["port_path"]) == (1, %d))' "$@"
}
holds "$work/marks.json" 'marks on the slow link' "$(sum_of marks 0) > 10"
holds "$work/marks.json" 'the slow link does not slow down the rest' \
  "$(sum_of packets 0) < 0.65 * $(sum_of packets 1)"
