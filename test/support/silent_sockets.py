#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control sockets as a user who means no good makes them: everybody may connect, is greeted, and
hears nothing more; or is answered after DELAY seconds, with fields that are none.

usage: silent_sockets.py FOLDER COUNT NETWORK [--greeting DELAY] [--answer DELAY FABRIC]
       [--endless]  (NETWORK: field "network" of a real device's hello; FABRIC: a file that option
fabric names; --endless: each list goes on)
Says "ready" once they are there. Their names come before those of real devices."""

import argparse
import json
import os
import selectors
import socket
import time

ODD = {"ok": True, "serial": "x", "unknown_rules": 7, "denied": 7, "host": 7, "paths": [],
       "planes": [],
       "counters": {"qps": -1, "engine": 7, "planes": [{"port": [], "enabled": 1, "up": "x"}]},
       "queue_pairs": [{"peer": {}, "stats": 4}], "peers": [{"paths": -1, "paths_up": 1e300}],
       "events": [7, None, {"event": 3, "time": "x", "ev": -1, "plane": []}], "newest": "x"}


def answers(client, endless, delay, fabric):  # to what has come; False: the end
    data = client.recv(65536)
    if not data:
        return False
    for line in data.splitlines():
        time.sleep(delay)
        request = json.loads(line)
        answer = {**ODD, "id": request["id"], "options": {"fabric": fabric}}
        if endless:
            answer["next"] = request.get("first", 0) + 1
        client.sendall(json.dumps(answer).encode() + b"\n")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("count", type=int)
    parser.add_argument("network")
    parser.add_argument("--greeting", type=float, default=0)
    parser.add_argument("--answer", nargs=2)
    parser.add_argument("--endless", action="store_true")
    o = parser.parse_args()
    odd = (o.endless, float(o.answer[0]), o.answer[1]) if o.answer else None
    namespace = os.stat("/proc/self/ns/pid").st_ino
    hello = {"event": "hello", "protocol": 1, "pid": 1, "program": "a", "host": "h",
             "network": o.network, "planes": 4, "lanes": 1, "version": "0", "opened": 0}
    line = json.dumps(hello).encode() + b"\n"
    selector = selectors.DefaultSelector()
    for n in range(o.count):
        listener = socket.socket(socket.AF_UNIX)
        path = f"{o.folder}/1-{namespace}-{n:016x}.sock"
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
                    open_still = False
                if not open_still:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                continue
            try:
                client, _ = key.fileobj.accept()
                time.sleep(o.greeting)
                client.send(line)
                if odd:
                    selector.register(client, selectors.EVENT_READ, "client")
                else:
                    kept.append(client)
            except OSError:  # no more descriptors: the oldest go
                del kept[: len(kept) // 2]


main()
