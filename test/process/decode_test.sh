#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Wireshark dissector tools/wireshark/mrc.lua, and with it the judge of captures in other tests:
# it reads the document's test vectors and whatever other packets say, names each field that does
# not follow the document, survives garbage, and leaves other protocols alone. It needs a key log to
# judge OpenMRC's own packets; decode_tags_test.sh has more of that.

# Root records packets: in a network namespace of its own, where no other test's can be.
if ((EUID == 0)) && [[ -z ${MRC_TEST_OWN_NETWORK:-} ]] && unshare --net true 2>/dev/null; then
  MRC_TEST_OWN_NETWORK=1 exec unshare --net bash "${BASH_SOURCE[0]}" "$@"
fi
if [[ -n ${MRC_TEST_OWN_NETWORK:-} ]]; then ip link set lo up; fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/decode_lib.sh"

shows() {  # shows FILE FIELD=VALUE...: those of its first packet
  local file=$1 pair names=() values=()
  shift
  for pair in "$@"; do names+=(-e "${pair%%=*}") values+=("${pair#*=}"); done
  dissect "$file" -c 1 -T fields -E aggregator=/s "${names[@]}"
  printf '%s\n' "${values[@]}" >expected.out
  tr '\t' '\n' <dissect.out | sed 's/^True$/1/; s/^False$/0/' | diff expected.out - ||
    fail "$file: other fields than in the document: $*"
}

say 'the test vectors of the document (mrc-1.0 §1.15), with their checksums'
head=(mrc.opcode=0xca mrc.se=0 mrc.m=0 mrc.pad=0 mrc.tver=0 mrc.p_key=0xffff mrc.var_res=0x00
  mrc.dqp=0x000200 mrc.a=1 mrc.rtx=0 mrc.ts=1 mrc.psn=16 mrc.meth.rqmsn=0 mrc.meth.msn=0)
rest=(mrc.tseth.tx_timestamp=48879 mrc.tseth.tsr=0 mrc.tseth.ftype=1
  mrc.reth.va=0x0000000000001000 mrc.reth.r_key=0x11223344 mrc.reth.dmalen=8
  mrc.payload=4142434445464748 mrc.payload_length=8 mrc.trimmed= mrc.path=)
capture vector.pcap only
shows vector.pcap "${head[@]}" "${rest[@]}" mrc.icrc=0xa085e775 mrc.icrc.status=1 mrc.ev=0x05a31234
there=IPv6.source=0x20010db8000000000000000000000001
there+=,IPv6.destination=0x20010db8000000000000000000000002
capture sack.pcap "sack,$there,UDP.source_port=0x4321,icrc=0xF1460E90"
shows sack.pcap mrc.opcode=0xdc mrc.dqp=0x000100 mrc.psn=16 mrc.sack.m=1 mrc.sack.pr=0 \
  mrc.sack.ack_psn_offset=3 mrc.sack.entropy=0x05a31234 mrc.sack.spdcid=0x0200 \
  mrc.sack.dpdcid=0x0100 mrc.sack.cack_psn=16 mrc.sack.cc_type=0 mrc.sack.mpr=32 \
  mrc.sack.sack_offset=1 mrc.sack.bitmap=0x0000000000000006 mrc.cc.tx_timestamp=48879 \
  mrc.cc.ooo_count=3 mrc.cc.rcvd_bytes=18 mrc.icrc=0xf1460e90 mrc.icrc.status=1 \
  mrc.sack.trigger_psn=19 mrc.sack.base_psn=17 mrc.sack.received=2 mrc.sack.missing=17
icrcs=(only,IPv6.flow_label=1,IPv6.dscp=0,icrc=0xA085E775
  only,BTH.rtx=1,icrc=0xB976258C only,UDP.source_port=0x1235,icrc=0x6ABB14E6
  only,icrc=0xA085E776 only,v4=1 only,v4=1,icrc=1 only,payload=5 only,payload=1021)
capture icrc.pcap "${icrcs[@]}"
dissect icrc.pcap -T fields -e mrc.icrc.status
expect 'iCRCs right and wrong' [ "$(tr '\n' ' ' <dissect.out)" = '1 1 1 0 1 0 1 1 ' ]

