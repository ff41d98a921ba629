# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Runs in the virtual machine, with the host's programs: makes NICs and devices, then runs the
# command. Its own messages go to guest.log.
control=/run/openmrc-vm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ulimit -l unlimited
ulimit -c 0
nics=2 merge=0
. $control/settings

setting() { echo "$2" >"/proc/sys/$1"; }
ip link set lo up
# One host, several NICs, and packets between them on the wire: the kernel has to take packets that
# come from one of its own addresses, and each NIC answers ARP for its own address only.
for which in all default; do
  setting net/ipv4/conf/$which/accept_local 1
  setting net/ipv4/conf/$which/rp_filter 0
done
setting net/ipv4/conf/all/arp_ignore 1
setting net/ipv4/conf/all/arp_announce 2
setting net/core/rmem_max 16777216

ip link add br0 type bridge
ip link set br0 mtu 9000 up
echo 0 >/sys/class/net/br0/bridge/multicast_snooping
for ((i = 1; i <= nics; ++i)); do
  ip link add nic$i mtu 9000 address "02:00:00:00:77:$(printf '%02x' $i)" type veth \
    peer name wire$i mtu 9000
  setting net/ipv6/conf/nic$i/accept_dad 0
  ip link set wire$i master br0 up
  ip addr add 10.77.0.$i/24 dev nic$i
  ip link set nic$i up
done
for ((i = 1; i <= nics; ++i)); do
  rdma link add rxe$i type rxe netdev nic$i || echo "cannot make rxe$i" >&2
done

# What this kernel found out about its clock helps the next one to boot.
dmesg | sed -n 's/.*tsc: Detected \([0-9]*\)\.\([0-9]\{3\}\) MHz.*/\1\2/p' >$control/tsc
cat /proc/uptime >$control/up.part && mv $control/up.part $control/up
if ((merge)); then
  bash $control/command.sh </dev/null >$control/out 2>&1
else
  bash $control/command.sh </dev/null >$control/out 2>$control/err
fi
status=$?
cat /proc/uptime >$control/down
sync
echo $status >$control/status.part && mv $control/status.part $control/status
