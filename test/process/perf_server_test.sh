#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf's server and clients that nobody invited: it serves the next one, does nothing that they
# ask for beyond the test itself, and shows what they say without its control characters.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
port=$(free_port)
start_server server "$port" --persistent

# guest SCRIPT: connects; s is the socket, send(op, ...) sends a message, said() returns the answer.
guest() {
  timeout 120 python3 - "$port" "$1" <<'PYTHON'
import json, socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.settimeout(20)
def frame(data):
    s.sendall(len(data).to_bytes(4, "big") + data)
def send(**message):
    frame(json.dumps(message).encode())
def said():
    head = s.recv(4, socket.MSG_WAITALL)
    return json.loads(s.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)) if head else None
def hello(**settings):
    parameters = {"test": "write", "qps": 1, "depth": 1, "largest": 8, "inline_bytes": 0,
                  "signal_every": 0, "seed": 0, "give_up_ms": 1000}
    send(op="hello", mrc_perf=VERSION, parameters=parameters, settings=settings)
    return said()
VERSION = int(open(f"/proc/self/environ").read().split("PROTOCOL=")[1].split("\0")[0])
exec(sys.argv[2])
PYTHON
}
PROTOCOL=$(sed -n 's/.*kProtocolVersion = \([0-9]*\).*/\1/p' \
  "$source_dir"/bench/mrc_perf/*.hpp)
export PROTOCOL

serves() {  # serves OPTION...: the next client
  start client "$mrc_perf" 127.0.0.1 --port "$port" --size 4K --iters 10 --quiet "$@"
  exit_code "$pid" 30 0
}
say 'silent connections keep nobody waiting'
for i in {1..8}; do start "silent$i" guest 'time.sleep(110)'; done
sleep 0.5
start=$SECONDS
serves
# One after the other they would take 80 s, since each has 10 s.
expect 'it did not wait for one after the other' [ $((SECONDS - start)) -lt 60 ]

say 'nor do clients that say hello and nothing more'
for i in {1..5}; do
  start "welcome$i" guest 'a = hello(); print(a["op"], flush=True); time.sleep(110)'
done
welcomed() { cat "$work"/welcome?.out | grep -q welcome; }
until_true 90 welcomed || fail 'no welcome'
start=$SECONDS
serves
# These have 20 s each.
expect 'nor for one of these after the other' [ $((SECONDS - start)) -lt 60 ]

say 'settings that are none of a client'"'"'s business'
mkfifo "$work/fifo"
refuse() {  # refuse NAME VALUE
  guest "a = hello(**{'$1': '$2'}); print(a); assert a['op'] == 'abort' and '$1' in a['why']" \
    >"$work/refused.out" 2>&1 || fail "$1=$2 is taken: $(tail -n 3 "$work/refused.out")"
}
refuse fabric "$work/fifo"
refuse fabric /dev/zero
refuse planes 192.0.2.1
refuse max_outstanding 16777216
refuse receive_buffer 1G
refuse faults loss=1
refuse nonsense 1
guest 'a = hello(mtu="1024", planes="loopback:2"); assert a["op"] == "welcome", a' \
  >"$work/taken.out" 2>&1 || fail "a harmless one is refused: $(tail -n 3 "$work/taken.out")"

say 'long messages, deep ones, and what a terminal must not get'
guest 's.sendall((16 << 20).to_bytes(4, "big") + b"[" * 100000); time.sleep(1)' || true
guest 'frame(b"[" * 16000); time.sleep(0.5)' || true
guest 'frame(b"{\"op\":" + b"[" * 8000); time.sleep(0.5)' || true
guest 'send(op="\x1b[31mred\x07"); time.sleep(0.5)' || true
guest 'send(op="abort", why="\x1b]0;title\x07" + "x" * 9000); time.sleep(0.5)' || true
guest 'frame(bytes(range(256))); time.sleep(0.5)' || true
if LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f-\xff]' "$work/server.err" "$work/server.out"; then
  fail 'control characters of a client are shown'
fi
expect_text "$work/server.err" 'message of 16777216 bytes' 'title?xxx'
kib=$(awk '/VmHWM/ { print $2 }' "/proc/$server/status")
echo "memory of the server, at most: $kib KiB"
sanitized "$mrc_perf" || expect 'no memory for them' [ "$kib" -lt 200000 ]

say 'and it still serves'
serves --check
kill -INT "$server"
exit_code "$server" 20
