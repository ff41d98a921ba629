#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The store of a host's rules in a /run that is full: programs open their devices and run, mrc_ctl
# says that it has changed nothing, and there are rules again once there is room. A device without a
# control socket follows them, too.
if [[ ${1-} != --inside ]] && ((EUID == 0)) && unshare --mount true 2>/dev/null; then
  exec unshare --mount "${BASH_SOURCE[0]}" --inside
fi
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl" "$mrc_perf"
[[ ${1-} == --inside ]] || skip 'a /run of its own needs root'

mount -t tmpfs -o size=64k,mode=755 none /run
cd "$work"
patience=60s
ctl() { "$mrc_ctl" --patience "$patience" "$@"; }
some=(--planes 2 --size 64K --rate 200M --duration 600 --give-up 600)
fill() { dd if=/dev/zero of="$1/filler" bs=4k 2>dd.err && fail "$1 is not full"; true; }

say 'without a byte of room'
fill /run
checked_run full --planes 2 --size 64K --duration 300ms
port=$(free_port)
start_server server "$port" --planes 2 --give-up 600
start client "$mrc_perf" --port "$port" "${some[@]}" 127.0.0.1
client=$pid
until_true 30 is 'len(d) == 2' list || fail "not two devices: $(ctl list)"
refused 1 'No space left on device' -- ctl plane 1 down --all
is 'all(p["enabled"] for e in d for p in e["answer"])' planes || fail 'a plane is down all the same'
[[ -z $(find /run/openmrc/host -name '*.json*') ]] || fail 'half a file is left'

say 'room again'
rm /run/filler
ctl plane 1 down --all >plane.out || fail 'plane down for the host'
is 'not any(e["answer"][1]["enabled"] for e in d)' planes || fail 'the plane is not down'
fill /run
for file in /run/openmrc/host/*; do truncate -s 0 "$file"; done
checked_run truncated --planes 2 --size 64K --duration 300ms
expect_text truncated.err 'the rules for this host'
is 'not any(e["answer"][1]["enabled"] for e in d)' planes --pid "$client" ||
  fail 'rules that can not be read have changed something'
rm /run/filler
ctl allow --everything >allow.out || fail 'allow'
ctl plane 1 down --all >plane.out || fail 'plane down for the host'

say 'a device without a socket follows the rules of the host, too'
enabled() {  # enabled TRUE|FALSE: its plane 1, by a dump that it leaves now
  local lines
  lines=$(cat dump.json 2>/dev/null | wc -l)
  kill -USR2 "$later"
  more() { [[ $(cat dump.json 2>/dev/null | wc -l) -gt $lines ]]; }
  until_true 20 more || fail 'no dump'
  [[ $(tail -n 1 dump.json | jq '.planes[1].enabled') == "$1" ]]
}
later_port=$(free_port)
start_server later-server "$later_port" --planes 2 --give-up 600
later_server=$server
MRC_CONTROL=off MRC_DUMP=$PWD/dump.json start later "$mrc_perf" --port "$later_port" "${some[@]}" \
  127.0.0.1
later=$pid
until_true 30 grep -Eqs '[1-9][0-9.]* Gb/s' later.out || fail 'it does not run'
enabled false || fail 'it does not know the rules'
ctl plane 1 up --all >plane.out || fail 'plane up for the host'
until_true 20 enabled true || fail 'it does not follow them'
interrupt "$later" 60
exit_code "$later_server" 60
interrupt "$client" 60
exit_code "$server" 60 || true

say 'not even a file can be made: no control socket, and everything else'
mkdir few
mount -t tmpfs -o nr_inodes=1 none few
export MRC_CONTROL=$PWD/few
MRC_DUMP=$PWD/few-%p.json checked_run few --planes 2 --size 64K --duration 300ms
expect_text few.err 'no control socket' 'No space left on device'
expect 'warnings' [ "$(grep -c 'No space left' few.err)" = 1 ]
expect 'dumps' [ "$(cat few-*.json | wc -l)" = 2 ]
umount few
