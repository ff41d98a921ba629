# SPDX-License-Identifier: Apache-2.0
"""Data packets against the one before them by PSN: the messages that they make (mrc-1.0 §2.2, §2.3;
docs/extensions.md)."""

from collections import namedtuple

PSNS, MSNS = 1 << 24, 1 << 16
SENDS, REQUESTS, ATOMIC_RESPONSE = range(0xC0, 0xC6), (0xCC, 0xD3, 0xD4), 0xD2
RESPONSES = (0xCD, 0xCE, 0xCF, 0xD0, ATOMIC_RESPONSE)
SINGLE = (0xC4, 0xC5, 0xCA, 0xCB, 0xD0, ATOMIC_RESPONSE) + REQUESTS
STARTS = SINGLE + (0xC0, 0xC6, 0xCD)
ENDS = SINGLE + (0xC2, 0xC3, 0xC8, 0xC9, 0xCF)
NUMBERED = (0xC2, 0xC3, 0xC4, 0xC5, 0xC9, 0xCB)  # ends of messages that need a receive
# A data packet, without what may differ between its copies.
Sent = namedtuple("Sent", "opcode msn rqmsn va r_key dmalen immediate payload")


def ahead(a, b, modulus=PSNS):
    """How far a is ahead of b; negative: behind it (§2.2)."""
    distance = (a - b) % modulus
    return distance - modulus if distance >= modulus // 2 else distance


def check_messages(flow, mtu):
    """`flow`: {PSN: (Sent, Packet)} of one queue pair; without an `mtu` its first full packet
    tells it."""
    if mtu is None:
        mtu = next((sent.payload for sent, _ in flow.values() if sent.opcode not in ENDS), None)
    base = next(iter(flow), None)
    before = before_psn = None
    length = None  # of the message so far; None: its start is missing
    rqmsn = request = None  # of the receive or request before; None: one may be missing since
    for psn in sorted(flow, key=lambda p: ahead(p, base)):
        sent, packet = flow[psn]
        check_size(sent, packet, mtu)
        if before is None or psn != (before_psn + 1) % PSNS:
            length = rqmsn = request = None
        else:
            check_step(before, sent, packet)
        if sent.opcode in STARTS:
            length = 0
            if sent.opcode in SENDS or sent.opcode in RESPONSES:
                packet.expect("mrc.reth.va", sent.va, 0)  # an offset
        if length is not None:
            length += sent.payload
            if sent.opcode in ENDS and sent.opcode not in REQUESTS + (ATOMIC_RESPONSE,):
                packet.expect("mrc.reth.dmalen", sent.dmalen, length)  # [C-7]: the message's length
        if sent.opcode in NUMBERED:
            if rqmsn is not None:
                packet.expect("mrc.meth.rqmsn", sent.rqmsn, (rqmsn + 1) % MSNS)  # §2.2
            rqmsn = sent.rqmsn
        elif sent.opcode in REQUESTS:
            if request is not None:
                packet.expect("mrc.meth.rqmsn", sent.rqmsn, (request + 1) % MSNS)
            request = sent.rqmsn
        elif sent.opcode in ENDS and sent.opcode not in RESPONSES:
            packet.expect("mrc.meth.rqmsn", sent.rqmsn, 0)  # §2.2: 0 in plain Writes
        before, before_psn = sent, psn


def kind(sent):
    """Messages of which the packet may be a part."""
    return next((i for i, kinds in enumerate((SENDS, RESPONSES)) if sent.opcode in kinds), None)


def check_size(sent, packet, mtu):
    """Payload of one packet; §2.3."""
    if sent.opcode not in ENDS:
        packet.expect("payload", sent.payload, mtu)  # §2.3: FIRST and MIDDLE carry the MTU
    elif mtu is not None and sent.payload > mtu:
        packet.wrong("payload", sent.payload, f"at most {mtu}")  # §2.3
    elif sent.payload == 0 and sent.opcode not in STARTS:
        packet.wrong("payload", 0, "at least 1 in a LAST")  # §2.3


def check_step(before, sent, packet):
    """A packet and the one whose PSN is one less."""
    if before.opcode in ENDS:
        if sent.opcode not in STARTS:
            packet.wrong("mrc.opcode", sent.opcode, "the start of a message")  # §2.2
        packet.expect("mrc.meth.msn", sent.msn, (before.msn + 1) % MSNS)  # §2.2
        return
    if sent.opcode in STARTS or kind(sent) != kind(before):
        packet.wrong("mrc.opcode", sent.opcode, "MIDDLE or LAST of the message")  # §2.2
        return
    packet.expect("mrc.meth.msn", sent.msn, before.msn)  # §2.2: the same in a message
    packet.expect("mrc.meth.rqmsn", sent.rqmsn, before.rqmsn)  # §2.2: the same in a message
    packet.expect("mrc.reth.r_key", sent.r_key, before.r_key)  # §2.3: the same in a message
    packet.expect("mrc.reth.dmalen", sent.dmalen, before.dmalen)  # [C-7]: the same in a message
    packet.expect("mrc.reth.va", sent.va, (before.va + before.payload) % (1 << 64))  # §2.3
