# SPDX-License-Identifier: Apache-2.0
"""The layouts and numbers of MRC 1.0 as tables; written from the document (mrc-1.0 §1), not from
the C++ code, for which mrc_decode.py is the second opinion."""

ANY = None  # the rule of a field in which the document allows every value


class Header:
    """A header: (field, first bit from the header's start, bits, rule). The rule is the one value
    that the document allows, a container of such values, or ANY."""

    def __init__(self, name, section, *fields):
        self.name, self.section, self.fields = name, section, fields
        self.bits = 0
        for field, first, width, _ in fields:
            assert first == self.bits, f"{name}.{field} leaves a gap or overlaps"
            self.bits += width
        assert self.bits % 8 == 0, f"{name} does not end at a byte"
        self.size = self.bits // 8

    def read(self, data, at):
        number = int.from_bytes(data[at:at + self.size], "big")
        return {name: number >> (self.bits - first - width) & ((1 << width) - 1)
                for name, first, width, _ in self.fields}

    def with_ones(self, data, at, names):
        """The header's bytes with the named fields set to all ones."""
        number = int.from_bytes(data[at:at + self.size], "big")
        for name, first, width, _ in self.fields:
            if name in names:
                number |= ((1 << width) - 1) << (self.bits - first - width)
        return number.to_bytes(self.size, "big")


# ------------------------------------------------------------------------------- below MRC
IPV6 = Header(
    "IPv6", "1.1",
    ("version", 0, 4, 6),
    ("dscp", 4, 6, ANY),  # by opcode: CLASSES
    ("ecn", 10, 2, ANY),  # by class
    ("flow_label_top", 12, 4, 0),  # [O-23]
    ("flow_label", 16, 16, ANY),  # entropy (§3.1)
    ("length", 32, 16, ANY),
    ("next_header", 48, 8, (17, 41, 43)),
    ("hop_limit", 56, 8, range(1, 256)),
    ("source", 64, 128, ANY),
    ("destination", 192, 128, ANY))
IPV4 = Header(
    "IPv4", "1.1",
    ("version", 0, 4, 4),
    ("ihl", 4, 4, 5),
    ("dscp", 8, 6, ANY),
    ("ecn", 14, 2, ANY),
    ("length", 16, 16, ANY),
    ("id", 32, 16, ANY),
    ("flags", 48, 3, (0, 2)),  # a packet is never a fragment
    ("fragment", 51, 13, 0),
    ("ttl", 64, 8, range(1, 256)),
    ("protocol", 72, 8, 17),
    ("checksum", 80, 16, ANY),
    ("source", 96, 32, ANY),
    ("destination", 128, 32, ANY))
SRH = Header(
    "SRH", "4.3",
    ("next_header", 0, 8, 41),
    ("hdr_ext_len", 8, 8, ANY),  # these three: by the number of segments
    ("routing_type", 16, 8, 4),
    ("segments_left", 24, 8, ANY),
    ("last_entry", 32, 8, ANY),
    ("flags", 40, 8, 0),
    ("tag", 48, 16, 0))
SEGMENT = Header("segment", "4.3", ("address", 0, 128, ANY))
UDP = Header(
    "UDP", "1.2",
    ("source_port", 0, 16, ANY),  # entropy
    ("destination_port", 16, 16, ANY),  # one of --port, or the packet is not looked at
    ("length", 32, 16, ANY),
    ("checksum", 48, 16, ANY))  # 0, computed, or left to the interface: ignored

# ------------------------------------------------------------------------------- MRC's headers
BTH = Header(
    "BTH", "1.3",
    ("opcode", 0, 8, ANY),
    ("se", 8, 1, 0),
    ("m", 9, 1, 0),
    ("pad", 10, 2, ANY),
    ("tver", 12, 4, 0),
    ("p_key", 16, 16, 0xFFFF),
    ("var_res", 32, 8, 0),
    ("dqp", 40, 24, range(2, 1 << 24)),  # 0 and 1 are for management
    ("a", 64, 1, ANY),
    ("reserved", 65, 1, 0),
    ("rtx", 66, 1, ANY),
    ("ts", 67, 1, ANY),
    ("inv_res", 68, 4, 0),
    ("psn", 72, 24, ANY))