say 'every field of every header, with random values'
bases=(first middle last_imm only_imm untimed sack nack ack probe request response
  send_first send_last_imm read read_middle atomic_response compare_swap fetch_add)
for i in {1..20}; do printf 'random=%s\n' "${bases[@]}"; done >random.txt
capture random.pcap - <random.txt
"$python" - "$dissector" <<'PYTHON' || fail 'the dissector reads other values'
import json, subprocess, sys
expected = json.load(open("random.pcap.expected"))
names = sorted({name for packet in expected for name in packet})
command = ["tshark", "-n", "-r", "random.pcap", "-X",
           "lua_script:" + sys.argv[1], "-T", "fields"]
lines = subprocess.run(command + [w for n in names for w in ("-e", n)], check=True, text=True,
                       capture_output=True).stdout.splitlines()
def number(text):
    words = {"True": 1, "False": 0}
    long = len(text) in (12, 52) and not text.startswith("0x")  # fields of bytes
    return words[text] if text in words else int(text, 16 if long else 0)
assert len(lines) == len(expected), (len(lines), len(expected))
for i, (line, packet) in enumerate(zip(lines, expected), 1):
    seen = {n: number(v) for n, v in zip(names, line.split("\t")) if v != ""}
    other = {n: (seen.get(n), packet.get(n)) for n in names if seen.get(n) != packet.get(n)}
    if other:
        sys.exit(f"packet {i}: (read, written): {other}")
print(f"{len(lines)} packets, {len(names)} fields")
PYTHON

options=(--partial)
bad ip.ecn verbatim  # the vector leaves ECN out; data that is Not-ECT can't be marked
options=()
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
good "${data[@]}" "$sack,SETH.sack_offset=0xFFFF,SETH.bitmap=0x1B"
trimmed=only,BTH.psn=0x15,METH.msn=5,trim=28
good "${data[@]}" "$trimmed" nack,BTH.psn=0x15,NETH.psn=0x15 \
  only,BTH.psn=0x15,METH.msn=5,BTH.rtx=1,IPv6.dscp=8,UDP.source_port=7
good "$trimmed,IPv6.dscp=16" nack,BTH.psn=0x15,NETH.psn=0x15,NETH.reason=2
good probe "$sack,SETH.pr=1,SETH.m=0,SETH.ack_psn_offset=7,CC_STATE.rcvd_bytes=0"
good request response
good request,ERTH.op=0,ERTH.port_status_mask=3 response,EETH.op=0

send=(send_first,payload=256,RETH.dmalen=300,METH.msn=0
  send_last,payload=44,RETH.dmalen=300,METH.msn=0,BTH.psn=0x11,RETH.va=256)
read=(read_first,payload=256,RETH.dmalen=520,METH.msn=0,METH.rqmsn=7
  read_middle,payload=256,RETH.dmalen=520,METH.msn=0,METH.rqmsn=7,BTH.psn=0x11,RETH.va=256
  read_last,payload=8,RETH.dmalen=520,METH.msn=0,METH.rqmsn=7,BTH.psn=0x12,RETH.va=512)
# Receives are numbered together, requests apart from them, messages all together.
good "${send[@]}" only_imm,BTH.psn=0x12,METH.msn=1,METH.rqmsn=4 \
  read,BTH.psn=0x13,METH.msn=2,METH.rqmsn=0xFFFF,RETH.dmalen=520 \
  fetch_add,BTH.psn=0x14,METH.msn=3,METH.rqmsn=0 only,BTH.psn=0x15,METH.msn=4 \
  compare_swap,BTH.psn=0x16,METH.msn=5,METH.rqmsn=1 \
  send_only_imm,BTH.psn=0x17,METH.msn=6,METH.rqmsn=5
good "${read[@]}" atomic_response,BTH.psn=0x13,METH.msn=1,METH.rqmsn=2 \
  read_only,BTH.psn=0x14,METH.msn=2,METH.rqmsn=9 \
  read_only,BTH.psn=0x15,METH.msn=3,METH.rqmsn=10,payload=0,RETH.dmalen=0
