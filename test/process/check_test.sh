#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_ctl check between two hosts with two planes: what fits, a plane that is too narrow on the way,
# planes in another order, a way on which packets vanish, UDP that is blocked, a host that does not
# answer, and garbage.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_ctl"
cd "$work"

# Without namespaces: this host with itself, by two processes.
export MRC_PLANES=127.0.0.1
port=$(free_port)
start own "$mrc_ctl" check --listen --at "127.0.0.1:$port"
listener=$pid
until_listening "$port"
"$mrc_ctl" check --wait 60s "127.0.0.1:$port" >self.out 2>self.err || fail 'this host with itself'
# The listener has the port.
expect_text self.out 'is in use by pid' 'warning' '16 of 16 arrive'
interrupt "$listener" 20
expect_text own.out 'answers checks' 'checks this host'
unset MRC_UDP_PORT MRC_PLANES

fails() { refused "$1" "$2" -- "$mrc_ctl" check "${@:3}"; }  # fails STATUS TEXT OPTION...
fails 2 'name a host'
fails 2 'excludes' --listen node1
fails 2 'NAME=VALUE' --option mtu node1
fails 2 'mtu' --option mtu=100 127.0.0.1
fails 2 'must be an address' --listen --at nowhere
fails 1 'not an address of this host' --option planes=192.0.2.77 127.0.0.1
MRC_MTU=1 fails 2 'MRC_MTU' 127.0.0.1
MRC_PLANES=127.0.0.1 fails 3 'mrc_ctl check --listen' "127.0.0.1:$(free_port)"

# What listens there may be anything.
port=$(free_port)
cat >stranger.py <<'END'
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for answer in (b"SSH-2.0-x\n", b'{"ok":true}\n', b'{"ok":true,"facts":{"host":7}}\n',
               b"x" * 300_000, b'{"ok":false,"error":[[1]]}\n', b""):
    connection, _ = listener.accept()
    connection.settimeout(60)
    with connection, connection.makefile("rb") as lines:
        try:
            lines.readline(100_000)
            connection.sendall(answer)
        except OSError:
            pass
END
start stranger python3 stranger.py "$port"
stranger=$pid
until_listening "$port"
for _ in {1..6}; do
  MRC_PLANES=127.0.0.1 fails 3 "127.0.0.1:$port: " --wait 60s "127.0.0.1:$port"
done
exit_code "$stranger" 20

two_hosts_at_switch 2 mtu 9000
port=9795
listen() {  # listen PLANES [OPTION...]: b answers
  MRC_PLANES=$1 start listener ip netns exec "$b" "$mrc_ctl" check --listen "${@:2}"
  listener=$pid
  until_listening "$port" ip netns exec "$b"
}
end_listener() {
  interrupt "$listener" 20
}
planes_a=10.9.0.1,10.9.1.1
server=10.9.0.2
wait=60s  # on a busy machine; what is lost takes a third of it
check() {  # check NAME STATUS OPTION...: a checks b
  local name=$1 wanted=$2 status=0
  shift 2
  MRC_PLANES=$planes_a ip netns exec "$a" "$mrc_ctl" check --wait "$wait" "$@" "$server" \
    >"$name.out" 2>"$name.err" || status=$?
  [[ $status == "$wanted" ]] || fail "$name ends with $status, not $wanted: $(cat "$name".*)"
}

say 'all fits'
listen 10.9.0.2,10.9.1.2
check fits 0
expect_text fits.out 'plane 1: 8,904 B packets' 'verdict'
if grep -q FAILED fits.out; then fail "something does not fit: $(cat fits.out)"; fi
check json 0 --json
jq -e 'length == 1 and .[0].fits and (.[0].rows | (INDEX(.what) |
  .["plane 1: 8,904 B packets"].there == "16 of 16 arrive" and .["plane 1"].verdict == "ok") and
  all(.verdict != "FAILED"))' json.out >jq.out || fail "the JSON is wrong: $(cat json.out)"
