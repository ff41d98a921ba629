#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ib_write_bw through a fabric of kernel SRv6 switches, while a T1 switch and a host's port fail and
# return: no completion has an error, and their planes carry traffic again.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
unset MRC_PLANES
. "$(dirname "${BASH_SOURCE[0]}")/../process/srv6_lib.sh"
need_tool ib_write_bw
fabric_up "$source_dir/tools/fabrics/demo.json"
seconds=40  # at half a Gbit/s, so that other tests have a processor, too
# perftest's own connection is of IPv4, which the fabric does not carry.
link_hosts
tool=(env "MRC_FABRIC=$fabric_file" "$mrcrun" --quiet ib_write_bw -d mrc0 -F -p 18515 -s 65536
  -D "$seconds" --report_gbits --rate_limit 0.5 --rate_units g --rate_limit_type SW)

start server "${at_host[@]}" h1 -- "${tool[@]}"
server=$pid
until_listening 18515 on h1
start client "${at_host[@]}" h0 -- "${tool[@]}" 192.0.2.2
client=$pid

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

exit_code "$client" 90 0
exit_code "$server" 20 0
expect 'a result' [ "$(awk '$1 == 65536 && $4 > 0 { n++ } END { print n + 0 }' \
  "$work/client.out")" = 1 ]
cat "$work/client.out"
