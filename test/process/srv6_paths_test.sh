#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# MRC through kernel switches that know nothing but SRv6: every path of the fabric is taken, as
# often as the engine says, and what is on the wire is what the specification says.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
fabric_up "$source_dir/tools/fabrics/demo.json"

count_links() {  # prints PLANE UPLINK, packets from T0 0 to that T1 and from there to T0 1
  local p u
  for p in 0 1 2 3; do
    for u in 0 1; do
      echo "$p $u $(packets "p${p}t0-0" "s$u") $(packets "p${p}t1-$u" l1)"
    done
  done
}

say 'each link carries the packets of its paths, and control packets; all planes are used'
count_links >"$work/before"
start_pair counted --size 1M --iters 100 --check --quiet
end_pair counted 60
count_links >"$work/after"
python3 - "$work" <<'PYTHON' || fail 'counters differ'
import json, sys
work = sys.argv[1]
result = json.load(open(work + "/counted.json"))
paths = {}
for p in result["paths"]:  # of two EVs each
    path = p["plane"], p["port_path"]
    paths[path] = paths.get(path, 0) + p["packets"]
def read(name):
    lines = [tuple(map(int, line.split())) for line in open(work + "/" + name)]
    return {line[:2]: line[2:] for line in lines}
before, after = read("before"), read("after")
assert set(paths) == set(before), (paths, before)
bad, others = [], 0
for path, sent in paths.items():
    up, down = (a - b for a, b in zip(after[path], before[path]))
    print(f"plane {path[0]} T1 {path[1]}: engine {sent}, T0-T1 link {up}, T1-T0 link {down}")
    bad += [path for seen in (up, down) if seen < sent]
    others += up - sent
control = result["device"]["engine"]["tx_control"]
print(f"other packets: {others}, control packets of the engine: {control}")
bad += ["other packets"] if others > control + 200 else []  # TCP, and the kernel's own
planes = [sum(n for (p, _), n in paths.items() if p == plane) for plane in range(4)]
print("planes:", planes)
bad += [p for p, n in enumerate(planes) if n < sum(planes) / 8]  # half of an equal share
sys.exit(f"not as it should be: {bad}" if bad else 0)
PYTHON

say 'devices of three lanes: their queue pairs take all lanes, and the switches see no difference'
MRC_LANES=3 start_pair lanes --qps 6 --size 64K --iters 100 --check --quiet
end_pair lanes 60
holds "$work/lanes.json" 'there are three lanes' 'len(d["device"]["lanes"]) == 3'
holds "$work/lanes.json" 'every lane has two queue pairs, the first one that of mrc_perf, too' \
  '[lane["qps"] for lane in d["device"]["lanes"]] == [3, 2, 2]'
holds "$work/lanes.json" 'every lane has sent' \
  'all(lane["engine"]["tx_data"] > 1000 for lane in d["device"]["lanes"])'

say 'what a switch sees is what the specification says, field by field'
check=$support/mrc_check.py
if command -v tcpdump >/dev/null && command -v tshark >/dev/null; then
  captures=() files=()
  export MRC_KEYLOG=$work/keys
  for p in 0 1 2 3; do  # the last switch before h1, both directions
    start "capture$p" ip netns exec "$prefix-demo-p${p}t0-1" \
      tcpdump --immediate-mode -i h1 -w "$work/p$p.pcap" -s 160 -B 16384
    captures+=("$pid") files+=("$work/p$p.pcap")
  done
  start captureT1 ip netns exec "$prefix-demo-p2t1-1" \
    tcpdump --immediate-mode -i l0 -w "$work/T1.pcap" -s 160
  captures+=("$pid")
  for name in capture0 capture1 capture2 capture3 captureT1; do
    until_true 10 grep -q listening "$work/$name.err" || fail 'tcpdump does not start'
  done
  start_pair seen --test write_imm --size 100000 --iters 40 --depth 8 --check --quiet
  end_pair seen 60
  captured "${files[@]}" "$work/T1.pcap"
  kill "${captures[@]}"
  wait "${captures[@]}" || true
  for file in "${files[@]}" "$work/T1.pcap"; do
    python3 "$check" --fabric "$fabric_file" --keylog "$MRC_KEYLOG" --min 50 "$file" \
      >"$work/check.out" 2>&1 || fail "captured in $file: $(head -n 20 "$work/check.out")"
    cat "$work/check.out"
    expect_text "$work/check.out" ' unchecked 0,'
  done
  unset MRC_KEYLOG
else
  say 'tcpdump or tshark is not installed: left out'
fi

say 'another host under the same T0 is reached by its uSID alone, past all T1s'
fabric_down
cat >"$work/one_rack.json" <<'JSON'
{ "name": "demo", "planes": 2, "t0": 2, "t1": 2, "hosts": [{ "t0": 0 }, { "t0": 0 }] }
JSON
fabric_up "$work/one_rack.json"
start_pair rack --size 64K --iters 200 --check --quiet
end_pair rack 60
expect 'nothing went over a T1' [ "$(($(packets p0t0-0 s0) + $(packets p1t0-0 s1)))" -lt 100 ]
expect 'both planes were used' [ "$(packets p1t0-0 h1)" -gt 500 ]
