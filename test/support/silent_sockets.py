#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control sockets as a user who means no good makes them: everybody may connect, is greeted, and
hears nothing more.

usage: silent_sockets.py FOLDER COUNT NETWORK  (NETWORK: field "network" of a real device's hello)
Says "ready" once they are there. Their names come before those of real devices."""

import json
import os
import selectors
import socket
import sys


def main():
    folder, count, network = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    namespace = os.stat("/proc/self/ns/pid").st_ino
    hello = {"event": "hello", "protocol": 1, "pid": 1, "program": "a", "host": "h",
             "network": network, "planes": 4, "lanes": 1, "version": "0", "opened": 0}
    line = json.dumps(hello).encode() + b"\n"
    selector = selectors.DefaultSelector()
    for n in range(count):
        listener = socket.socket(socket.AF_UNIX)
        path = f"{folder}/1-{namespace}-{n:016x}.sock"
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen(64)
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    kept = []
    while True:
        for key, _ in selector.select():
            try:
                client, _ = key.fileobj.accept()
                client.send(line)
                kept.append(client)
            except OSError:  # no more descriptors: the oldest go
                del kept[: len(kept) // 2]


main()
