#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI over UCX over the verbs shim, with checked sums; and what libfabric sees.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"

say 'libfabric: the device'
if command -v fi_info >/dev/null; then
  timeout 100 "$mrcrun" --quiet fi_info -p verbs >"$work/fi.out" 2>&1 || fail 'fi_info failed'
  grep_all 'domain: mrc0' <"$work/fi.out" || fail 'fi_info does not list mrc0'
fi

need_tool mpicxx mpirun
mpicxx -std=c++20 -O1 -o "$work/sums" "$(dirname "${BASH_SOURCE[0]}")/mpi_sums.cpp"
export UCX_NET_DEVICES=mrc0:1 UCX_TLS=self,rc_verbs,ud_verbs
numbers=(4)
if full; then numbers+=(2 8); fi
for ranks in "${numbers[@]}"; do
  say "Open MPI: $ranks processes"
  # Those that wait give up the processor: there are fewer of them than processes.
  timeout -k 2 300 mpirun -n "$ranks" --allow-run-as-root --oversubscribe \
    --mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any \
    --mca mpi_yield_when_idle 1 "$mrcrun" --quiet "$work/sums" >"$work/mpi$ranks.out" 2>&1 ||
    fail "$ranks processes: mpirun ended with $?"
  grep_all "^$ranks ranks: all sums are right\$" <"$work/mpi$ranks.out" || fail 'wrong sums'
done
