#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_decode.py, the judge of captures in other tests: it takes the document's test vectors and what
# follows the document, names each field that does not, and says so when a file is no good.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
support=$(cd "$(dirname "${BASH_SOURCE[0]}")/../support" && pwd)
command -v python3 >/dev/null || skip 'no python3'
python=$(python3 -c 'import sys; print(sys.executable)')  # the program itself, not a slow wrapper
export PYTHONDONTWRITEBYTECODE=1
cd "$work"

options=()
capture() { "$python" "$support/mrc_capture.py" "$@"; }
decode() {  # decode STATUS OPTION...: runs it, output in decode.out and decode.err
  local status=$1 result=0
  shift
  "$python" "$support/mrc_decode.py" "$@" >decode.out 2>decode.err || result=$?
  expect "exit status of mrc_decode.py $*" [ "$result" = "$status" ]
}
good() {  # good PACKET...: no violation
  capture good.pcap "$@"
  decode 0 --min $# "${options[@]}" good.pcap
  expect_text decode.out "mrc $#, foreign 0" 'violations 0'
}
bad() {  # bad FIELD PACKET...: one violation, of this field of the last packet
  local field=$1
  shift
  capture bad.pcap "$@"
  decode 1 "${options[@]}" bad.pcap
  grep -q "^packet $#: $field is .*, expected .* (mrc-1.0 §" decode.out ||
    fail "$field not named for: $*"
  expect "one violation for: $*" [ "$(grep -c ^packet decode.out)" = 1 ]
}
refused() {  # refused TEXT OPTION...: what it can't use is an error that says so
  local text=$1
  shift
  decode 2 "$@"
  expect_text decode.err "$text"
}

say 'the test vectors of the document (mrc-1.0 §1.15), with their checksums'
there=IPv6.source=0x20010db8000000000000000000000001
there+=,IPv6.destination=0x20010db8000000000000000000000002
options=(--partial --verbose)
good only
expect_text decode.out 'source=2001:db8::1 destination=2001:db8::2' 'dscp=0x4' 'flow_label=0x5a3' \
  'source_port=0x1234 destination_port=0x12b7 length=0x38' 'psn=0x10' 'dqp=0x200 a=0x1' 'ts=0x1' \
  'rqmsn=0x0 msn=0x0' 'tx_timestamp=0xbeef tsr=0x0' 'va=0x1000 r_key=0x11223344 dmalen=0x8' \
  'payload: 8 bytes'
good only,icrc=0xA085E775
good only,IPv6.flow_label=1,IPv6.dscp=0,icrc=0xA085E775
good only,BTH.rtx=1,IPv6.dscp=8,icrc=0xB976258C
good only,UDP.source_port=0x1235,icrc=0x6ABB14E6
good sack,$there,UDP.source_port=0x4321,icrc=0xF1460E90
expect_text decode.out 'psn=0x10' 'm=0x1' 'ack_psn_offset=0x3 entropy=0x5a31234' \
  'spdcid=0x200 dpdcid=0x100' 'cack_psn=0x10' 'mpr=0x20 sack_offset=0x1 sack_bitmap=0x6' \
  'tx_timestamp=0xbeef' 'ooo_count=0x3' 'rcvd_bytes=0x12'
options=()
bad IP.ecn verbatim  # the vector leaves ECN out; data that is Not-ECT can't be marked

say 'whole exchanges'
message=(first,payload=256,RETH.dmalen=600
  middle,payload=256,RETH.dmalen=600,BTH.psn=0x11,RETH.va=0x1100
  last,payload=88,RETH.dmalen=600,BTH.psn=0x12,RETH.va=0x1200)
imm=(only_imm,BTH.psn=0x13,METH.msn=1
  first,payload=256,RETH.dmalen=257,BTH.psn=0x14,METH.msn=2,METH.rqmsn=1
  last_imm,payload=1,RETH.dmalen=257,BTH.psn=0x15,METH.msn=2,METH.rqmsn=1,RETH.va=0x1100)
good "${message[@]}" "${imm[@]}" only,BTH.psn=0x16,METH.msn=3,payload=0,RETH.dmalen=0
good "${message[0]}" "${imm[@]}" "${message[2]}" "${message[1]}"
good "${message[@]}" "${message[1]},BTH.rtx=1,IPv6.dscp=8,UDP.source_port=99,TSETH.tx_timestamp=1"
good untimed only,BTH.psn=0x11,METH.msn=1
good only,BTH.psn=0xFFFFFF,METH.msn=0xFFFF only,BTH.psn=0
data=(only only,BTH.psn=0x12,METH.msn=2 only,BTH.psn=0x13,METH.msn=3,IPv6.ecn=3
  only,BTH.psn=0x14,METH.msn=4)