good send_only nack,NETH.reason=0x80,NETH.vendor_info=12 \
  send_only,BTH.rtx=1,IPv6.dscp=8,UDP.source_port=7
good read,trim=28 nack

say 'a field of one packet'
bad RETH.r_key send_only,RETH.r_key=1
bad RETH.r_key read_only,RETH.r_key=1
bad RETH.r_key atomic_response,RETH.r_key=1
bad mrc.payload_length read,payload=4
bad mrc.payload_length fetch_add,payload=8
bad RETH.dmalen compare_swap,RETH.dmalen=16
bad RETH.dmalen atomic_response,RETH.dmalen=4
bad RETH.va send_only,RETH.va=8
bad RETH.va read_only,RETH.va=8
bad RETH.dmalen send_only,RETH.dmalen=9
for field in BTH.se BTH.m BTH.tver BTH.var_res BTH.reserved BTH.inv_res TSETH.tsr TSETH.reserved; do
  bad $field "only,$field=1"
done
bad "flow label, bits 19:16," only,IPv6.flow_label_top=1
bad BTH.p_key only,BTH.p_key=0x7FFF
bad BTH.dqp only,BTH.dqp=1
bad BTH.dqp only,BTH.dqp=2
bad BTH.opcode only,BTH.opcode=0xD5
bad TSETH.ftype only,TSETH.ftype=2
bad mrc.icrc only,icrc=0xA085E776
bad BTH.pad only,payload=7,pad=0,RETH.dmalen=7
bad RETH.dmalen only,BTH.pad=1
bad udp.length only,UDP.length=52
bad ip.dscp only,IPv6.dscp=5
bad ip.dscp only,IPv6.dscp=8
bad ip.dscp only,BTH.rtx=1
bad ip.dscp only,IPv6.dscp=46
bad RETH.dmalen only,RETH.dmalen=9
bad METH.rqmsn only,METH.rqmsn=1
bad udp.length only,trim=52,UDP.length=52
bad "room from UDP on" only,trim=24
options=(--partial)
for field in SETH.type SETH.nh SETH.reserved1 SETH.reserved2 SETH.reserved3 SETH.cc_type \
  SETH.cc_fl CC_STATE.reserved; do
  bad $field "sack,$field=1"
done
bad SETH.m sack,SETH.m=3
bad BTH.psn sack,BTH.psn=0x11
bad SETH.dpdcid sack,SETH.dpdcid=0x101
bad SETH.bitmap sack,SETH.bitmap=7
bad SETH.bitmap sack,SETH.sack_offset=0,SETH.bitmap=0
bad CC_STATE.ooo_count sack,CC_STATE.ooo_count=1
bad ip.dscp sack,IPv6.dscp=4
bad ip.ecn sack,IPv6.ecn=1
bad BTH.ts sack,BTH.ts=1
bad mrc.payload_length sack,payload=4
for field in type nh reserved1 reserved2 reserved3 cc_fl; do
  bad NETH.$field "nack,NETH.$field=1"
done
bad NETH.cc_type nack,NETH.cc_type=0
bad NETH.reason nack,NETH.reason=3
bad NETH.dpdcid nack,NETH.dpdcid=1
bad BTH.psn nack,NETH.psn=0x11
for field in type nh reserved1 reserved2 reserved3 reserved4 tsr; do
  bad PETH.$field "probe,PETH.$field=1"
done
bad PETH.ftype probe,PETH.ftype=2
bad PETH.dpdcid probe,PETH.dpdcid=1
bad BTH.psn probe,BTH.psn=1
bad ip.dscp probe,IPv6.dscp=46
for field in type nh reserved1 reserved2 reserved3 reserved4 tsr; do
  bad ERTH.$field "request,ERTH.$field=1"
