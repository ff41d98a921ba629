#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ib_write_bw through a fabric of kernel SRv6 switches, while a T1 switch and a host's port fail and
# return: no completion has an error, and their planes carry traffic again.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
unset MRC_PLANES
. "$(dirname "${BASH_SOURCE[0]}")/../process/srv6_lib.sh"
need_tool ib_write_bw
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fabric_up "$source_dir/tools/fabrics/demo.json"
seconds=40
# perftest's own connection is of IPv4, which the fabric does not carry.
link_hosts
at_host=("$mrc_fabric" exec --prefix "$prefix" "$fabric_file")
tool=(env "MRC_FABRIC=$fabric_file" "$mrcrun" --quiet ib_write_bw -d mrc0 -F -p 18515 -s 65536
  -D "$seconds" --report_gbits)

start server "${at_host[@]}" h1 -- "${tool[@]}"
server=$pid
listens() { on h1 cat /proc/net/tcp | awk '$4 == "0A" && $2 ~ /:4853$/ { n++ } END { exit !n }'; }
until_true 20 listens || fail 'the server does not listen'
start client "${at_host[@]}" h0 -- "${tool[@]}" 192.0.2.2
client=$pid

grows() {  # grows PLANE: h0 sends there
  local before
  before=$(packets h0 "p$1")
  sleep 0.2
  [ "$(packets h0 "p$1")" -gt $((before + 100)) ]
}
running() { kill -0 "$client" 2>/dev/null || fail "ib_write_bw ended: $(cat "$work/client.err")"; }
until_true 20 grows 1 || fail 'no traffic'

say 'a T1 fails and returns'
fabric switch p1t1-0 down
sleep 1
running
fabric switch p1t1-0 up
until_true 20 grows 1 || fail 'plane 1 has no traffic'

say "a host's port fails and returns"
fabric link h1 p3t0-1 down
sleep 1
running
fabric link h1 p3t0-1 up
until_true 20 grows 3 || fail 'plane 3 has no traffic'
running

exit_code "$client" 90
expect "the client's exit status" [ "$code" = 0 ]
exit_code "$server" 20
expect "the server's exit status" [ "$code" = 0 ]
expect 'a result' [ "$(awk '$1 == 65536 && $4 > 0 { n++ } END { print n + 0 }' \
  "$work/client.out")" = 1 ]
cat "$work/client.out"
