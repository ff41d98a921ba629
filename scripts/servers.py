# SPDX-License-Identifier: Apache-2.0
"""What scripts share that start servers: free TCP ports, and waiting until a program listens."""

import contextlib
import socket
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tables():
    """The lines of this host's TCP sockets."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(name, encoding="ascii") as lines:
            yield from lines


def listens(process, port, seconds, sockets=tables):
    """Whether a program listens in that time; False at once if it ends. sockets(): lines as tables()
    has them, of the host that it runs on."""
    end, place = time.monotonic() + seconds, f":{port:04X}"
    while process.poll() is None and time.monotonic() < end:
        for field in map(str.split, sockets()):
            if field[1].endswith(place) and field[3] == "0A":
                return True
        time.sleep(0.02)
    return False