done
bad ERTH.op request,ERTH.op=2
bad ERTH.port_status_mask request,ERTH.port_status_mask=1
bad BTH.dqp request,BTH.dqp=3
bad BTH.psn request,BTH.psn=0x10007
for field in type nh reserved1 reserved2 reserved3 reserved4 reserved5; do
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
bad METH.rqmsn "${send[@]}" send_only,BTH.psn=0x12,METH.msn=1,METH.rqmsn=3
bad METH.rqmsn read fetch_add,BTH.psn=0x11,METH.msn=11,METH.rqmsn=1
bad METH.rqmsn "${read[0]}" "${read[1]},METH.rqmsn=8"
bad RETH.va "${read[0]}" "${read[1]},RETH.va=512"
bad METH.msn read fetch_add,BTH.psn=0x11,METH.msn=10,METH.rqmsn=2
bad BTH.opcode "${read[0]}" "${read[1]},BTH.opcode=0xC1"
seen=sack,BTH.psn=0x12,SETH.cack_psn=0x12,SETH.ack_psn_offset=0,SETH.bitmap=0,SETH.m=0
seen+=,CC_STATE.ooo_count=0,CC_STATE.rcvd_bytes=3
bad spdcid only "sack,SETH.spdcid=0x300"
whole=sack,BTH.psn=0x14,SETH.cack_psn=0x14,SETH.ack_psn_offset=0xFFFF,SETH.bitmap=0
whole+=,CC_STATE.ooo_count=0
good "${data[@]}" only,BTH.psn=0x11,METH.msn=1 "$whole,CC_STATE.rcvd_bytes=2"
bad SETH.cack_psn "${data[@]}" "$whole,CC_STATE.rcvd_bytes=2"
bad SETH.sack_offset "${data[@]}" "$sack,SETH.sack_offset=6,SETH.bitmap=0"
bad SETH.bitmap "${data[@]}" "$sack,SETH.bitmap=0x16"
bad CC_STATE.ooo_count "${data[@]}" "$sack,CC_STATE.ooo_count=4"
bad CC_STATE.rcvd_bytes "${data[@]}" sack
bad CC_STATE.rcvd_bytes "${data[@]}" "$sack" only,BTH.psn=0x11,METH.msn=1 \
  "$whole,CC_STATE.rcvd_bytes=1"
bad entropy "${data[@]}" "$sack,SETH.entropy=0x12345A3"
bad timestamp "${data[@]}" "$sack,CC_STATE.tx_timestamp=1"
bad 'PSN 17' "${data[@]}" "$sack,SETH.ack_psn_offset=1,SETH.m=0"
bad SETH.m "${data[@]}" "$sack,SETH.m=0"
bad 'probe 8' probe "$sack,SETH.pr=1,SETH.m=0,SETH.ack_psn_offset=8,CC_STATE.rcvd_bytes=0"
bad 'PSN 18 trimmed' "${data[@]}" "$trimmed" nack,BTH.psn=0x12,NETH.psn=0x12
bad 'PSN 21 trimmed' "$trimmed" nack,BTH.psn=0x15,NETH.psn=0x15,NETH.reason=2
bad timestamp "$trimmed" nack,BTH.psn=0x15,NETH.psn=0x15,NETH.tx_timestamp=1
bad AETH.msn "${data[@]}" "$sack" ack,AETH.msn=1
bad BTH.psn "${message[@]}" "$seen" ack,BTH.psn=0x11
bad BTH.psn response
bad 'operation and timestamp' request response,EETH.tx_timestamp=1
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
options=(--fabric)
route=outer=fcbb:0:1000:2001:3010::
good "only,$route"
good only,outer=fcbb:0:3010:: "only,BTH.psn=0x11,METH.msn=1,$route,outer.ecn=3"
good only,outer=fcbb:0:1000::,srh=fcbb:0:2001:3010::
good "only,$route,trim=28" nack
bad 'outer ipv6.dst' only,outer=fcba:0:3010::
bad 'outer ipv6.dst' only,outer=fcbb:0:1000:2101:3010::
bad 'outer ipv6.dst' only,outer=fcbb:0:1000:0:3010::
bad 'last uSID' only,outer=fcbb:0:1000:2001:3011::
bad 'ipv6.src' "only,$route,IPv6.source=0x20010db8000100000000000000000001"
bad 'host of the outer ipv6.src' "only,$route,outer.source=0x20010db8000000000000000000000002"
bad 'inner ipv6.plen' "only,$route,IPv6.length=60"
bad 'outer ip.dscp' "only,$route,outer.dscp=8,BTH.rtx=1"
bad 'outer ip.ecn' "only,$route,outer.ecn=1"
check_cases --fabric fabric.json