check few 0 --paths 2
expect_text few.out '2 of 2 arrive'

say 'several checkers at once, and one that sends garbage'
checkers=()
for i in 1 2 3; do
  MRC_PLANES=$planes_a start "many$i" ip netns exec "$a" "$mrc_ctl" check --wait 60s \
    --udp-port $((20000 + 10 * i)) 10.9.0.2
  checkers+=("$pid")
done
ip netns exec "$a" python3 - <<'END' || fail 'garbage does not end a connection, or all'
import json, socket
def talk(data, lines=1):
    s = socket.create_connection(("10.9.0.2", 9795), 60)
    s.settimeout(60)
    try:
        s.sendall(data)
        return s.makefile("rb").readline(100_000)
    except OSError:
        return b""
    finally:
        s.close()
for data in (b"garbage\n", b"\x00" * 1000 + b"\n", b"[" * 60_000 + b"\n", b"{}\n",
             b"GET / HTTP/1.1\n", b'{"check":1}\n', b'{"check":1,"request":"arrived","round":0}\n',
             b'{"check":1,"request":"facts","facts":[1]}\n', b'{"check":{"a":[1]}}\n'):
    assert json.loads(talk(data))["ok"] is False, data
assert talk(b"x" * 1_000_000) == b""          # no end of a line
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(0.5)
for size in (0, 1, 31, 32, 1400):
    head = b"MRCCHECK" + bytes(16) + b"\x01\x00\x00\x00\x00\x01\x05\x00"
    udp.sendto(head.ljust(size, b"\0")[:size], ("10.9.0.2", 4791))
try:
    raise SystemExit(f"an answer to a stranger: {udp.recv(2000)!r}")
except TimeoutError:
    pass
END
for i in "${!checkers[@]}"; do
  exit_code "${checkers[i]}" 30
  expect "checker $((i + 1)) of three: $(cat "many$((i + 1)).out")" [ "$code" = 0 ]
done
gone "$listener" && fail 'the listener has ended'
check again 0

say 'a link on the way that is too narrow'
wait=12s
for link in port11 port12 br1; do ip -n "$switch" link set "$link" mtu 1500; done
check narrow 1
expect_text narrow.out 'plane 1: packets of 8,904 bytes do not pass from 10.9.1.1' 'of 1,500 do' \
  'from 10.9.1.2' 'MRC_MTU=1408'
if grep -q 'plane 0: packets of' narrow.out; then fail 'plane 0 is called narrow, too'; fi
end_listener
export MRC_MTU=1408
listen 10.9.0.2,10.9.1.2
check narrow-mtu 0  # the remedy helps
end_listener
unset MRC_MTU
for link in port11 port12 br1; do ip -n "$switch" link set "$link" mtu 9000; done

say 'planes in another order'
listen 10.9.1.2,10.9.0.2
check order 1
expect_text order.out 'which belongs with plane 1 of' 'give MRC_PLANES in the same order'
end_listener
listen 10.9.0.2
check fewer 1
expect_text fewer.out 'has 2 planes and'
end_listener

say 'a way on which packets vanish, by direction'
listen 10.9.0.2,10.9.1.2
ip -n "$b" neigh replace 10.9.1.1 lladdr 02:00:00:00:00:99 nud permanent dev p1
check back 1
expect_text back.out 'plane 1: nothing arrives from 10.9.1.2'
if grep -q 'nothing arrives from 10.9.1.1' back.out; then fail "the wrong way: $(cat back.out)"; fi
ip -n "$b" neigh del 10.9.1.1 dev p1
ip -n "$a" neigh replace 10.9.1.2 lladdr 02:00:00:00:00:99 nud permanent dev p1
check there 1
expect_text there.out 'plane 1: nothing arrives from 10.9.1.1' '4 of 4 arrive '
if grep -q 'TCP reaches' there.out; then fail "plane 0 carries UDP: $(cat there.out)"; fi
ip -n "$a" neigh del 10.9.1.2 dev p1
ip -n "$a" route del 10.9.1.0/24 dev p1
check route 1
expect_text route.out 'there is no route from 10.9.1.1 to 10.9.1.2'
ip -n "$a" route add 10.9.1.0/24 dev p1 src 10.9.1.1
end_listener

