#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page of `mrc_ctl serve` in headless Chromium, beside two hosts of a kernel SRv6 fabric that
# send to each other: while a T1 is down it shows exactly the paths over it as bad, and good ones
# again after the repair. Screenshots are in test/serve_page of the build.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
need_tool chromium chromedriver
python3 -c 'import selenium' 2>/dev/null || skip 'python3-selenium is not installed'
need_program "$mrc_ctl"
need_serve
pictures=$build/test/serve_page
mkdir -p "$pictures"
t1=p1t1-2

fabric_up '{ "name": "demo", "planes": 4, "t0": 2, "t1": 4, "hosts": 2, "link_speed": 0.5 }'
fabric set t0-host rate=100Mbit ecn=40000:140000 trim=200000 >/dev/null

# Each host with a folder of its own for control sockets, as two machines have.
mkdir "$work/h0" "$work/h1"
start server "${at_host[@]}" h1 -- env MRC_CONTROL="$work/h1" "$mrc_perf" --quiet
until_listening 18515 on h1
start client "${at_host[@]}" h0 -- env MRC_CONTROL="$work/h0" "$mrc_perf" fd00:1::2 --size 64K \
  --duration 3600s --bidirectional --rate 50M --quiet

start serve-h1 unshare --uts bash -c 'hostname h1 && exec "$@"' - "$mrc_ctl" --folder "$work/h1" \
  serve --listen 127.0.0.1:9795 --fabric "$fabric_file"
start serve-h0 unshare --uts bash -c 'hostname h0 && exec "$@"' - "$mrc_ctl" --folder "$work/h0" \
  serve --fabric "$fabric_file" --peers 127.0.0.1:9795
echo 'a token of this test' >"$work/token" && chmod 600 "$work/token"
start odd python3 -B "$support/odd_http_peer.py" 9797 odd
start serve-steer "$mrc_ctl" --folder "$work/h0" serve --listen 127.0.0.1:9796 --peers \
  127.0.0.1:9797 --steer --token-file "$work/token"
for port in 9794 9795 9796 9797; do until_listening "$port"; done

say "$t1 fails, and is repaired: pictures in $pictures"
python3 -B "$support/serve_page.py" http://127.0.0.1:9794/ "$pictures" "$t1" h0,h1 \
  http://127.0.0.1:9796/ "$(cat "$work/token")" -- \
  "$mrc_fabric" switch --prefix "$prefix" "$fabric_file" "$t1" \
  >"$work/page.out" 2>"$work/page.err" || fail 'the page'