say 'paths, trims and answers'
capture path.pcap "only,$route,outer.ecn=3" "only,$route,srh=fcbb:0:2001:3010::,BTH.psn=17" \
  "only,$route,trim=28,BTH.psn=18" first,BTH.psn=19 sack nack,NETH.psn=19 probe \
  "$sack,SETH.pr=1,SETH.ack_psn_offset=7" request response
dissect path.pcap -2 -T fields -E aggregator=/s -e mrc.path -e mrc.segment -e mrc.trimmed \
  -e mrc.ce -e mrc.icrc.status -e mrc.answer_in -e mrc.answer_to -e mrc.answer_time
sed 's/True/1/g' dissect.out | diff - <(
  path=fcbb:0:1000:2001:3010::
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
    $path '' '' 1 1 '' '' '' \
    $path fcbb:0:2001:3010:: '' '' 1 '' '' '' \
    $path '' 1 '' 3 '' '' '' \
    '' '' '' '' 1 5 '' '' \
    '' '' '' '' 1 '' 4 0.000001000 \
    '' '' '' '' 1 '' 4 0.000002000 \
    '' '' '' '' 1 8 '' '' \
    '' '' '' '' 1 '' 7 0.000001000 \
    '' '' '' '' 1 10 '' '' \
    '' '' '' '' 1 '' 9 0.000001000
) || fail 'paths or answers'
for format in 1:0x05a31234 2:0x123405a3 3:0x00001234; do
  dissect vector.pcap -o "mrc.ev_format:${format%%:*}" -T fields -e mrc.ev
  expect "EV of format $format" [ "$(<dissect.out)" = "${format#*:}" ]
done
dissect icrc.pcap -o mrc.verify_icrc:FALSE -T fields -e mrc.icrc.status
expect 'iCRCs are not verified' [ "$(sort -u dissect.out)" = 2 ]

say 'the info column, names and units'
reasons=(1 2 6 7 10 11 25)
capture info.pcap "$first" middle last last_imm only_imm,BTH.rtx=1,IPv6.ecn=3 only,trim=28 \
  only,icrc=1 sack sack,SETH.m=2,SETH.pr=1 "${reasons[@]/#/nack,NETH.reason=}" ack \
  ack,AETH.syndrome=0x61 ack,AETH.syndrome=0x62 ack,AETH.syndrome=0x63 probe request \
  request,ERTH.op=0,ERTH.port_status_mask=6 response "${send[0]}" send_only_imm \
  read,RETH.dmalen=520 "${read[2]}" atomic_response compare_swap fetch_add,trim=28 \
  nack,NETH.reason=0x80,NETH.vendor_info=12 nack,NETH.reason=0x80,NETH.vendor_info=0
