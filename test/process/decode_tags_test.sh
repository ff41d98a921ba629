#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Wireshark dissector and OpenMRC's verification tags: with a key log they are a part of what is
# judged, without one tagged packets are shown, and nothing wrong is said of them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/decode_lib.sh"

say 'tags of a key log, right and wrong, and others'
# Of B's queue pair (two, one after the other) and of A's; B and A are written in two ways each.
cat >keys <<'KEYS'
# a line that is something else
MRC_TAG 2001:db8::2 0x000345 0xabc123450badcafe
MRC_TAG 2001:db8::2 0x000345 0x1236789a00000001
MRC_TAG 2001:0db8:0000::0001 0x000346 0xef678901fffffff0
MRC_TAG 192.0.2.2 0x000345 0xabc123450badcafe
MRC_TAG 2001:db8::2 0x000348 0xabc1234500000000
MRC_TAG 2001:db8::2 0x000345 0xabc12
KEYS
tag=0xabc123450badcafe back=0xef678901fffffff0
to_b=BTH.dqp=0x345,tag=$tag to_a=BTH.dqp=0x346,tag=$back
sack_to_a=$to_a,SETH.spdcid=0x345,SETH.dpdcid=0x346
good "only,$to_b" "sack,$sack_to_a,SETH.sack_offset=0,SETH.bitmap=1,SETH.ack_psn_offset=0,$(
  )CC_STATE.ooo_count=0,CC_STATE.rcvd_bytes=1,SETH.m=0" "ack,$to_a"
good "only,$to_b,trim=28" "nack,$to_a,NETH.spdcid=0x345,NETH.dpdcid=0x346"
good "request,$to_b" "response,$to_a"
good request,BTH.dqp=0x345,tag=0x1236789a00000001 "response,$to_a"
good "only,$to_b,v4=1" "only,$to_b,UDP.destination_port=5000,BTH.psn=0x11,METH.msn=1"
good "only,$to_b,outer=fcbb:0:1000::" "only,$to_b,outer=fcbb:0:1000::,srh=fcbb:0:3010::,$(
  )BTH.psn=0x11,METH.msn=1"
bad mrc.icrc only,BTH.dqp=0x345,tag=0xabc123450badcaff
bad mrc.icrc "only,$to_b,icrc=1"
bad 'mrc.tag in the BTH' only,BTH.dqp=0x345,tag=0xabc123460badcafe
bad 'mrc.tag in the BTH' "only,BTH.dqp=0x345,tag=$back"
bad 'mrc.tag in the BTH' only,BTH.dqp=0x345
bad 'mrc.tag in the BTH' only,BTH.dqp=0x345,trim=28
bad 'mrc.tag in the BTH' "request,BTH.dqp=0x345,tag=$back"
bad ERTH.reserved3 "request,$to_b,ERTH.reserved3=0xABD"
bad EETH.reserved4 "request,$to_b" "response,$to_a,EETH.reserved4=0xFF6"
bad EETH.reserved5 "request,$to_b" "response,$to_a,EETH.reserved5=1"
bad 'operation and timestamp' "request,$to_b" "response,$to_a,EETH.tx_timestamp=1"
# The iCRC of the head alone, as OpenMRC processes of one host have it: only where BTH says so.
long=head=1,payload=1024,RETH.dmalen=1024
good "only,$to_b,$long" "only,$to_b,v4=1,$long,BTH.psn=0x11,METH.msn=1"
good "only,$to_b,head=1"  # nothing is left out
bad mrc.icrc "only,$to_b,$long,icrc=1"
bad mrc.icrc "only,$to_b,$long,BTH.var_res=0"
bad mrc.icrc "only,BTH.dqp=0x345,tag=0xabc123450badcaff,$long"
good only,BTH.dqp=0x348,tag=0xabc1234500000000,icrc=0  # of hosts that don't check the iCRC
# Nothing is known of these queue pairs, but that reserved bits are used.
unknown=BTH.dqp=0x347,tag=$tag
good "only,$unknown" "only,$unknown,icrc=1,BTH.psn=0x11,METH.msn=1"
good "only,$unknown,trim=28" "only,$unknown,$long,BTH.psn=0x11,$(
  )METH.msn=1"
good "request,$unknown" "response,$unknown"
bad ERTH.reserved3 "request,$unknown,ERTH.reserved3=0x1000"
bad BTH.dqp "request,BTH.dqp=2,tag=$tag"
bad RETH.dmalen "only,$unknown,RETH.dmalen=9"
check_cases --keylog keys

say 'what is shown, with and without a key log'
tagged=("only,$to_b" "request,$to_b" "response,$to_a" "only,$to_b,trim=28,BTH.psn=0x11"
  "only,$unknown")
capture tagged.pcap "${tagged[@]}"
dissect tagged.pcap -o mrc.keylog:keys -T fields -e mrc.tag -e mrc.tag.status -e mrc.icrc.status
diff - dissect.out <<TEXT || fail 'tags of a key log'
$tag	1	1
$tag	1	1
$back	1	1
$tag	1	3
	2	2
TEXT
dissect tagged.pcap -T fields -e mrc.tag -e mrc.tag.status -e mrc.icrc.status
expect 'without a key log' [ "$(tr -d '\t\n' <dissect.out)" = 2222222322 ]
check 0 --partial tagged.pcap
expect_text check.out 'verified 0, tagged 0, unchecked 5'
dissect tagged.pcap -V
expect_text dissect.out 'Verification tag: tagged, not checked' 'iCRC status: unverified'
dissect tagged.pcap -o mrc.keylog:nosuch
expect 'a key log that is not there is named once' [ "$(grep -c nosuch dissect.err)" = 1 ]

say 'a key log that grows while packets come in'
capture growing.pcap "only,$to_b" "only,$to_b"
size=$(((24 + $(stat -c %s growing.pcap)) / 2))
: >growing
mkfifo live
start live tshark -l -n -X "lua_script:$dissector" -r live -o mrc.keylog:growing \
  -T fields -e mrc.tag.status
exec 3<>live  # which does not wait for tshark
head -c "$size" growing.pcap >&3
until_true 30 test -s live.out || fail 'the first packet is not shown'
grep -m 1 "$tag" keys >>growing
tail -c +$((size + 1)) growing.pcap >&3
exec 3>&-
exit_code "$pid" 30
expect 'unknown, then known' [ "$(tr '\n' ' ' <live.out)" = '2 1 ' ]
