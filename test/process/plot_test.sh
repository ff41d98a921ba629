#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/plot: draws what mrc_sim and mrc_perf have written, and says what is wrong with a file.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
plot=$source_dir/scripts/plot
need_program "$mrc_sim" "$mrc_perf"
texts() {  # texts SVG: the texts that can be read in it, one per line
  /usr/bin/python3 -c 'if True:
    import sys, xml.etree.ElementTree as xml
    for text in xml.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}text"): print(text.text)
    ' "$1"
}
shows() {  # shows SVG TEXT...: each of the texts is in it
  local svg=$1 text
  shift
  texts "$svg" >texts.out
  for text in "$@"; do
    grep -qxF -- "$text" texts.out || fail "$svg does not show '$text'"
  done
}
say 'without matplotlib: a timeline as SVG; for the rest, what to install'
mkdir "$work/without"
echo 'raise ImportError("not here")' >"$work/without/matplotlib.py"
export PYTHONDONTWRITEBYTECODE=1
cd "$work"
printf '%s\n' 'time_s,total_gbps,plane0_gbps,plane1_gbps,retransmits,event' \
  '0.1,2,1,1,0,' '0.2,1,1,0,1000000,on: plane 1 "down" & <out>' \
  '0.3,2,1,1,0,off: plane 1 "down" & <out>' '0.4,2,1,1,0,late' >known.csv
PYTHONPATH=$work/without "$plot" known.csv || fail 'no plot without matplotlib'
shows known.svg 'Bandwidth over time, by plane' 'payload bandwidth (Gb/s)' 'time (ms)' 'plane 0' \
  'plane 1' total 'plane 1 "down" & <out>' late 1,000,000
PYTHONPATH=$work/without refused 1 python3-matplotlib 'scripts/install-deps --plots' -- \
  "$plot" known.csv known.png

/usr/bin/python3 -c 'import matplotlib' 2>/dev/null || skip 'python3-matplotlib is not installed'
# Every point is drawn, also one that lies on the line between its neighbours by chance.
echo 'path.simplify: False' >"$work/matplotlibrc"
export MATPLOTLIBRC=$work/matplotlibrc
cd "$work"

say 'the functions, on known data'
/usr/bin/python3 "$source_dir/test/process/plot_test.py" 2>functions.err || fail 'plot_test.py'

marks() {  # marks SVG SERIES: how many points of the series are marked by dots
  /usr/bin/python3 -c 'if True:
    import sys, xml.etree.ElementTree as xml
    svg = "{http://www.w3.org/2000/svg}"
    group = next(g for g in xml.parse(sys.argv[1]).iter(svg + "g") if g.get("id") == sys.argv[2])
    print(sum(1 for _ in group.iter(svg + "use")))' "$1" "$2"
}
corners() {  # corners SVG SERIES: of the outline of an area or of bars
  /usr/bin/python3 -c 'if True:
    import sys, xml.etree.ElementTree as xml
    svg = "{http://www.w3.org/2000/svg}"
    group = next(g for g in xml.parse(sys.argv[1]).iter(svg + "g") if g.get("id") == sys.argv[2])
    print(next(group.iter(svg + "path")).get("d").count("L"))' "$1" "$2"
}

say 'mrc_sim: all kinds of plots of a sweep with a fault'
cat >sweep.json <<'JSON'
{
  "title": "A sweep, and <what> it shows",
  "topology": { "planes": 2, "hosts": 4, "hosts_per_t0": 2, "t1s": 2 },
  "traffic": [{ "kind": "permutation", "bytes": "64KiB", "depth": 2, "count": 40 }],
  "faults": [{ "at": "10us", "kind": "down", "target": "p0t1-1", "for": "30us" }],
  "run": { "time": "200us" },
  "samples": { "interval": "5us" },
  "plots": [
    { "show": "goodput", "title": "Goodput of all", "reference": 800,
      "reference_label": "line rate" },
    { "show": "queue deepest", "variants": ["one plane", "four planes"] },
    { "show": "completion_times", "log_x": true },
    { "show": "summary", "metric": "host_median", "x_label": "planes" }
  ],
  "sweep": [
    { "name": "one plane", "x": 1, "line": "permutation", "set": "topology.planes=1" },
    { "name": "two planes", "x": 2, "line": "permutation", "set": "topology.planes=2" },
    { "name": "four planes", "x": 4, "line": "permutation", "set": "topology.planes=4" }
  ]
}
JSON
"$mrc_sim" run sweep.json --json out.json >sim.out
"$plot" out.json
shows out.svg 'Goodput of all' 'A sweep, and <what> it shows; seed 1' 'goodput (Gb/s)' 'line rate' \
  'one plane' 'four planes' 'p0t1-1 down' 'time (µs)' 'queue deepest (kB)' \
  'Message completion times' 'messages (%)' 'completion time (µs)' 'median per host (Gb/s)' \
  permutation planes
