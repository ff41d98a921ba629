#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transport_test.sh COMPILER: README's first program compiles, links and moves data with a copy of
# include/ that has no modules. What would need one names the header that brings it when it runs, or
# is a member of Device that the linker does not find.
set -euo pipefail
source_dir=${MRC_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
compiler=${1:-c++}
# shellcheck source=test/header_only/modules.sh
source "$source_dir/test/header_only/modules.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

copy_transport "$source_dir" "$work/include"
printf '#define MRC_IMPLEMENTATION\n#include "mrc/mrc.hpp"\n' >"$work/mrc.cpp"
"$compiler" -std=c++20 -O0 -I "$work/include" -c "$work/mrc.cpp" -o "$work/mrc.o"
"$compiler" -std=c++20 -O0 -I "$work/include" "$source_dir/examples/first_program.cpp" \
  "$work/mrc.o" -o "$work/first" -pthread
(cd "$work" && env -i ./first | tee out)
grep -q '^success: "hello from' "$work/out"

failed=0
expect() {  # expect HEADER VARIABLE=VALUE: that setting is refused, and HEADER named
  local out
  if out=$(env -i "$2" "$work/first" 2>&1) || ! grep -q "include <mrc/$1.hpp>" <<<"$out"; then
    echo "$2: mrc/$1.hpp is not named: $out" >&2
    failed=1
  fi
}
echo '{}' >"$work/fabric.json"
expect fabric MRC_FABRIC="$work/fabric.json"
expect verbs MRC_VERBS=no_nic0
expect faults MRC_FAULTS=loss=0.1
expect control MRC_CONTROL="$work/sockets"
expect control MRC_DUMP="$work/dump"

cat >"$work/calls.cpp" <<'CODE'
#include <cstdio>
#include <string>

#include "mrc/mrc.hpp"

template <class F>
bool names(const char* header, F&& call) {
  try {
    call();
  } catch (const mrc::Error& error) {
    if (error.code() == mrc::Errc::unsupported &&
        std::string(error.what()).find(std::string("include <mrc/") + header) != std::string::npos)
      return true;
    std::printf("%s is not named: %s\n", header, error.what());
    return false;
  }
  std::printf("%s was not needed\n", header);
  return false;
}

int main() {
  mrc::Device device;
  auto cq = device.create_cq(16);
  auto qp = device.create_qp({.send_cq = &cq});
  qp.modify({.state = mrc::QpState::init});
  mrc::QpChange change{.state = mrc::QpState::rtr};
  change.destination = mrc::Destination{device.gid(), mrc::Qpn{7}};
  change.receive_psn = mrc::Psn{1};
  const bool gid = names("resolve.hpp", [&] { qp.modify(change); });
  mrc::QpOptions options{.send_cq = &cq};
  options.profiles.ev = 1;
  const bool profiles = names("control.hpp", [&] { (void)device.create_qp(options); });
#ifdef CALLS_A_MODULE
  device.set_faults("loss=0.1");
#endif
  return gid && profiles ? 0 : 1;
}
CODE
"$compiler" -std=c++20 -I "$work/include" "$work/calls.cpp" "$work/mrc.o" -o "$work/calls" -pthread
env -i "$work/calls" || failed=1
if "$compiler" -std=c++20 -DCALLS_A_MODULE -I "$work/include" "$work/calls.cpp" "$work/mrc.o" \
  -o "$work/calls" -pthread 2>"$work/link" || ! grep -q 'undefined.*set_faults' "$work/link"; then
  echo "Device::set_faults() is there without its module: $(cat "$work/link")" >&2
  failed=1
fi
exit "$failed"