sack=sack,CC_STATE.rcvd_bytes=2
good "${data[@]}" "$sack" only,BTH.psn=0x11,METH.msn=1,BTH.rtx=1,IPv6.dscp=8 \
  ack,BTH.psn=0x14,AETH.msn=4
good "${data[@]}" "$sack,SETH.sack_offset=0xFFFF,SETH.sack_bitmap=0x1B"
trimmed=only,BTH.psn=0x15,METH.msn=5,trim=28
good "${data[@]}" "$trimmed" nack,BTH.psn=0x15,NETH.nack_psn=0x15 \
  only,BTH.psn=0x15,METH.msn=5,BTH.rtx=1,IPv6.dscp=8,UDP.source_port=7
good "$trimmed,IPv6.dscp=16" nack,BTH.psn=0x15,NETH.nack_psn=0x15,NETH.nack_reason=2
expect_text decode.out 'trimmed 1'
good probe "$sack,SETH.pr=1,SETH.m=0,SETH.ack_psn_offset=7,CC_STATE.rcvd_bytes=0"
good request response
good request,ERTH.op=0,ERTH.port_status_mask=3 response,EETH.op=0

say 'a field of one packet'
for field in BTH.se BTH.m BTH.tver BTH.var_res BTH.reserved BTH.inv_res TSETH.tsr TSETH.reserved \
  IPv6.flow_label_top; do
  bad $field "only,$field=1"
done
bad BTH.p_key only,BTH.p_key=0x7FFF
bad BTH.dqp only,BTH.dqp=1
bad BTH.dqp only,BTH.dqp=2
bad BTH.opcode only,BTH.opcode=0xCC
bad TSETH.ftype only,TSETH.ftype=2
bad IPv6.hop_limit only,IPv6.hop_limit=0
bad iCRC only,icrc=0xA085E776
bad BTH.pad only,payload=7,pad=0,RETH.dmalen=7
bad RETH.dmalen only,BTH.pad=1
bad UDP.length only,UDP.length=52
bad IPv6.length only,IPv6.length=60
bad IP.dscp only,IPv6.dscp=5
bad IP.dscp only,IPv6.dscp=8
bad IP.dscp only,BTH.rtx=1
bad IP.dscp only,IPv6.dscp=46
bad RETH.dmalen only,RETH.dmalen=9
bad METH.rqmsn only,METH.rqmsn=1
bad UDP.length only,trim=52,UDP.length=52
bad IP.length only,trim=24
options=(--partial)
for field in SETH.type SETH.nh SETH.reserved1 SETH.reserved2 SETH.reserved3 SETH.cc_type \
  SETH.cc_fl CC_STATE.reserved; do
  bad $field "sack,$field=1"
done
bad SETH.m sack,SETH.m=3
bad BTH.psn sack,BTH.psn=0x11
bad SETH.dpdcid sack,SETH.dpdcid=0x101
bad SETH.sack_bitmap sack,SETH.sack_bitmap=7
bad SETH.sack_bitmap sack,SETH.sack_offset=0,SETH.sack_bitmap=0
bad CC_STATE.ooo_count sack,CC_STATE.ooo_count=1
bad IP.dscp sack,IPv6.dscp=4
bad IP.ecn sack,IPv6.ecn=1
bad BTH.ts sack,BTH.ts=1
bad UDP.length sack,payload=4
for field in type nh reserved1 reserved2 reserved3 cc_fl; do
  bad NETH.$field "nack,NETH.$field=1"
done
bad NETH.cc_type nack,NETH.cc_type=0
bad NETH.nack_reason nack,NETH.nack_reason=3
bad NETH.dpdcid nack,NETH.dpdcid=1
bad BTH.psn nack,NETH.nack_psn=0x11
for field in type nh reserved1 reserved2 reserved3 reserved4 tsr; do
  bad PETH.$field "probe,PETH.$field=1"
done
bad PETH.ftype probe,PETH.ftype=2
bad PETH.dpdcid probe,PETH.dpdcid=1
bad BTH.psn probe,BTH.psn=1
bad IP.dscp probe,IPv6.dscp=46
for field in type nh reserved1 reserved2 reserved3 reserved4 tsr; do
  bad ERTH.$field "request,ERTH.$field=1"
