#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# public_includes_test.sh COMPILER: without MRC_IMPLEMENTATION, mrc/mrc.hpp includes declarations
# only: no third-party library, no socket header, not the engine, no definitions (*.inl).
set -euo pipefail
export LC_ALL=C
source_dir=${MRC_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
compiler=${1:-c++}

# Paths that no public header may include, as an extended regular expression.
forbidden='/nlohmann/|/boost/|/fmt/|/[a-z0-9]+intrin\.h$|/netinet/|/arpa/|/netpacket/|/netdb\.h$'
forbidden+='|/(include|[a-z0-9_]+-gnu)/net/'
forbidden+='|/(sys|bits|asm|asm-generic)/socket\.h$|/linux/(if_|netlink|rtnetlink|net)'
forbidden+='|/(sys/|bits/)?poll\.h$|/sys/epoll\.h$|/mrc/engine/engine\.hpp$|\.inl$'

dependencies() {  # dependencies HEADER...: every file that a unit with these headers includes
  printf '#include "%s"\n' "$@" |
    "$compiler" -std=c++20 -I "$source_dir/include" -M -x c++ - |
    sed -e 's/^[^ ]*\.o://' -e 's/\\$//' | tr -s ' ' '\n' | sed '/^$/d' | sort -u
}

failed=0
public=(mrc/mrc.hpp mrc/config.hpp mrc/control.hpp mrc/device.hpp mrc/exchange.hpp mrc/stats.hpp
  mrc/fabric.hpp mrc/verbs.hpp mrc/resolve.hpp mrc/faults.hpp)
for header in "${public[@]}"; do
  files=$(dependencies "$header")
  if ! grep -q "/include/$header\$" <<<"$files"; then
    echo "$header: not in its own list of dependencies; does $compiler know -M?" >&2
    failed=1
  fi
  found=$(grep -E "$forbidden" <<<"$files" || true)
  [[ -z $found ]] || failed=1
  while IFS= read -r file; do
    [[ -z $file ]] || echo "$header includes $file" >&2
  done <<<"$found"
done

if ((failed == 0)); then
  echo "mrc/mrc.hpp: $(dependencies mrc/mrc.hpp | wc -l) files, none forbidden"
fi
exit "$failed"