expect 'a dot per variant' [ "$(marks out.svg panel3-series0)" = 3 ]
expect 'three lines over time' grep -q 'id="panel0-series2"' out.svg
expect 'two of two variants' [ "$(grep -c 'id="panel1-series' out.svg)" = 2 ]

say 'the same file gives the same picture; PNG and PDF'
cp out.svg before.svg
"$plot" out.json out.svg --title 'Another name'
shows out.svg 'Another name; seed 1'
"$plot" out.json
expect 'the same bytes' cmp out.svg before.svg
"$plot" out.json out.png
expect 'PNG' [ "$(head -c 4 out.png | tail -c 3)" = PNG ]
"$plot" out.json out.pdf
expect 'PDF' [ "$(head -c 4 out.pdf)" = %PDF ]

say 'mrc_sim: an interrupted run, and bars where variants have no x'
sed 's/"x": [124], "line": "permutation", //' sweep.json >bars.json
start cut "$mrc_sim" run bars.json --set run.time=3600s --set 'traffic[0].count=0' --json cut.json
until_true 30 busy "$pid" || fail 'it does not get going'
interrupt "$pid" 30
"$plot" cut.json
shows cut.svg 'A sweep, and <what> it shows; seed 1; interrupted' 'one plane'
expect 'a bar' [ "$(grep -c 'id="panel3-bar' cut.svg)" = 1 ]
expect 'no variant that did not run' [ "$(texts cut.svg | grep -c 'four planes' || true)" = 0 ]

say 'mrc_perf: a timeline with a fault and a mark'
checked_run timeline --planes 4 --size 64K --duration 1 --timeline line.csv \
  --timeline-interval 20ms --fault 'plane=1,down@300ms-600ms' \
  --mark 'coffee@700ms-800ms'
"$plot" line.csv
shows line.svg 'Bandwidth over time, by plane' 'payload bandwidth (Gb/s)' 'time (s)' total \
  'plane 0' 'plane 3' 'plane 1 down' coffee
expect 'no plane that is not there' [ "$(texts line.svg | grep -c 'plane 4' || true)" = 0 ]
rows=$(($(wc -l <line.csv) - 1))
expect 'many intervals' [ "$rows" -ge 5 ]  # 50, or less on a busy machine
# There and back along its points. On a busy machine some intervals end at the same millisecond.
outline=$(corners line.svg panel0-series3)
expect "an area of $rows intervals" [ "$outline" -gt $((2 * rows * 4 / 5)) ]

cant() {  # cant TEXT... -- ARGUMENT...: the program says so and fails, without a trace
  local texts=()
  while [[ $1 != -- ]]; do texts+=("$1") && shift; done
  refused 1 'plot: ' "${texts[@]}" -- "$plot" "${@:2}"
  expect 'one line' [ "$(wc -l <refused.err)" = 1 ]
}
say 'errors'
cant "can't read 'nothing.csv'" 'No such file' -- nothing.csv
cant "'out.gif' must end in" .png -- out.json out.gif
cant "can't write '/nonexistent/plot.svg'" -- out.json /nonexistent/plot.svg
printf 'a,b\n1,2\n' >bad.csv
cant "'bad.csv' is neither" 'mrc_perf --timeline' 'mrc_sim run --json' -- bad.csv
head -c 1000 out.json >bad.json
cant "'bad.json' is damaged or cut short" line -- bad.json
cant "'out.png' is not a text" -- out.png

say 'a report without matplotlib'
PYTHONPATH=$work/without cant python3-matplotlib -- out.json out.svg

say 'help'
"$plot" --help >help.out
expect_text help.out 'mrc_perf --timeline' 'mrc_sim run --json' --title python3-matplotlib
