# SPDX-License-Identifier: Apache-2.0
# The library is in one namespace, mrc::inline <version> (include/mrc/core/linkage.hpp).
/^(inline )?namespace mrc($|[^a-z_])/ && !/^namespace mrc::inline v[0-9]+_[0-9]+(::[a-z_]+)* \{$/ {
  printf "%s:%d: open namespace mrc as mrc::inline vMAJOR_MINOR\n", FILENAME, FNR
  next
}
/^namespace mrc::inline v/ {
  match($0, /v[0-9]+_[0-9]+/)
  here = substr($0, RSTART, RLENGTH)
  if (version == "") version = here
  if (here != version)
    printf "%s:%d: namespace %s, but %s elsewhere\n", FILENAME, FNR, here, version
}
