#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends one HTTP request. usage: http_ask.py METHOD PORT PATH [HEADER: VALUE]... [--body TEXT]
[--raw TEXT]

Prints the body of the answer; status and headers go to standard error, status first. A header Host
takes the place of the usual one. --raw is sent after the headers as it is, without a length.
"""

import socket
import sys


def main(method, port, path, *rest):
    headers, body, raw = {"Host": f"127.0.0.1:{port}"}, "", ""
    rest = list(rest)
    while rest:
        word = rest.pop(0)
        if word == "--body":
            body = rest.pop(0)
        elif word == "--raw":
            raw = rest.pop(0).encode().decode("unicode_escape")
        else:
            name, value = word.split(": ", 1)
            headers[name] = value
    if not raw:
        headers.setdefault("Content-Length", str(len(body.encode())))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", int(port)), timeout=300) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n{body}{raw}".encode())
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
    head, _, content = answer.partition(b"\r\n\r\n")
    print(head.decode(errors="replace").replace("\r", ""), file=sys.stderr)
    sys.stdout.write(content.decode(errors="replace"))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