dissect info.pcap -T fields -e _ws.col.Info
diff - dissect.out <<'TEXT' || fail 'the info column'
Write First QP 0x000200 PSN 16 MSN 0 Len 256 of 600 [A]
Write Middle QP 0x000200 PSN 16 MSN 0 Len 8 of 8 [A]
Write Last QP 0x000200 PSN 16 MSN 0 Len 8 of 8 [A]
Write Last with Immediate QP 0x000200 PSN 16 MSN 0 Len 8 of 8 [A]
Write Only with Immediate QP 0x000200 PSN 16 MSN 0 Len 8 of 8 [A] [RTX] [CE]
Write Only QP 0x000200 PSN 16 MSN 0 [A] [TRIMMED]
Write Only QP 0x000200 PSN 16 MSN 0 Len 8 of 8 [A] [BAD iCRC]
SACK QP 0x000100 cack 16 for PSN 19 received +2 missing 1 [SKIP_ONCE]
SACK QP 0x000100 cack 16 for probe 3 received +2 missing 1 [ALWAYS_SKIP]
NACK QP 0x000100 TRIMMED PSN 16
NACK QP 0x000100 TRIMMED_LASTHOP PSN 16
NACK QP 0x000100 NO_BITMAP PSN 16
NACK QP 0x000100 NO_PKT_BUFFER PSN 16
NACK QP 0x000100 NO_RESOURCE PSN 16
NACK QP 0x000100 PSN_OOR_WINDOW PSN 16
NACK QP 0x000100 UNEXP_EVENT PSN 16
ACK QP 0x000100 PSN 16 MSN 0
NAK: invalid request QP 0x000100 PSN 16 MSN 0
NAK: remote access error QP 0x000100 PSN 16 MSN 0
NAK: remote operational error QP 0x000100 PSN 16 MSN 0
Probe QP 0x000200 id 7
Endpoint Request QP 0x000002 EV probe id 7
Endpoint Request QP 0x000002 port status update id 7
Endpoint Response QP 0x000002 EV probe id 7
Send First QP 0x000200 PSN 16 MSN 0 Len 256 of 300 [A]
Send Only with Immediate QP 0x000200 PSN 16 MSN 9 Len 8 of 8 [A]
Read Request QP 0x000200 PSN 16 MSN 10 Request 1 Len 520 [A]
Read Response Last QP 0x000200 PSN 18 MSN 0 Request 7 Len 8 of 520 [A]
Atomic Response QP 0x000200 PSN 16 MSN 9 Request 3 Len 8 of 8 [A]
Compare and Swap QP 0x000200 PSN 16 MSN 10 Request 1 Len 8 [A]
Fetch and Add QP 0x000200 PSN 16 MSN 10 Request 1 [A] [TRIMMED]
NACK QP 0x000100 RECEIVER_NOT_READY PSN 16 wait 640 us
NACK QP 0x000100 RECEIVER_NOT_READY PSN 16 wait 655360 us
TEXT
dissect info.pcap -V
expect_text dissect.out '18 (4608 bytes)' '32 (4096 PSNs)' '6256.512 us' 'ports: 2, 3)' \
  'Opcode: Probe (0xde)' 'Reason: NO_RESOURCE (0x0a)' 'Syndrome: ACK (0x1f)' 'iCRC status: bad'

say 'other protocols and ports'
capture foreign.pcap only,BTH.opcode=0x0A only,UDP.destination_port=53,BTH.opcode=0x0A \
  only,UDP.destination_port=4971 only,UDP.destination_port=5000 \
  only,UDP.destination_port=5000,icrc=1 only,UDP.source_port=53 raw= raw=60 \
  only,IPv6.next_header=6 raw=6000000000003a40 raw="$(head -c 200 /dev/zero | tr '\0' 6)"
first_six() { head -n 6 dissect.out | tr '\n' ' '; }
dissect foreign.pcap -T fields -e _ws.col.Protocol
expect 'RoCE stays RoCE' [ "$(first_six)" = 'RRoCE DNS MRC MRC UDP DNS ' ]
dissect foreign.pcap -o udp.try_heuristic_first:TRUE -T fields -e _ws.col.Protocol
expect 'a source port of DNS' [ "$(first_six)" = 'RRoCE DNS MRC MRC UDP MRC ' ]
dissect foreign.pcap -o mrc.ports:4990-5010 -T fields -e _ws.col.Protocol
expect 'other ports' [ "$(first_six)" = 'RRoCE DNS MRC MRC MRC DNS ' ]
dissect foreign.pcap -d udp.port==5000,mrc -T fields -e _ws.col.Protocol
expect 'decode as' [ "$(first_six)" = 'RRoCE DNS MRC MRC MRC DNS ' ]

say 'captured in part, and garbage: nothing but notes'
for ((i = 50; i < 120; ++i)); do
  for base in only_imm sack nack probe request response; do echo "$base,cut=$i"; done