done
bad ERTH.op request,ERTH.op=2
bad ERTH.port_status_mask request,ERTH.port_status_mask=1
bad BTH.dqp request,BTH.dqp=3
bad BTH.psn request,BTH.psn=0x10007
for field in type nh reserved1 reserved2 reserved3 reserved4; do
  bad EETH.$field "response,EETH.$field=1"
done
bad AETH.syndrome ack,AETH.syndrome=0x60
bad AETH.msn ack,AETH.msn=0x10000
options=()

say 'a field that does not fit the packets before it'
first=${message[0]} middle=${message[1]} last=${message[2]}
bad METH.msn "$first" "$middle,METH.msn=1"
bad METH.rqmsn "$first" "$middle,METH.rqmsn=1"
bad RETH.va "$first" "$middle,RETH.va=0x1000"
bad RETH.dmalen "$first" "$middle,RETH.dmalen=601"
bad RETH.r_key "$first" "$middle,RETH.r_key=1"
bad BTH.opcode "$first" "$middle,BTH.opcode=0xC6"
bad payload "$first" "$middle,payload=252"
bad payload "$first" "$last,BTH.psn=0x11,RETH.va=0x1100,payload=344"
bad METH.msn "${message[@]}" only,BTH.psn=0x13,METH.msn=2
bad BTH.opcode "${message[@]}" "$middle,BTH.psn=0x13,METH.msn=1"
bad METH.rqmsn only_imm only_imm,BTH.psn=0x11,METH.msn=1,METH.rqmsn=2
bad BTH.rtx only only
bad va only only,BTH.rtx=1,IPv6.dscp=8,RETH.va=0x2000
seen=sack,BTH.psn=0x12,SETH.cack_psn=0x12,SETH.ack_psn_offset=0,SETH.sack_bitmap=0,SETH.m=0
seen+=,CC_STATE.ooo_count=0,CC_STATE.rcvd_bytes=3
bad spdcid only "sack,SETH.spdcid=0x300"
whole=sack,BTH.psn=0x14,SETH.cack_psn=0x14,SETH.ack_psn_offset=0xFFFF,SETH.sack_bitmap=0
whole+=,CC_STATE.ooo_count=0
good "${data[@]}" only,BTH.psn=0x11,METH.msn=1 "$whole,CC_STATE.rcvd_bytes=2"
bad SETH.cack_psn "${data[@]}" "$whole,CC_STATE.rcvd_bytes=2"
bad SETH.sack_offset "${data[@]}" "$sack,SETH.sack_offset=6,SETH.sack_bitmap=0"
bad SETH.sack_bitmap "${data[@]}" "$sack,SETH.sack_bitmap=0x16"
bad CC_STATE.ooo_count "${data[@]}" "$sack,CC_STATE.ooo_count=4"
bad CC_STATE.rcvd_bytes "${data[@]}" sack
bad CC_STATE.rcvd_bytes "${data[@]}" "$sack" only,BTH.psn=0x11,METH.msn=1 \
  "$whole,CC_STATE.rcvd_bytes=1"
bad entropy "${data[@]}" "$sack,SETH.entropy=0x12345A3"
bad tx_timestamp "${data[@]}" "$sack,CC_STATE.tx_timestamp=1"
bad 'PSN 17' "${data[@]}" "$sack,SETH.ack_psn_offset=1,SETH.m=0"
bad SETH.m "${data[@]}" "$sack,SETH.m=0"
bad 'probe 8' probe "$sack,SETH.pr=1,SETH.m=0,SETH.ack_psn_offset=8,CC_STATE.rcvd_bytes=0"
bad 'PSN 18 trimmed' "${data[@]}" "$trimmed" nack,BTH.psn=0x12,NETH.nack_psn=0x12
bad 'PSN 21 trimmed' "$trimmed" nack,BTH.psn=0x15,NETH.nack_psn=0x15,NETH.nack_reason=2
bad tx_timestamp "$trimmed" nack,BTH.psn=0x15,NETH.nack_psn=0x15,NETH.tx_timestamp=1
bad AETH.msn "${data[@]}" "$sack" ack,AETH.msn=1
bad BTH.psn "${message[@]}" "$seen" ack,BTH.psn=0x11
bad BTH.psn response
bad 'EETH.op, tx_timestamp' request response,EETH.tx_timestamp=1
options=(--mtu 512)
bad payload "$first"
options=()

