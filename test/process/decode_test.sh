#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Wireshark dissector tools/wireshark/mrc.lua: what it shows of packets (decode/shown.txt) that
# are right, wrong, tagged or another protocol's; it survives garbage, and reads all that mrc_perf
# sends. MRC_TEST_UPDATE_DECODE=1 writes anew what it shows.

update=${MRC_TEST_UPDATE_DECODE:-}
# Root records packets: in a network namespace of its own, where no other test's can be.
if ((EUID == 0)) && [[ -z ${MRC_TEST_OWN_NETWORK:-} ]] && unshare --net true 2>/dev/null; then
  MRC_TEST_OWN_NETWORK=1 exec unshare --net bash "${BASH_SOURCE[0]}" "$@"
fi
if [[ -n ${MRC_TEST_OWN_NETWORK:-} ]]; then ip link set lo up; fi
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
dissector=$source_dir/tools/wireshark/mrc.lua
packets=$source_dir/test/process/decode/shown.txt keys=$source_dir/test/process/decode/keys
need_tool tshark
export PYTHONDONTWRITEBYTECODE=1
# No preferences or plugins of the user that runs the test.
export XDG_CONFIG_HOME=$work HOME=$work
cd "$work"

dissect() {  # dissect FILE OPTION...: tshark with the dissector, output in dissect.out
  tshark -n -X "lua_script:$dissector" -r "$@" >dissect.out 2>dissect.err ||
    fail "tshark: $(cat dissect.err)"
}
decode() { python3 "$support/decode.py" "$packets" "$@"; }
check() {  # check OPTION...: mrc_check.py, output in check.out
  python3 "$support/mrc_check.py" "$@" >check.out 2>check.err
}

say 'what is shown of packets'
decode >shown.txt || fail 'tshark'
if [[ -n $update ]]; then cp shown.txt "$packets"; fi
diff "$packets" shown.txt || fail 'the dissector shows something else'

say 'SRv6 routes, as the tests of the fabric judge them'
decode routes routes.pcap
check --fabric "$source_dir/tools/fabrics/demo.json" routes.pcap && fail 'all routes are right'
grep '^packet' check.out | diff - <(
  echo 'packet 5: fcba:0:3010:: is no list of uSIDs'
  echo 'packet 6: fcbb:0:1000:2101:3010:: and the other addresses are of more than one plane'
  echo 'packet 7: fcbb:0:1000:0:3010:: is no list of uSIDs'
  echo 'packet 8: the last uSID is 3011, not 3010 of fd00:1::2'
  echo 'packet 9: fcbb:0:1000:2001:3010:: and the other addresses are of more than one plane'
  echo 'packet 10: the outer source fd00:1::2 is not the host of fd00:1::1'
) || fail 'other routes are wrong'

say 'captured in part, and garbage: nothing but notes'
decode garbage garbage.pcap
dissect garbage.pcap -V -o mrc.strict:TRUE -o udp.try_heuristic_first:TRUE
expect 'packets of MRC among them' [ "$(grep -c '^Multipath' dissect.out)" -gt 1500 ]
# Others have bugs of their own: RPC over RDMA in Wireshark 4.0, for instance.
bugs=$(grep -i -e 'dissector bug, protocol MRC' -e 'Lua Error' dissect.out dissect.err) &&
  fail "$bugs"
dissect garbage.pcap -2 -R mrc.cut -Y mrc.cut
expect 'cut packets are found' [ "$(wc -l <dissect.out)" -gt 100 ]

say 'a key log that is not there, and one that grows while packets come in'
decode growing growing.pcap
dissect growing.pcap -o mrc.keylog:nosuch
expect 'it is named once' [ "$(grep -c nosuch dissect.err)" = 1 ]
size=$(((24 + $(stat -c %s growing.pcap)) / 2))
: >growing
mkfifo live
start live tshark -l -n -X "lua_script:$dissector" -r live -o mrc.keylog:growing \
  -T fields -e mrc.tag.status
exec 3<>live  # which does not wait for tshark
head -c "$size" growing.pcap >&3
until_true 30 test -s live.out || fail 'the first packet is not shown'
grep -m 1 0xabc123450badcafe "$keys" >>growing
tail -c +$((size + 1)) growing.pcap >&3
exec 3>&-
exit_code "$pid" 30
expect 'unknown, then known' [ "$(tr '\n' ' ' <live.out)" = '2 1 ' ]

