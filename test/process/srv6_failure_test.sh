#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One connection under load while links, switches and ports of the fabric fail and come back: no
# queue pair fails, no byte is wrong; traffic leaves what failed for all that is left, and takes
# every link again after the repair. Packets per link are counted and states waited for: how fast
# the machine is does not matter.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
fabric_up '{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 0.5 }'
# Planes of equal speed, which is that of the hosts' links: the links between switches are twice as
# many.
fabric set t0-host rate=200Mbit ecn=40000:140000 trim=200000 >/dev/null

# NAME, the links PLANE.T1 of h0's T0s that are of no use meanwhile, the command that breaks, the
# one that mends. Plane 0 carries the programs' control connection and is left alone.
failures=()
failure() { failures+=("$1|$2|$3|$4"); }
failure 'black hole T0-T1' 1.0 'set p1t0-0>p1t1-0 blackhole' 'set p1t0-0>p1t1-0 clear'
failure 'link T0-T1 down' 1.1 'link p1t0-0 p1t1-1 down' 'link p1t0-0 p1t1-1 up'
failure 'T1 down' 2.0 'switch p2t1-0 down' 'switch p2t1-0 up'
failure 'T0 down' '2.*' 'switch p2t0-1 down' 'switch p2t0-1 up'
failure 'host port down' '3.*' 'link h1 p3t0-1 down' 'link h1 p3t0-1 up'
failure 'plane down' '1.*' 'switch p1t0-0 down;switch p1t0-1 down' \
  'switch p1t0-0 up;switch p1t0-1 up'
failure 'T1 restarts' 3.1 'switch p3t1-1 down' 'switch p3t1-1 restart'
failure 'T0 restarts' '1.*' 'switch p1t0-0 down' 'switch p1t0-0 restart'

act() {  # act COMMANDS: of mrc_fabric, separated by ';'
  local command words commands
  IFS=';' read -ra commands <<<"$1"
  for command in "${commands[@]}"; do
    read -ra words <<<"$command"
    fabric "${words[@]}" >>"$work/acts.out" 2>&1 || fail "mrc_fabric $command"
  done
}

start_pair chain --size 64K --duration 3600s --rate 200M --check --quiet
traffic_takes_all 'before the first failure'
for entry in "${failures[@]}"; do
  IFS='|' read -r name dead break mend <<<"$entry"
  say "$name: traffic takes all links but $dead; it takes all after the repair"
  act "$break" && traffic_takes_all "$name" but "$dead"
  act "$mend" && traffic_takes_all "$name, repaired"
done
say 'a link flaps 10 times a second for two seconds: it carries traffic afterwards'
for i in {0..19}; do  # without waiting for carriers, as a bad cable does it
  ip -n "$prefix-demo-p1t1-0" link set l0 down && sleep 0.05
  ip -n "$prefix-demo-p1t1-0" link set l0 up && sleep 0.05
done
act 'link p1t0-0 p1t1-0 up'  # which brings the routes back that went with it
traffic_takes_all 'after the flapping'
gone "$pid" && fail 'the run was over before the failures were'
interrupt_pair chain

say 'nothing failed, nothing was wrong'
expect 'bytes were checked' [ "$(json "$work/chain.json" checked_bytes | total)" -gt 0 ]
holds "$work/chain.json" 'no queue pair failed' 'd["device"]["engine"]["qp_errors"] == 0'
holds "$work/chain.json" 'what was lost was sent again' 'd["results"][0]["retransmits"] > 0'

say 'paths were found bad, and came back by probes'
holds "$work/chain.json" 'ports that went down were told of' \
  'd["device"]["engine"]["port_updates_received"] > 0'
holds "$work/chain.json" 'paths were found bad' 'sum(p["times_bad"] for p in d["paths"]) >= 4'
# A process that did not run for a while may have cost others a turn.
holds "$work/chain.json" 'those of plane 0, where nothing failed, not more often than others' \
  'max(p["times_bad"] for p in d["paths"] if p["plane"] == 0) <=
   max(p["times_bad"] for p in d["paths"] if p["plane"] != 0)'
holds "$work/chain.json" 'probes brought them back' \
  'sum(p["probes_answered"] for p in d["paths"]) >= 3'
