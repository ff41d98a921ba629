#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends bytes by TCP and by UDP, in bursts that the kernel cuts (GSO), and compares what arrives.

The receiver sends back the SHA-256 of each.
"""

import hashlib
import random
import socket
import sys

PORT = 5002
UDP_SEGMENT = 103  # of Linux; the module lacks it
SEGMENT, SEGMENTS, BURSTS = 1200, 20, 20


def receive_datagrams(sock):
    """In any order, as each says its number."""
    datagrams = {sock.recv(65536) for _ in range(SEGMENTS * BURSTS)}
    return hashlib.sha256(b"".join(sorted(datagrams))).digest()


def receive():
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    udp.bind(("::", PORT))
    udp.settimeout(20)
    listener = socket.create_server(("::", PORT), family=socket.AF_INET6)
    print("ready", flush=True)
    stream, _ = listener.accept()
    digest = hashlib.sha256()
    while part := stream.recv(1 << 20):
        digest.update(part)
    stream.sendall(digest.digest())
    stream.sendall(receive_datagrams(udp))


def send(address):
    random.seed(1)
    data = random.randbytes(1 << 24)
    stream = socket.create_connection((address, PORT), timeout=60)
    stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)
    assert stream.recv(32, socket.MSG_WAITALL) == hashlib.sha256(data).digest(), "TCP"
    print("TCP is right")

    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SEGMENT)
    datagrams = [number.to_bytes(4, "big") + random.randbytes(SEGMENT - 4)
                 for number in range(SEGMENTS * BURSTS)]
    for burst in range(0, len(datagrams), SEGMENTS):
        udp.sendto(b"".join(datagrams[burst:burst + SEGMENTS]), (address, PORT))
    expected = hashlib.sha256(b"".join(datagrams)).digest()
    assert stream.recv(32, socket.MSG_WAITALL) == expected, "UDP"
    print("UDP is right")


if sys.argv[1] == "receive":
    receive()
else:
    send(sys.argv[2])
