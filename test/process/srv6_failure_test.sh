#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One connection under load while links, switches and ports of the fabric fail and come back: no
# queue pair fails, no byte is wrong, bandwidth goes down in proportion and comes back. Reports how
# long avoiding and coming back took.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
cat >"$work/fabric.json" <<'JSON'
{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 0.5 }
JSON
fabric_up "$work/fabric.json"
# The hosts' links bound the bandwidth, so a plane is a quarter of it; the links between switches
# are twice as many.
fabric set t0-host rate=200Mbit ecn=40000:140000 trim=200000 >/dev/null

# NAME, the share of the bandwidth that has to stay, the command that breaks, the one that mends.
# Plane 0 carries the programs' control connection and is left alone.
failures=()
failure() { failures+=("$1|$2|$3|$4"); }
failure 'black hole T0-T1' 0.80 'set p1t0-0>p1t1-0 blackhole' 'set p1t0-0>p1t1-0 clear'
failure 'link T0-T1 down' 0.80 'link p1t0-0 p1t1-1 down' 'link p1t0-0 p1t1-1 up'
failure 'T1 down' 0.80 'switch p2t1-0 down' 'switch p2t1-0 up'
failure 'T0 down' 0.60 'switch p2t0-1 down' 'switch p2t0-1 up'
failure 'host port down' 0.60 'link h1 p3t0-1 down' 'link h1 p3t0-1 up'
failure 'plane down' 0.60 'switch p1t0-0 down;switch p1t0-1 down' \
  'switch p1t0-0 up;switch p1t0-1 up'
failure 'T1 restarts' 0.80 'switch p3t1-1 down' 'switch p3t1-1 restart'
failure 'T0 restarts' 0.60 'switch p1t0-0 down' 'switch p1t0-0 restart'

act() {  # act COMMANDS: of mrc_fabric, separated by ';'
  local command words commands
  IFS=';' read -ra commands <<<"$1"
  for command in "${commands[@]}"; do
    read -ra words <<<"$command"
    fabric "${words[@]}" >>"$work/acts.out" 2>&1 || fail "mrc_fabric $command"
  done
}
now() { date +%s.%N; }

say 'failures one after the other, on one connection'
start_pair chain --size 64K --duration 250s --check --quiet \
  --timeline "$work/chain.csv" --timeline-interval 20ms
busy() { (($(packets p0t0-0 s0) > 2000)); }
until_true 20 busy || fail 'no traffic'
sleep 2
for entry in "${failures[@]}"; do
  IFS='|' read -r name share break mend <<<"$entry"
  t1=$(now) && act "$break" && sleep 1
  t2=$(now) && act "$mend" && sleep 1.6
  echo "$name|$share|$t1|$t2" >>"$work/times"
done
say 'flapping 10 times a second for two seconds'
t1=$(now)
up_to() {  # up_to N: until N twentieths of a second after t1
  local left
  left=$(awk -v t="$t1" -v n="$1" -v now="$(now)" 'BEGIN { print t + n / 20 - now }')
  if [[ $left != -* ]]; then sleep "$left"; fi
}
for i in {0..19}; do  # without waiting for carriers, as a bad cable does it
  up_to $((2 * i)) && ip -n "$prefix-demo-p1t1-0" link set l0 down
  up_to $((2 * i + 1)) && ip -n "$prefix-demo-p1t1-0" link set l0 up
done
act 'link p1t0-0 p1t1-0 up'  # which brings the routes back that went with it
echo "flapping T0-T1|0.70|$t1|$(now)" >>"$work/times"
say 'at the end all links between switches carry traffic again'
sleep 1.2
count_uplinks() {
  local p u
  for p in 0 1 2 3; do for u in 0 1; do packets "p${p}t0-0" "s$u"; done; done
}
count_uplinks >"$work/uplinks1"
sleep 1
count_uplinks >"$work/uplinks2"
gone "$pid" && fail 'the run was over before the failures were'
paste "$work/uplinks1" "$work/uplinks2" | awk '{ n[NR] = $2 - $1; sum += n[NR] } END {
  for (i = 1; i <= 8; i++) { printf "%d ", n[i]; if (n[i] < 0.7 * sum / 8) bad = 1 }
  print "packets"; exit bad }' || fail 'a link that came back is not used as much as the others'
interrupt_pair chain
expect 'every byte is right' [ "$(json "$work/chain.json" check_errors | total)" = 0 ]
expect 'bytes were checked' [ "$(json "$work/chain.json" checked_bytes | total)" -gt 0 ]
holds "$work/chain.json" 'no queue pair failed' 'd["device"]["engine"]["qp_errors"] == 0'

python3 "$(dirname "${BASH_SOURCE[0]}")/../support/failure_report.py" \
  "$work/chain.csv" "$work/times" "$(json "$work/chain.json" start)" ||
  fail 'bandwidth did not stay in proportion'

say 'paths that came back are used again'
holds "$work/chain.json" 'all paths are good' 'all(p["state"] == "good" for p in d["paths"])'
holds "$work/chain.json" 'ports that went down were told of' \
  'd["device"]["engine"]["port_updates_received"] > 0'
holds "$work/chain.json" 'paths were found bad' 'sum(p["times_bad"] for p in d["paths"]) >= 4'
holds "$work/chain.json" 'probes brought them back' \
  'sum(p["probes_answered"] for p in d["paths"]) >= 3'