say 'UDP is blocked and TCP is not'
# udp ACTION NAMESPACE HOST: blocked or passes again, towards that host
udp() {
  local plane
  for plane in 0 1; do
    if [[ $1 == block ]]; then
      ip -n "$2" neigh replace "10.9.$plane.$3" lladdr 02:00:00:00:00:99 nud permanent dev "p$plane"
    else
      ip -n "$2" neigh del "10.9.$plane.$3" dev "p$plane"
    fi
  done
}
control_link
server=10.8.0.2
listen 10.9.0.2,10.9.1.2
udp block "$a" 2
check no-there 1
expect_text no-there.out 'no UDP packet arrives from' 'nothing arrives from 10.9.0.1'
if grep -q 'nothing arrives from 10.9.0.2' no-there.out; then fail "back: $(cat no-there.out)"; fi
udp block "$b" 1
check neither 1
expect_text neither.out 'TCP reaches' 'no UDP packet arrives in either direction'
udp pass "$a" 2
check no-back 1
expect_text no-back.out 'no UDP packet arrives from' 'nothing arrives from 10.9.0.2'
udp pass "$b" 1
check passes 0
end_listener
server=10.9.0.2

say 'planes in one subnet, on a switch of their own and on one'
for plane in 0 1; do
  ip -n "$a" addr add "10.9.7.$((plane + 1))/24" dev "p$plane"
  ip -n "$b" addr add "10.9.7.$((plane + 3))/24" dev "p$plane"
done
arp() {  # arp VALUE: which addresses interfaces answer for
  for ns in "$a" "$b"; do
    for dev in all p0 p1; do
      ip netns exec "$ns" sh -c "echo $1 >/proc/sys/net/ipv4/conf/$dev/arp_ignore
        echo 0 >/proc/sys/net/ipv4/conf/$dev/rp_filter"
    done
  done
}
planes_a=10.9.7.1,10.9.7.2
wait=60s
listen 10.9.7.3,10.9.7.4
arp 0
check subnet 0
expect_text subnet.out 'answers ARP for both' 'net.ipv4.conf.p1.arp_ignore=1'
if grep -q 'leave by' subnet.out; then fail "packets leave by one link: $(cat subnet.out)"; fi
arp 1
check subnet-arp 0
ip -n "$switch" link add joint0 type veth peer name joint1
for plane in 0 1; do
  ip -n "$switch" link set "joint$plane" mtu 9000 master "br$plane" up
done
check subnet-joined 0
for name in subnet-arp subnet-joined; do
  if grep -qE 'FAILED|ARP' "$name.out"; then fail "$name: $(cat "$name.out")"; fi
done
end_listener

say 'link-local addresses, the same one in each plane'
ip -n "$switch" link del joint0
for ns in "$a" "$b"; do
  for plane in 0 1; do
    n=$([[ $ns == "$a" ]] && echo 1 || echo 2)
    ip -n "$ns" addr add "fe80::$n/64" dev "p$plane" nodad
  done
done
planes_a=fe80::1%p0,fe80::1%p1
listen fe80::2%p0,fe80::2%p1 --at 'fe80::2%p0'
MRC_PLANES=$planes_a ip netns exec "$a" "$mrc_ctl" check --wait "$wait" 'fe80::2%p0' >local.out \
  2>local.err || fail "link-local addresses do not fit: $(cat local.*)"
expect_text local.out 'UDP port                  4791  '
expect_text listener.out 'fe80::2%p0 UDP 4791, fe80::2%p1 UDP 4791'
if grep -qE 'FAILED|leave by' local.out; then fail "local: $(cat local.out)"; fi
end_listener

say 'nobody listens'
check nobody 3
expect_text nobody.err '10.9.0.2 does not answer at TCP port 9795' 'mrc_ctl check --listen'