done >garbage.txt
for ((i = 0; i < 3000; ++i)); do echo "garbage=$((i % 8 + 1))"; done >>garbage.txt
capture garbage.pcap - <garbage.txt
dissect garbage.pcap -V -o mrc.strict:TRUE -o udp.try_heuristic_first:TRUE
expect 'packets of MRC among them' [ "$(grep -c '^Multipath' dissect.out)" -gt 1500 ]
# Others have bugs of their own: RPC over RDMA in Wireshark 4.0, for instance.
bugs=$(grep -i 'dissector bug, protocol MRC' dissect.out dissect.err) && fail "$bugs"
dissect garbage.pcap -2 -R mrc.cut -Y mrc.cut
expect 'cut packets are found' [ "$(wc -l <dissect.out)" -gt 100 ]

say 'checks that can not be made'
check 2 nosuch.pcap
expect_text check.err nosuch.pcap
check 1 --min 2 vector.pcap
for text in '{' '[1]' '{ "hosts": "many" }' '{ "hosts": [{ "addresses": ["x"] }] }'; do
  printf '%s\n' "$text" >wrong.json
  check 2 --fabric wrong.json vector.pcap
  expect_text check.err wrong.json
done

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

say 'what mrc_perf sends'
ports=$MRC_UDP_PORT-$((MRC_UDP_PORT + 511))
if ((EUID != 0)) || ! [[ -x $mrc_perf ]] || ! command -v tcpdump >/dev/null || ! has_ipv6 ||
  ! record writes --iters 40 --size 1,100,20000 --qps 2; then
  say 'it cannot be recorded here: left out'
  exit
fi
check 0 --port "$ports" --mtu 4096 --min 250 --keylog writes.keys writes.pcap
expect_text check.out 'unmatched 0' ' unchecked 0,'
counted() { sed -n "s/^total: .* $1 \([0-9]*\),.*/\1/p" check.out; }
packets=$(counted mrc)
expect 'every iCRC is right' [ "$(counted verified)" = "$packets" ]
dissect writes.pcap -o mrc.keylog:writes.keys -Y 'mrc.var_res == 1 && mrc.icrc.status == 1' \
  -T fields -e mrc.psn
expect 'the iCRC of data packets within a host leaves the payload out, and is right' \
  [ "$(wc -l <dissect.out)" -ge 250 ]
expect 'nearly all packets have a tag' [ "$(counted tagged)" -ge $((packets * 9 / 10)) ]

say 'with other keys, and without'
change() {  # change N: the digit that N digits of the tag follow
  sed -E "s/[0-7](.{$1})$/_\1/; s/[89a-f](.{$1})$/0\1/; s/_(.{$1})$/8\1/" writes.keys >other.keys
}
change 0
check 1 --port "$ports" --keylog other.keys writes.pcap
expect_text check.out 'mrc.icrc is'
change 8
check 1 --port "$ports" --keylog other.keys writes.pcap
expect_text check.out 'mrc.tag in the BTH is'
check 0 --port "$ports" --mtu 4096 --min 250 writes.pcap
expect_text check.out 'unmatched 0' ' tagged 0,'
expect 'what is not checked' [ "$(($(counted unchecked) + $(counted verified)))" = "$packets" ]
# Faults from the beginning: those of --fault might start when a busy machine has sent all there is.
# With more in flight its end takes longer, and there is more than tcpdump can keep up with.
MRC_FAULTS=loss=0.05 record immediates --iters 12 --test write_imm --size 8,32K --qps 3 --depth 16 \
  --bidirectional --option icrc=on
check 0 --port "$ports" --min 600 --keylog immediates.keys immediates.pcap
expect_text check.out 'c9 ' 'cb ' 'd1 ' ' unchecked 0,'
# The faults are made after tcpdump has seen the packets.
MRC_FAULTS='trim=0.03;ecn=0.03' record trims --iters 60 --size 64K --option trim=on --option icrc=on
check 0 --port "$ports" --min 900 --partial --keylog trims.keys trims.pcap
expect_text check.out 'dd ' ' unchecked 0,'
sacks=$(sed -n 's/.* dc \([0-9]*\).*/\1/p' check.out)
# Not by their ports: tagged packets are recognised by their keys.
dissect trims.pcap -o mrc.keylog:trims.keys -Y 'mrc.sack && mrc.answer_to' -T fields \
  -e mrc.answer_time
expect 'nearly all SACKs are matched' [ "$(wc -l <dissect.out)" -ge $((sacks * 95 / 100)) ]
