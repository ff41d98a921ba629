#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad options and environment values: an error that names option, value and what is allowed, at
# once and with a status of its own.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
port=$(free_port)

client() { refused 2 "${@:1:$#-2}" -- "$mrc_perf" 127.0.0.1 --port "$port" "${@: -2}"; }

client size 0 'sizes, 1 .. 1G' --size 0
client size 4X '1 .. 1G' --size 4K,4X
client qps 0 '1 .. 4096' --qps 0
client rate 5x 'such as 500M or 2.5G' --rate 5x
client rate 0 'such as 500M or 2.5G' --rate 0
client rate less 'one message of 1 MiB per second' --rate=1M --size=1M
client rate latency 'one message at a time' --rate=1G --test=latency
client depth many '1 .. 8192' --depth many
client test bandwidth 'write, write_imm, latency or completion' --test bandwidth
client iters -5 'from 1 on' --iters=-5 --quiet
client duration 5x 'a time such as' --duration 5x
client duration 5m 'a time such as' --duration 5m
client fault loss=2 '0 to 1' --fault loss=2
client give-up 5x 'a time such as' --give-up 5x
client fault plan=1 'plane=N' --fault plan=1,down
client mtu 1500 'multiple of 128' --mtu 1500
client planes loopback:99 '1 to 32' --planes 99
client cc fast nscc --cc fast
client icrc maybe on --icrc maybe
client path 'did you mean' --option path=4
client paths 0 1024 --option paths=0
client option paths NAME=VALUE --option paths
client qps 2 'must be 1 with --test latency' --test=latency --qps=2
client qps 2 'must be 1 with --test completion' --test=completion --qps=2
client check check 'whose server sleeps' --test=completion --check
refused 2 port 70000 -- "$mrc_perf" --port 70000
refused 1 /nonexistent/file -- "$mrc_perf" 127.0.0.1 --port "$port" --json /nonexistent/file

for setting in 'MRC_PATHS=0:1024' 'MRC_MTU=1500:multiple of 128' 'MRC_TIMEOUT=99:24' \
  'MRC_HELPER=perhaps:on' 'MRC_SLOT=256:255' 'MRC_CC_BASE_RTT=5:1us .. 1s'; do
  variable=${setting%%=*} value=${setting#*=}
  allowed=${value#*:} value=${value%%:*}
  refused 2 "$variable" "$value" "$allowed" -- env "$variable=$value" "$mrc_perf" --port "$port"
done
refused 2 MRC_PLANES loopback:0 '1 to 32' -- \
  env MRC_PLANES=loopback:0 "$mrc_perf" --port "$port"
refused 2 MRC_FAULTS 'rain=1' 'loss=' 'an example' -- \
  env MRC_FAULTS=rain=1 "$mrc_perf" --port "$port"
refused 2 MRC_ACTIVE_PATHS 17 16 -- env MRC_ACTIVE_PATHS=17 "$mrc_perf" --port "$port"
for setting in 'MRC_FAULTS=loss=0.1;plane=9,down@1s-2s:plane=0' \
  'MRC_PLANES=nosuch0:does not exist'; do
  # There is no server: what is wrong on this side is told without one.
  variable=${setting%%=*} value=${setting#*=}
  refused 1 "$variable" "${value%:*}" "${value##*:}" -- env "$variable=${value%:*}" "$mrc_perf" \
    127.0.0.1 --port "$port" --size 4K
done
start_server healthy "$port"
refused 1 'plane=2' 'plane=1' -- "$mrc_perf" 127.0.0.1 --port "$port" --planes 2 --size 4K \
  --fault plane=2,down
exit_code "$server" 20

say 'a variable that is misspelt is reported, and nothing else'
export MRC_PLANE=2 MRC_FUZZ_SECONDS=1 MRC_TEST_SEEDS=5
checked_run misspelt --size 4K --iters 10
unset MRC_PLANE
expect_text "$work/misspelt.err" MRC_PLANE 'did you mean MRC_PLANES'
checked_run reserved --size 4K --iters 10
expect 'no word about variables that are not options' [ ! -s "$work/reserved.err" ]
unset MRC_FUZZ_SECONDS MRC_TEST_SEEDS

say 'help goes to standard output, in the width of the terminal; every program has a version'
"$mrc_perf" --help >"$work/help.out"
expect_text "$work/help.out" Usage --planes --json
version=$(sed -n 's/^#define MRC_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' \
  "$source_dir/include/mrc/version.hpp" | paste -sd.)
for command in bench/mrc_perf bench/nccl_perf tools/mrc_probe 'tools/mrc_fabric link' \
  'tools/mrc_fabric set' 'tools/mrc_sim run' 'tools/mrc_sim soak'; do
  read -ra words <<<"$command"
  program=$build/${words[0]}
  if [[ ! -x $program ]]; then continue; fi  # sanitized builds lack some
  for width in 60 80 132; do
    COLUMNS=$width "$program" "${words[@]:1}" --help >"$work/help.out"
    expect "$command --help in $width columns" \
      [ "$(awk '{ if (length > n) n = length } END { print n }' "$work/help.out")" -le "$width" ]
  done
  if [[ $command == *'sim run' ]]; then
    expect 'each field of a scenario begins a line' \
      [ "$(grep -Ec '^  (random_faults|samples|plots) ' "$work/help.out")" = 3 ]
  fi
  expect "$command --version" [ "$("$program" --version)" = "${program##*/} $version (OpenMRC)" ]
done

say 'who asks for what is not there is told what is'
if [[ -x $build/tools/mrc_sim ]]; then
  refused 2 nosuch switch_down first -- "$build/tools/mrc_sim" run nosuch
fi
if [[ -x $build/tools/mrc_fabric ]]; then
  demo=$source_dir/tools/fabrics/demo.json
  refused 2 'link FILE A B' "there is no file 'h0'" -- "$build/tools/mrc_fabric" link h0 p0t0-0
  refused 2 'link FILE A B' 'hosts h0 to h1' -- "$build/tools/mrc_fabric" link "$demo"
  refused 2 'switch FILE NODE' 'p<p>t1-0' -- "$build/tools/mrc_fabric" switch "$demo" p0t0-0
fi

say 'a control port that is taken'
start_server first "$port"
refused 1 "$port" 'choose another port' -- "$mrc_perf" --port "$port"

say 'something on the control port that is no mrc_perf'
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET / HTTP/1.0\r\n\r\n' >&3 || true  # the server may hang up after the first line
exec 3>&-
start after "$mrc_perf" 127.0.0.1 --port "$port" --size 4K --iters 10 --check --quiet
exit_code "$pid" 20 0 'the server waits on and serves the next client'
