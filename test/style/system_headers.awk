# SPDX-License-Identifier: Apache-2.0
# core/system_headers.hpp has all headers of others that the library includes: what a unit includes
# first where it defines MRC_IMPLEMENTATION is hidden. Public headers of modules bring those of
# their libraries.
FNR == 1 { lists = FILENAME == "include/mrc/core/system_headers.hpp" }
/^[ \t]*#[ \t]*include[ \t]*</ {
  header = $0
  gsub(/.*<|>.*/, "", header)
  if (lists) listed[header] = 1
  else if (!(header in seen)) seen[header] = FILENAME ":" FNR
}
END {
  listed["nlohmann/json.hpp"] = listed["infiniband/verbs.h"] = 1
  for (header in seen)
    if (!(header in listed))
      printf "%s: <%s> is not in core/system_headers.hpp\n", seen[header], header
}