say 'SRv6, with a description of the fabric'
cat >fabric.json <<'JSON'
{ // two planes, told apart by
  /* bits of the uSIDs */
  "planes": 2, "t0": 2, "t1": 2, "block": "fcbb::/32", "dscp": { "trimmable": 4 },
  "hosts": [ { "addresses": ["2001:db8::1", "2001:db8:1::1"] },
             { "name": "other", "addresses": ["2001:db8::2", "2001:db8:1::2"] } ]
}
JSON
options=(--fabric fabric.json --json decode.json)
route=outer=fcbb:0:1000:2001:3010::
good "only,$route"
expect_text decode.json '"0": 1' '"fcbb:0:1000:2001:3010::": 1' '"violations": 0'
good only,outer=fcbb:0:3010:: "only,BTH.psn=0x11,METH.msn=1,$route,outer.ecn=3"
expect_text decode.out 'ce 1'
good only,outer=fcbb:0:1000::,srh=fcbb:0:2001:3010::
good "only,$route,trim=28" nack
bad 'outer IPv6.destination' only,outer=fcba:0:3010::
bad 'outer IPv6.destination' only,outer=fcbb:0:1000:2101:3010::
bad 'outer IPv6.destination' only,outer=fcbb:0:1000:0:3010::
bad 'last uSID' only,outer=fcbb:0:1000:2001:3011::
bad 'IPv6.source' "only,$route,outer.source=0x20010db8000100000000000000000001"
bad 'host of the outer IPv6.source' "only,$route,outer.source=0x20010db8000000000000000000000002"
bad 'inner IPv6.length' "only,$route,IPv6.length=60"
bad IPv6.length "only,$route,outer.length=97"
bad 'outer IPv6.dscp' "only,$route,outer.dscp=8,BTH.rtx=1"
bad 'outer IPv6.ecn' "only,$route,outer.ecn=1"
bad SRH.segments_left "only,$route,srh=fcbb:0:3010::,SRH.segments_left=2"
bad SRH.last_entry "only,$route,srh=fcbb:0:3010::,SRH.last_entry=1"
bad SRH.tag "only,$route,srh=fcbb:0:3010::,SRH.tag=1"
options=(--block fcbb::/32 --plane-mask 0x0f00 --dscp trimmable=20)
good "only,$route,IPv6.dscp=20,outer.dscp=20"
bad IP.dscp only

say 'other packets are not judged'
options=(--min 0)
capture foreign.pcap raw= raw=60 only,UDP.destination_port=53 only,BTH.opcode=0x0A \
  only,IPv6.next_header=6 raw=6000000000003a40 raw="$(head -c 200 /dev/zero | tr '\0' 6)"
decode 0 --min 0 foreign.pcap
expect_text decode.out 'packets 7, mrc 0, foreign 7'
decode 1 foreign.pcap
expect_text decode.err 'only 0 packets of MRC'
capture other_port.pcap only,UDP.destination_port=5000
decode 0 --port 4990-5010 other_port.pcap

say 'formats: byte orders, nanoseconds, cooked, a snaplen, several files'
for format in '' --big --nano '--big --nano' --cooked; do
  # shellcheck disable=SC2086  # none, one or two options
  capture $format format.pcap "${message[@]}"
  decode 0 --min 3 format.pcap
done
capture cut.pcap "$first,cut=160" "$middle,cut=100" "$last,cut=50"
decode 0 --min 2 cut.pcap
expect_text decode.out 'cut 3'
capture one.pcap "$first" "$last"
capture two.pcap "${imm[0]}" "$middle"
decode 0 --min 4 one.pcap two.pcap
capture two.pcap "${imm[0]}" "$middle,METH.msn=9"
decode 1 one.pcap two.pcap
expect_text decode.out 'packet two.pcap:2: METH.msn is 9, expected 0'

say 'files and options that are no good'
size=$(wc -c <one.pcap)
for bytes in 1 4 23 25 39 41 $((size - 1)); do
  head -c "$bytes" one.pcap >short.pcap
  decode 2 short.pcap
  expect_text decode.err short.pcap
done
refused 'cut short' short.pcap
: >empty.pcap
refused 'empty' empty.pcap
refused 'no pcap file' "$support/mrc_decode.py"
refused 'No such file' nosuch.pcap
{ printf '\n\r\r\n' && head -c 100 one.pcap; } >ng.pcap
refused 'tshark -F pcap' ng.pcap
{ head -c 20 one.pcap && printf '\x69\0\0\0'; } >wifi.pcap
refused 'link type 105' wifi.pcap
{ head -c 32 one.pcap && printf '\377\377\377\377' && tail -c +37 one.pcap; } >huge.pcap
refused 'damaged' huge.pcap
refused 'fcbb::/32' --block 10.0.0.0 one.pcap
refused 'no DSCP class' --dscp red=5 one.pcap
refused '0 .. 63' --dscp control=64 one.pcap
refused '1 .. 65535' --port 0 one.pcap
refused 'no number' --mtu many one.pcap
refused 'IPv4 or IPv6' --host here one.pcap
refused 'No such file' --fabric nosuch.json one.pcap
for text in '{' '[1]' '{ "hosts": "many" }' '{ "planes": 0 }' '{ "usids": 5 }' \
  '{ "hosts": [{ "addresses": ["fd00::1"] }], "planes": 2 }' '{ "block": "fcbb::/48" }'; do
  printf '%s\n' "$text" >wrong.json
  refused wrong.json --fabric wrong.json one.pcap