METH = Header("METH", "1.4", ("rqmsn", 0, 16, ANY), ("msn", 16, 16, ANY))
TSETH = Header(
    "TSETH", "1.5",
    ("tx_timestamp", 0, 16, ANY),
    ("tsr", 16, 1, 0),  # [O-13]
    ("reserved", 17, 11, 0),
    ("ftype", 28, 4, 1))
RETH = Header("RETH", "1.6", ("va", 0, 64, ANY), ("r_key", 64, 32, ANY), ("dmalen", 96, 32, ANY))
IMMDT = Header("ImmDt", "1.6", ("immediate", 0, 32, ANY))
AETH = Header("AETH", "1.6", ("syndrome", 0, 8, (0x1F, 0x61, 0x62, 0x63)),
              ("msn", 8, 24, range(1 << 16)))  # [O-15]
# Type 4, nh 5 and reserved 7 bits, of which some headers use two for `op`.
SETH = Header(
    "SETH", "1.7",
    ("type", 0, 4, 0),
    ("nh", 4, 5, 0),
    ("m", 9, 2, (0, 1, 2)),
    ("reserved1", 11, 3, 0),
    ("pr", 14, 1, ANY),
    ("reserved2", 15, 1, 0),
    ("ack_psn_offset", 16, 16, ANY),  # or the probe's id
    ("entropy", 32, 32, ANY),
    ("spdcid", 64, 16, ANY),
    ("dpdcid", 80, 16, ANY),
    ("reserved3", 96, 8, 0),
    ("cack_psn", 104, 24, ANY),
    ("cc_type", 128, 4, 0),
    ("cc_fl", 132, 4, 0),
    ("mpr", 136, 8, ANY),
    ("sack_offset", 144, 16, ANY),
    ("sack_bitmap", 160, 64, ANY))
CC_STATE = Header(
    "CC_STATE", "1.7",
    ("tx_timestamp", 0, 16, ANY),
    ("reserved", 16, 1, 0),
    ("ooo_count", 17, 15, ANY),
    ("r_c", 32, 1, ANY),
    ("rcv_cwnd_pen", 33, 7, ANY),
    ("rcvd_bytes", 40, 24, ANY))
NETH = Header(
    "NETH", "1.8",
    ("type", 0, 4, 0),
    ("nh", 4, 5, 0),
    ("reserved1", 9, 7, 0),
    ("nack_reason", 16, 8, (0x01, 0x02, 0x06, 0x07, 0x0A, 0x0B, 0x19)),  # §1.13
    ("vendor_info", 24, 8, ANY),
    ("entropy", 32, 32, ANY),
    ("spdcid", 64, 16, ANY),
    ("dpdcid", 80, 16, ANY),
    ("reserved2", 96, 8, 0),
    ("nack_psn", 104, 24, ANY),
    ("cc_type", 128, 4, 2),
    ("cc_fl", 132, 4, 0),  # [O-11]
    ("reserved3", 136, 8, 0),
    ("tx_timestamp", 144, 16, ANY))
PETH = Header(
    "PETH", "1.9",
    ("type", 0, 4, 0),
    ("nh", 4, 5, 0),
    ("reserved1", 9, 7, 0),
    ("reserved2", 16, 8, 0),
    ("vendor_info", 24, 8, ANY),
    ("probe_id", 32, 16, ANY),
    ("reserved3", 48, 16, 0),
    ("spdcid", 64, 16, ANY),
    ("dpdcid", 80, 16, ANY),
    ("tx_timestamp", 96, 16, ANY),
    ("tsr", 112, 1, 0),
    ("reserved4", 113, 11, 0),
    ("ftype", 124, 4, (0, 1)))