sees_the_end() {  # sees_the_end FILE: a mark that is sent now, or was, has been recorded
  printf 'that is all' >/dev/udp/::1/9
  grep -q 'that is all' "$1"
}

record() {  # record NAME OPTION...: a run of mrc_perf over ::1, and what tcpdump sees of it
  local name=$1 tcpdump try
  shift
  for try in 1 2 3; do  # on a busy machine tcpdump may miss packets
    start tcpdump tcpdump -Z root -i lo -s 0 -B 65536 -U -w "$name.pcap" \
      udp portrange "${MRC_UDP_PORT}-$((MRC_UDP_PORT + 511))" or udp dst port 9
    tcpdump=$pid
    until_true 10 grep -q 'listening on' "$work/tcpdump.err" || return 1
    # The kernel must not join packets: what is on a link is not what loopback shows then.
    rm -f "$name.keys"
    # Few packets, as each computation of an iCRC takes the dissector a millisecond.
    host=::1 warmup=1ms MRC_KEYLOG=$work/$name.keys MRC_PLANES=loopback6:2 MRC_BURST=1 \
      MRC_GSO=off checked_run "$name" --mtu 4096 "$@"
    # What tcpdump has not read when it ends is lost.
    until_true 10 sees_the_end "$name.pcap" || fail 'tcpdump does not see the last packet'
    kill -INT "$tcpdump"
    exit_code "$tcpdump" 20
    if grep -qx '0 packets dropped by kernel' "$work/tcpdump.err"; then return; fi
    say "tcpdump did not keep up in try $try"
  done
  fail 'tcpdump did not keep up'
}
judge() {  # judge NAME LEAST: all that was recorded is MRC, and nothing is wrong with it
  check --port "$ports" --min "$2" --keylog "$1.keys" "$1.pcap" || fail "$(head -n 20 check.out)"
  cat check.out
  expect_text check.out ' unchecked 0,'
}
by_keys() {  # by_keys NAME OPTION...: tshark knows no ports, some of which may be other protocols'
  dissect "$1.pcap" -o udp.try_heuristic_first:TRUE -o "mrc.keylog:$1.keys" "${@:2}"
}
counted() { sed -n "s/^total: .*$1 \([0-9]*\),.*/\1/p" check.out; }

say 'what mrc_perf sends'
ports=$MRC_UDP_PORT-$((MRC_UDP_PORT + 511))
if ((EUID != 0)) || ! [[ -x $mrc_perf ]] || ! command -v tcpdump >/dev/null || ! has_ipv6 ||
  ! record writes --iters 40 --size 1,100,20000 --qps 2; then
  say 'it cannot be recorded here: left out'
  exit
fi
judge writes 250
expect 'every iCRC is right' [ "$(counted verified)" = "$(counted mrc)" ]
expect 'nearly all packets have a tag' [ "$(counted tagged)" -ge $(($(counted mrc) * 9 / 10)) ]
by_keys writes -Y 'mrc.var_res == 1 && mrc.icrc.status == 1' -T fields -e mrc.psn
expect 'the iCRC of data packets within a host leaves the payload out, and is right' \
  [ "$(wc -l <dissect.out)" -ge 250 ]
# Faults from the beginning: those of --fault might start when a busy machine has sent all there is.
# They are made after tcpdump has seen the packets.
# With more in flight its end takes longer, and there is more than tcpdump can keep up with.
MRC_FAULTS='loss=0.05;trim=0.03;ecn=0.03' record faults --iters 12 --test write_imm --size 8,32K \
  --qps 3 --depth 16 --bidirectional --option trim=on --option icrc=on
judge faults 600
expect_text check.out 'c6 ' 'c7 ' 'c9 ' 'cb ' 'd1 ' 'dd '
sacks=$(sed -n 's/.* dc \([0-9]*\).*/\1/p' check.out)
by_keys faults -Y 'mrc.sack && mrc.answer_to' -T fields -e mrc.answer_time
expect 'nearly all SACKs are matched' [ "$(wc -l <dissect.out)" -ge $((sacks * 95 / 100)) ]