done

say 'tshark reads the same'
if command -v tshark >/dev/null; then
  fields=(ipv6.dst infiniband.bth.destqp udp.length)
  for field in opcode se m padcnt tver p_key a psn; do fields+=("infiniband.bth.$field"); done
  capture tshark.pcap "${message[@]}" "${imm[@]}" only,outer=fcbb:0:1000:2001:3010::,payload=5 \
    only,BTH.psn=0xFEDCBA,BTH.dqp=0xABCDEF,BTH.p_key=0x7654,BTH.tver=5 only,BTH.se=1 only,BTH.m=1 \
    "$sack" nack ack probe request response
  tshark -n -r tshark.pcap -T fields -E separator=' ' "${fields[@]/#/-e}" 2>tshark.err |
    sed 's/True/1/g; s/False/0/g' | awk '{
      sub(/^0x0*/, "0x", $2)
      printf "%s %s", $1, $2
      for (i = 3; i <= NF; ++i) printf " 0x%x", $i
      print ""
    }' >tshark.out
  decode 1 --verbose tshark.pcap
  awk '
    /^packet/ || /^total/ { if (dst != "") print dst, rest; dst = "" }
    { for (i = 2; i <= NF; ++i) { split($i, pair, "="); value[pair[1]] = pair[2] } }
    /^  IPv6:/ { dst = dst (dst == "" ? "" : ",") value["destination"] }
    /^  UDP:/ { size = value["length"] }
    /^  BTH:/ {
      rest = value["dqp"] " " size
      count = split("opcode se m pad tver p_key a psn", names, " ")
      for (i = 1; i <= count; ++i) rest = rest " " value[names[i]]
    }' decode.out >decoder.out
  diff tshark.out decoder.out >difference.out || fail 'tshark reads other values'
  expect 'every packet compared' [ "$(wc -l <tshark.out)" = 16 ]
else
  say 'it is not installed: left out'
fi

record() {  # record NAME OPTION...: a run of mrc_perf over ::1, and what tcpdump sees of it
  local name=$1 tcpdump
  shift
  start tcpdump tcpdump -Z root -i lo -s 0 -B 65536 -w "$name.pcap" \
    udp portrange "${MRC_UDP_PORT}-$((MRC_UDP_PORT + 511))"
  tcpdump=$pid
  until_true 10 grep -q 'listening on' "$work/tcpdump.err" || return 1
  # The kernel must not join packets: what is on a link is not what loopback shows then.
  host=::1 MRC_PLANES=loopback6:2 MRC_BURST=1 MRC_GSO=off checked_run "$name" --iters 100 "$@"
  kill -INT "$tcpdump"
  exit_code "$tcpdump" 20
  expect 'tcpdump kept up' grep -qx '0 packets dropped by kernel' "$work/tcpdump.err"
}

say 'what mrc_perf sends'
ports=$MRC_UDP_PORT-$((MRC_UDP_PORT + 511))
if ((EUID != 0)) || ! [[ -x $mrc_perf ]] || ! command -v tcpdump >/dev/null || ! has_ipv6 ||
  ! record writes --size 1,100,20000 --qps 2; then
  say 'it cannot be recorded here: left out'
  exit
fi
decode 0 --port "$ports" --mtu 4096 --min 1500 writes.pcap
expect_text decode.out 'unmatched 0'
# With more in flight its end takes longer, and there is more than tcpdump can keep up with.
record immediates --test write_imm --size 8,64K --qps 3 --depth 16 --bidirectional \
  --fault loss=0.01
decode 0 --port "$ports" --min 5000 immediates.pcap
expect_text decode.out WRITE_ONLY_IMM WRITE_LAST_IMM trimmable_retx
record trims --size 64K --fault 'trim=0.02;ecn=0.02'  # made after tcpdump has seen the packets
decode 0 --port "$ports" --min 1500 --partial trims.pcap
expect_text decode.out NACK