ERTH = Header(
    "ERTH", "1.10",
    ("type", 0, 4, 0),
    ("nh", 4, 5, 0),
    ("reserved1", 9, 5, 0),
    ("op", 14, 2, (0, 1)),
    ("reserved2", 16, 8, 0),
    ("vendor_info", 24, 8, ANY),
    ("port_status_mask", 32, 32, ANY),
    ("reserved3", 64, 32, 0),
    ("tx_timestamp", 96, 16, ANY),
    ("tsr", 112, 1, 0),
    ("reserved4", 113, 11, 0),
    ("ftype", 124, 4, (0, 1)))
EETH = Header(
    "EETH", "1.10",
    ("type", 0, 4, 0),
    ("nh", 4, 5, 0),
    ("reserved1", 9, 3, 0),
    ("op", 12, 2, (0, 1)),
    ("reserved2", 14, 2, 0),
    ("reserved3", 16, 208, 0),
    ("tx_timestamp", 224, 16, ANY),
    ("reserved4", 240, 48, 0))

# ------------------------------------------------------------------------------- numbers
OPCODES = {  # name, headers after BTH (TSETH comes after METH when BTH.ts is set); §1.11
    0xC6: ("WRITE_FIRST", (METH, RETH)),
    0xC7: ("WRITE_MIDDLE", (METH, RETH)),
    0xC8: ("WRITE_LAST", (METH, RETH)),
    0xC9: ("WRITE_LAST_IMM", (METH, RETH, IMMDT)),
    0xCA: ("WRITE_ONLY", (METH, RETH)),
    0xCB: ("WRITE_ONLY_IMM", (METH, RETH, IMMDT)),
    0xD1: ("ACK", (AETH,)),
    0xD8: ("ENDPOINT_REQUEST", (ERTH,)),
    0xD9: ("ENDPOINT_RESPONSE", (EETH,)),
    0xDC: ("SACK", (SETH, CC_STATE)),
    0xDD: ("NACK", (NETH,)),
    0xDE: ("PROBE", (PETH,)),
}
DATA = range(0xC6, 0xCC)
STARTS = (0xC6, 0xCA, 0xCB)  # of a message
ENDS = (0xC8, 0xC9, 0xCA, 0xCB)
IMMEDIATE = (0xC9, 0xCB)
ACK, REQUEST, RESPONSE, SACK, NACK, PROBE = 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE

DSCP = {"no_trim": 0, "trimmable": 4, "trimmable_retx": 8, "trimmed": 12, "trimmed_last_hop": 16,
        "control": 46}  # defaults of §1.14
TRIMMED = {"trimmed": 0x01, "trimmed_last_hop": 0x02}  # class: NACK reason (§1.13)
ICRC_SIZE = 4
LEAST_TRIMMED = 28  # bytes from UDP on that a switch leaves [O-10]
MASKED = {  # what the iCRC takes as all ones (§1.12)
    "IPv6": ("dscp", "ecn", "flow_label_top", "flow_label", "hop_limit"),
    "IPv4": ("dscp", "ecn", "ttl", "checksum"),
    "UDP": ("checksum",),
    "BTH": ("var_res",),
}
PSNS = 1 << 24


def ahead(a, b, modulus=PSNS):
    """How far a is ahead of b; negative: behind it (§2.2)."""
    distance = (a - b) % modulus
    return distance - modulus if distance >= modulus // 2 else distance


def signed16(value):
    return ahead(value, 0, 1 << 16)


def classes(opcode, rtx):
    """DSCP classes in which a packet that no switch has trimmed may be sent (§1.14, §2.9)."""
    if opcode in DATA:
        return ("no_trim", "trimmable_retx" if rtx else "trimmable")
    if opcode == PROBE:
        return ("no_trim", "trimmable")
    if opcode == REQUEST:
        return ("no_trim", "trimmable", "trimmable_retx", "control")
    return ("control",)
