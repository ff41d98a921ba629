#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that is no `mrc_ctl serve`. usage: odd_http_peer.py PORT KIND

KIND: silent accepts connections and says nothing; garbage sends no HTTP; deep sends JSON that is
nested 100,000 levels; odd sends a snapshot in which every field is of the wrong kind, and texts are
markup with a script.
"""

import json
import socket
import sys
import time

EVIL = "<img src=x onerror=\"window.broken=1\"><script>window.broken=1</script>"
ODD = {"host": EVIL, "time": "x", "steer": "yes", "fabric": 7, "others": [], "path_fields": [
           "ev", "plane", "state", "active", "route", {}, None, "packets", "bytes", "losses"],
       "events": [None, 3, {"event": EVIL, "number": [], "time": {}, "program": EVIL},
                  {"event": "path_bad", "ev": "x", "plane": EVIL, "number": 1, "time": 1e300}],
       "devices": [None, [], "x", {"device": {}, "program": EVIL, "pid": -1, "up": True,
                   "counters": 3, "planes": [None, {"address": EVIL, "tx_bytes": "many"}],
                   "peers": [None, {"addresses": EVIL, "to": EVIL, "lane": 1, "routes": [
                                       None, [EVIL, 3, None, EVIL]],
                                    "paths": [None, [], ["x"] * 9, [1, 0, EVIL, True, 1e9],
                                              [2, 99, "assumed_bad", True, 1, 0, 0, 5, 5, 5]]}]}]}


def answer(kind):
    if kind == "garbage":
        return b"\0\1\2 hello\r\n\r\n" * 100
    body = json.dumps(ODD).encode()
    if kind == "deep":
        body = b'{"host":"x","devices":' + b"[" * 100_000
    return (f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n").encode() + body


def main(port, kind):
    listener = socket.create_server(("127.0.0.1", int(port)))
    held = []
    while True:
        connection, _ = listener.accept()
        if kind == "silent":
            held.append(connection)
            continue
        try:
            connection.recv(65536)
            connection.sendall(answer(kind))
            connection.close()
        except OSError:
            time.sleep(0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
