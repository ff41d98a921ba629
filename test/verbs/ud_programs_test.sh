#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian that use datagrams, unmodified, with the verbs shim: libibverbs' example,
# perftest, and UCX, which finds its peers by datagrams.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool ibv_ud_pingpong ib_send_bw

say 'datagrams alone'
pingpong ud ibv_ud_pingpong -g 0
# As many as there are receives: what finds none is lost, and perftest would wait for it.
pair ud_bw 20 ib_send_bw -n 400 -r 512 -c UD
pair ud_lat 20 ib_send_lat -n 200 -c UD

need_tool ucx_perftest
say 'UCX: the device, and its protocols over connections and datagrams'
"$mrcrun" --quiet ucx_info -d >"$work/ucx.out" 2>&1
for transport in rc_verbs ud_verbs; do
  grep -A1 "Transport: $transport\$" "$work/ucx.out" | grep_all 'Device: mrc0:1$' ||
    fail "no $transport"
done

# ucx NAME TRANSPORTS OPTION...: ucx_perftest between two processes.
ucx() {
  local client_options=(-w 10 -n 200 "${@:3}")
  UCX_NET_DEVICES=mrc0:1 UCX_TLS=$2 two "$1" 20 ucx_perftest
  grep_all '^Final:' <"$work/$1.client.out" || fail "ucx_perftest ${*:3}: no result"
}
ucx ud ud_verbs -x ud_verbs -d mrc0:1 -t am_lat
lower=('put_bw -D zcopy -s 65536')
upper=('tag_bw -s 65536')
if full; then
  lower+=('put_lat -D short' 'am_lat -D short' 'am_bw -D bcopy -s 4096' 'get -D zcopy -s 65536'
    'fadd' 'cswap')
  upper+=('tag_lat' 'ucp_put_bw -s 8192' 'ucp_get -s 100000' 'ucp_add' 'ucp_fadd' 'ucp_cswap'
    'ucp_am_bw -s 1000')
fi
for options in "${lower[@]}"; do
  # shellcheck disable=SC2086  # words
  ucx "rc_${options%% *}" rc_verbs -x rc_verbs -d mrc0:1 -s 8 -t $options
done
for options in "${upper[@]}"; do
  # shellcheck disable=SC2086  # words
  ucx "${options%% *}" rc_verbs,ud_verbs -t $options
done
