# SPDX-License-Identifier: Apache-2.0
"""The layouts of MRC 1.0, once more from the document (mrc-1.0 §1), to check the dissector with:
packets are written by these tables and read by its own."""

import random


class Header:
    """A header as "field:bits field:bits ...". `group`: how the dissector calls it."""

    def __init__(self, group, text):
        self.group, self.bits, self.fields = group, 0, {}  # field: (first bit, bits)
        for word in text.split():
            name, width = word.split(":")
            self.fields[name] = self.bits, int(width)
            self.bits += int(width)
        assert self.bits % 8 == 0, f"{group} does not end at a byte"
        self.size = self.bits // 8

    def put(self, data, name, value):
        """The header with another value in a field."""
        first, width = self.fields[name]
        shift = self.bits - first - width
        number = int.from_bytes(data, "big") & ~(((1 << width) - 1) << shift) | value << shift
        return number.to_bytes(self.size, "big")

    def filter_name(self, name):
        return f"mrc.{self.group}.{name}" if self.group else f"mrc.{name}"

    def shown(self, data):
        """{display filter name: value as the dissector shows it}."""
        number = int.from_bytes(data, "big")
        values = {name: number >> (self.bits - first - width) & ((1 << width) - 1)
                  for name, (first, width) in self.fields.items()}
        if values.get("pr"):
            values["probe_id"] = values.pop("ack_psn_offset")
        for name in {"ack_psn_offset", "sack_offset"} & values.keys():
            values[name] -= (values[name] & 0x8000) << 1
        return {self.filter_name(name): value for name, value in values.items()}


HEADERS = {
    "IPv6": Header("", "version:4 dscp:6 ecn:2 flow_label_top:4 flow_label:16 length:16 "
                       "next_header:8 hop_limit:8 source:128 destination:128"),
    "SRH": Header("", "next_header:8 hdr_ext_len:8 routing_type:8 segments_left:8 last_entry:8 "
                      "flags:8 tag:16"),
    "UDP": Header("", "source_port:16 destination_port:16 length:16 checksum:16"),
    "BTH": Header("", "opcode:8 se:1 m:1 pad:2 tver:4 p_key:16 var_res:8 dqp:24 a:1 reserved:1 "
                      "rtx:1 ts:1 inv_res:4 psn:24"),
    "METH": Header("meth", "rqmsn:16 msn:16"),
    "TSETH": Header("tseth", "tx_timestamp:16 tsr:1 reserved:11 ftype:4"),
    "RETH": Header("reth", "va:64 r_key:32 dmalen:32"),
    "ImmDt": Header("immdt", "immediate:32"),
    "AtomicOperands": Header("atomic", "swap_or_add:64 compare:64"),
    "AtomicResponse": Header("atomic_response", "original:64"),
    "AETH": Header("aeth", "syndrome:8 msn:24"),
    "SETH": Header("sack", "type:4 nh:5 m:2 reserved1:3 pr:1 reserved2:1 ack_psn_offset:16 "
                           "entropy:32 spdcid:16 dpdcid:16 reserved3:8 cack_psn:24 cc_type:4 "
                           "cc_fl:4 mpr:8 sack_offset:16 bitmap:64"),
    "CC_STATE": Header("cc", "tx_timestamp:16 reserved:1 ooo_count:15 r_c:1 rcv_cwnd_pen:7 "
                             "rcvd_bytes:24"),
    "NETH": Header("nack", "type:4 nh:5 reserved1:7 reason:8 vendor_info:8 entropy:32 spdcid:16 "
                           "dpdcid:16 reserved2:8 psn:24 cc_type:4 cc_fl:4 reserved3:8 "
                           "tx_timestamp:16"),
    "PETH": Header("probe", "type:4 nh:5 reserved1:7 reserved2:8 vendor_info:8 id:16 reserved3:16 "
                            "spdcid:16 dpdcid:16 tx_timestamp:16 tsr:1 reserved4:11 ftype:4"),
    "ERTH": Header("request", "type:4 nh:5 reserved1:5 op:2 reserved2:8 vendor_info:8 "
                              "port_status_mask:32 reserved3:32 tx_timestamp:16 tsr:1 "
                              "reserved4:11 ftype:4"),
    "EETH": Header("response", "type:4 nh:5 reserved1:3 op:2 reserved2:2 reserved3:208 "
                               "tx_timestamp:16 reserved4:16 reserved5:32"),
}
FIXED = {"opcode", "pad", "ts"}  # they decide what follows


def randomize(layers):
    """Random values in all fields of MRC's headers."""
    for header, data in layers.items():
        if header not in ("IPv6", "SRH", "UDP", "outer"):
            for name, (_, width) in HEADERS[header].fields.items():
                if name not in FIXED:
                    data = HEADERS[header].put(data, name, random.getrandbits(width))
            layers[header] = data
