# SPDX-License-Identifier: Apache-2.0
"""What runs beside the programs that scripts/bench measures: others, and clients that ask."""

import contextlib
import os
import socket
import tempfile
import threading
import time
from pathlib import Path


def busy_share(seconds):
    """Share of the machine's processor time that is in use, over a while."""
    def read():
        with open("/proc/stat", encoding="ascii") as stat:
            t = [int(x) for x in stat.readline().split()[1:9]]
        return sum(t), t[3] + t[4]
    total, idle = read()
    time.sleep(seconds)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


# Everything there is to know of a device with one peer (docs/control.md).
REQUESTS = b"".join(b"{%s}\n" % fields for fields in (
    b'"request":"counters"', b'"request":"peers"', b'"request":"queue_pairs"',
    b'"request":"events"', b'"request":"paths","lane":0,"peer":0'))


class Asking(threading.Thread):
    """A client that asks all devices with a control socket in a folder, ten times a second."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.answers, self._over = Path(folder), 0, threading.Event()

    def run(self):
        while not self._over.wait(0.1):
            for path in self.folder.glob("*.sock"):
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as device:
                    device.settimeout(1)
                    device.connect(str(path))
                    device.sendall(REQUESTS)
                    device.shutdown(socket.SHUT_WR)
                    with device.makefile("rb") as lines:
                        self.answers += sum(b'"ok":true' in line for line in lines)

    def end(self):
        self._over.set()
        self.join()


def asked(function):
    """A measurement beside such a client."""
    def measure():
        with tempfile.TemporaryDirectory(prefix="bench.") as folder:
            os.environ["MRC_CONTROL"] = folder
            client = Asking(folder)
            client.start()
            try:
                seen = function()
            finally:
                client.end()
                del os.environ["MRC_CONTROL"]
        if client.answers == 0:
            raise SystemExit("bench: no device has answered the client of control sockets")
        return seen
    return measure
