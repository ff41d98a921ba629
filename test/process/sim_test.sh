#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_sim: scenarios run and repeat, their errors name file, line and field, an interrupted run
# keeps what it measured.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_sim"
cd "$work"

cat >small.json <<'JSON'
// A small one.
{
  "title": "small",
  "topology": { "planes": 2, "hosts": 4, "hosts_per_t0": 2, "t1s": 2 },
  "traffic": [
    { "kind": "permutation", "bytes": "64KiB", "depth": 2, "count": 10 },
    { "kind": "all_reduce", "bytes": "64KiB", "start": "20us" }
  ],
  "faults": [{ "at": "10us", "kind": "down", "target": "p0t1-1", "for": "30us" }],
  "run": { "time": "20ms" }
}
JSON

simulate() {  # simulate STATUS OPTION...: runs with these, output in sim.out and sim.err
  local status=$1
  shift
  start sim "$mrc_sim" run "$@"
  exit_code "$pid" 100 "$status" "exit status of $*"
}
digest() { json "$1" digest; }

say 'every scenario of the repository is sound'
for file in "$source_dir"/tools/scenarios/*.json; do simulate 0 "$file" --check; done
"$mrc_sim" list "$source_dir/tools/scenarios" >list.out
expect_text list.out first incast_victim

say 'a run reports, and ends when its traffic is done'
simulate 0 small.json --json small-1.json --csv csv
expect_text sim.out goodput completion retransmitted digest 'all_reduce: done' \
  'permutation: done'
expect 'no progress line without a terminal' [ ! -s sim.err ]
expect_text small-1.json '"interrupted": false' '"failed_flows": 0' '"name": "queue deepest"'
expect 'all messages delivered' \
  [ "$(json small-1.json delivered)" = "$(json small-1.json posted)" ]
expect_text csv/run-series.csv time_us
expect 'one line per message' \
  [ "$(wc -l <csv/run-messages.csv)" = $(($(json small-1.json posted) + 1)) ]

say 'the same seed gives the same run, another one another'
simulate 0 small.json --json small-2.json
expect 'same digest' [ "$(digest small-1.json)" = "$(digest small-2.json)" ]
simulate 0 small.json --seed 2 --json small-3.json
expect 'another digest' [ "$(digest small-1.json)" != "$(digest small-3.json)" ]

say 'a sweep: variants in threads, the same as one by one'
sed '$d' small.json >sweep.json
cat >>sweep.json <<'JSON'
  , "sweep": [
    { "name": "one", "set": "topology.planes=1" },
    { "name": "two", "set": ["topology.planes=2"] },
    { "name": "roce", "set": ["transport.kind=roce", "faults[0].kind=slow", "faults[0].value=2"] }
  ]
}
JSON
simulate 0 sweep.json --json sweep-1.json --threads 3
expect_text sim.out variant one two roce
expect 'each variant is reported when it is done' \
  [ "$(grep -Ec '^mrc_sim: (one|two|roce): done, [123] of 3 after [0-9]+ s$' sim.err)" = 3 ]
simulate 0 sweep.json --json sweep-2.json --quiet
expect 'nothing with --quiet' [ ! -s sim.err ]
expect 'same digests' [ "$(digest sweep-1.json)" = "$(digest sweep-2.json)" ]
expect 'as the run alone' grep -q "$(digest small-1.json)" <(digest sweep-1.json)

say 'control packets by kind'
simulate 0 small.json --json small-1.json
expect_text sim.out ' SACKs, ' ' Transport ACKs, ' ' EV probes'
expect 'the kinds add up' jq -e '.runs[0].counters | .control_packets > 0 and
  .control_packets == ([.control[]] | add)' small-1.json

say 'totals of large fabrics are in Tb/s'
large=(dead_links --set run.time=100us)
simulate 0 "${large[@]}"
expect 'goodput' grep -Eq 'goodput +1[0-9]\.[0-9]+ Tb/s; per host min .* Gb/s$' sim.out
simulate 0 "${large[@]}" --set 'sweep=[{"name":"one"},{"name":"two"}]'
expect 'a column' grep -Eq '^variant +Tb/s +host min' sim.out
simulate 0 small.json
expect 'small ones in Gb/s' grep -Eq 'goodput +[0-9.]+ Gb/s; per host' sim.out

say 'errors name file, line and field'
sed 's/"planes": 2/"planes": 99/' small.json >bad.json
refused 2 'bad.json:4: topology.planes: is 99' -- "$mrc_sim" run bad.json
refused 2 '--set: faults[0].target: ' 'must be a name: h3' -- \
  "$mrc_sim" run small.json --set faults[0].target=1
refused 2 nothing.json -- "$mrc_sim" run nothing.json
refused 2 '--set' PATH=VALUE -- "$mrc_sim" run small.json --set run.time
sed 's/planes=2/planes=0/' sweep.json >bad.json
refused 2 'topology.planes' 'in variant "two"' -- "$mrc_sim" run bad.json
refused 1 /nonexistent/file -- "$mrc_sim" run small.json --json /nonexistent/file

say 'SIGINT: status 130, what was measured is written'
for threads in 1 2; do
  rm -f cut.json
  start sim "$mrc_sim" run sweep.json --set run.time=3600s --set 'traffic[0].count=0' \
    --set traffic[0].depth=8 --threads $threads --json cut.json --csv cut
  until_true 30 busy "$pid" || fail 'it does not get going'
  interrupt "$pid" 30
  expect_text sim.out interrupted 'cut short'
  expect_text sim.err interrupted
  expect_text cut.json '"interrupted": true' '"complete": false'
  expect 'messages were measured' [ "$(json cut.json delivered | total)" -gt 0 ]
done

say 'help'
"$mrc_sim" run --help >help.out
expect_text help.out topology traffic faults --set --threads
refused 2 -- "$mrc_sim"

# A sanitizer keeps what was released.
if sanitized "$mrc_sim"; then exit; fi

seq 8 | jq -n '{title: "memory", topology: {planes: 4, hosts: 32, t1s: 8}, run: {time: "5ms"},
  traffic: [{kind: "all_to_all", bytes: "512KiB"}],
  sweep: [inputs | {name: "number \(.)", set: "seed=\(.)"}]}' >memory.json
# memory_of ARGUMENT...: KiB that a run needs at most
memory_of() {
  /usr/bin/env python3 - "$mrc_sim" run memory.json "$@" <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}

say 'a sweep needs memory for the variants that run, not for those that are done'
one='sweep=[{"name":"one"}]'
alone=$(memory_of --set "$one")
all=$(memory_of --threads 1)
say "one variant needs $alone KiB, eight $all KiB"
expect 'about as much as one' [ "$all" -lt $((alone * 3 / 2)) ]
all=$(memory_of --threads 1 --json memory.out)
expect 'all eight ran' [ "$(jq '.runs | length' memory.out)" = 8 ]
results=$(($(stat -c %s memory.out) / 1024))
say "with $results KiB of results $all KiB"
expect 'and what is written' [ "$all" -lt $((alone * 2 + results * 3)) ]

say 'a queue pair takes 3.7 KiB'
more=$(memory_of --set "$one" --set transport.queue_pairs=9)
bytes=$(((more - alone) * 1024 / (32 * 31 * 8 * 2)))  # of each flow eight more, at both ends
say "a queue pair takes $bytes bytes"
expect 'no room for what it never does' [ "$bytes" -lt 5600 ]
