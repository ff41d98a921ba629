#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_ctl serve: whatever clients and peers send, it takes at most 64 MiB more than when it idles,
# and goes on.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl"

cd "$work"
mkdir sockets
need_serve

memory() {  # memory FIELD: of the server, in KiB
  awk -v field="$1:" '$1 == field { print $2 }' "/proc/$pid/status"
}
bounded() {  # bounded WHAT: since `idle` was measured
  local most=$(($(memory VmHWM) - idle))
  say "$1: $most KiB more"
  ((most <= 64 * 1024)) || fail "$1: it takes $most KiB more"
}
serve() {  # serve NAME OPTION...: its pid in $pid, its port in $port
  port=$(free_port)
  start "$1" "$mrc_ctl" --folder sockets serve --listen "127.0.0.1:$port" "${@:2}"
  until_listening "$port"
  python3 -B "$support/http_ask.py" GET "$port" / >page 2>head
  idle=$(memory VmRSS)
}

# 32 connections at a time, each of which sends 32 MiB if it can, for 20 s at most.
cat >flood.py <<'PYTHON'
import socket, sys, threading, time
def unescaped(text): return text.encode().decode("unicode_escape").encode()
port, head, fill = int(sys.argv[1]), unescaped(sys.argv[2]), sys.argv[3]
body = open(fill[1:], "rb").read() if fill[0] == "@" else unescaped(fill) * 4096
end = time.monotonic() + 20
def send():
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(head)
            sent = 0
            while sent < 32 << 20 and time.monotonic() < end:
                s.sendall(body)
                sent += len(body)
                if fill[0] == "@":
                    while s.recv(65536): pass
                    return
    except OSError:
        pass
threads = [threading.Thread(target=send) for _ in range(32)]
for t in threads: t.start()
for t in threads: t.join()
PYTHON

say 'clients'
serve server
flood() {  # flood WHAT HEAD FILL
  python3 flood.py "$port" "$2" "$3"
  bounded "$1"
}
post="POST /api/plane HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n"
if command -v node >/dev/null; then
  node -e 'const z = require("zlib"); process.stdout.write(z.brotliCompressSync(Buffer.alloc(200e6),
    {params: {[z.constants.BROTLI_PARAM_QUALITY]: 5}}))' >bomb
  flood 'a body that unpacks to 200 MB' \
    "${post}Content-Encoding: br\r\nContent-Length: $(stat -c %s bomb)\r\n\r\n" @bomb
fi
flood 'a body without length' "${post}\r\n" x
flood 'a body of chunks' "${post}Transfer-Encoding: chunked\r\n\r\n" '1000\r\n'
flood 'a line without end' 'GET /' x
flood 'a header without end' 'GET / HTTP/1.1\r\nX: ' x
flood 'headers without end' 'GET / HTTP/1.1\r\n' 'X: y\r\n'
python3 -B "$support/http_ask.py" GET "$port" / "X-Long: $(printf 'x%.0s' {1..20000})" \
  >/dev/null 2>head
grep_all ' 400 ' <head || fail "a head that is too long: $(cat head)"
python3 -B "$support/http_ask.py" GET "$port" /metrics >metrics 2>/dev/null
grep -qx 'openmrc_devices 0' metrics || fail 'it does not answer any more'
interrupt "$pid" 20

say 'peers'
# A port for each kind of what a peer sends, which may be up to 4 MiB. The last two are answers.
cat >peers.py <<'PYTHON'
import socket, threading
ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
start = b'{"host":"h","devices":['
def answer(body):
    return ok + b"Content-Length: %d\r\n\r\n" % len(body) + body, b""
many = b",".join(b'"%06x":0' % i for i in range(360000))
kinds = [
    (ok + b"Content-Length: %d\r\n\r\n" % (32 << 20) + start, b"[]," * 4096),
    (ok + b"\r\n" + start, b"1," * 4096),
    (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 4096),
    (ok, b"X: y\r\n" * 1024),
    (b"x" * 4096, b"x" * 4096),
    answer(start + b"[]," * 1390000 + b"[]]}"),
    answer(start + b"]," + many + b"}"),
]
def serve(listener, head, fill):
    while True:
        connection, _ = listener.accept()
        def send(connection=connection):
            try:
                connection.recv(65536)
                connection.sendall(head)
                while fill: connection.sendall(fill)
            except OSError:
                pass
            connection.close()
        threading.Thread(target=send, daemon=True).start()
for kind in kinds:
    listener = socket.create_server(("127.0.0.1", 0))
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    threading.Thread(target=serve, args=(listener, *kind), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
PYTHON
start peers python3 peers.py
peers_listen() { grep -qx ready peers.out 2>/dev/null; }
until_true 20 peers_listen || fail 'the peers do not listen'
mapfile -t peers < <(grep : peers.out)
ask_hosts() { python3 -B "$support/http_ask.py" GET "$port" /api/hosts >"$1" 2>/dev/null; }
watch() {  # watch WHAT PEERS: eight readers at a time, three times
  local round i one asking
  serve watcher --patience 5s --peers "$2"
  for round in 1 2 3; do
    asking=()
    for i in {1..8}; do
      ask_hosts "hosts.$i" &
      asking+=($!)
    done
    for one in "${asking[@]}"; do exit_code "$one" 100 0; done
  done
  jq -r '.hosts[1:][].problem' hosts.1 >problems || fail "no JSON: $(head -c 300 hosts.1)"
  bounded "$1"
  interrupt "$pid" 20
}
is_told() { grep -qF "$1" problems || fail "not '$1': $(cat problems)"; }
watch 'a body of 32 MiB' "${peers[0]}"
is_told 'longer than 4096 KiB'
watch 'a body without end' "${peers[1]}"
is_told 'longer than 4096 KiB'
watch 'a header without end' "${peers[2]}"
is_told 'no `mrc_ctl serve`'
watch 'headers without end' "${peers[3]}"
is_told 'no `mrc_ctl serve`'
watch 'a line without end' "${peers[4]}"
is_told 'no `mrc_ctl serve`'
watch 'many devices' "${peers[5]}"
is_told null
watch 'many fields' "${peers[6]}"
is_told null
watch 'all of these' "$(IFS=, && echo "${peers[*]}")"
is_told 'longer than 585 KiB'  # of seven, an even share of 4 MiB
