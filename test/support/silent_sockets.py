#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control sockets as a user who means no good makes them: everybody may connect, is greeted, and
hears nothing more; or is answered after DELAY seconds, with fields that are none.

usage: silent_sockets.py FOLDER COUNT NETWORK [DELAY FABRIC]  (NETWORK: field "network" of a real
device's hello; FABRIC: a file that option fabric names)
Says "ready" once they are there. Their names come before those of real devices."""

import json
import os
import selectors
import socket
import sys
import time

ODD = {"ok": True, "serial": "x", "unknown_rules": 7, "denied": 7, "paths": [], "planes": [],
       "counters": {"qps": -1, "engine": 7, "planes": [{"port": [], "enabled": 1, "up": "x"}]},
       "queue_pairs": [{"peer": {}, "stats": 4}], "peers": [{"paths": -1, "paths_up": 1e300}],
       "events": [7, None, {"event": 3, "time": "x", "ev": -1, "plane": []}], "newest": "x"}


def answers(client, delay, fabric):  # to what has come; None: the end
    data = client.recv(65536)
    if not data:
        return None
    for line in data.splitlines():
        time.sleep(delay)
        answer = {**ODD, "id": json.loads(line)["id"], "options": {"fabric": fabric}}
        client.sendall(json.dumps(answer).encode() + b"\n")
    return True


def main():
    folder, count, network = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    odd = (float(sys.argv[4]), sys.argv[5]) if len(sys.argv) > 4 else None
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
            if key.data == "client":
                try:
                    open_still = answers(key.fileobj, *odd)
                except OSError:
                    open_still = None
                if open_still is None:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                continue
            try:
                client, _ = key.fileobj.accept()
                client.send(line)
                if odd:
                    selector.register(client, selectors.EVENT_READ, "client")
                else:
                    kept.append(client)
            except OSError:  # no more descriptors: the oldest go
                del kept[: len(kept) // 2]


main()
