# SPDX-License-Identifier: Apache-2.0
# The layout, from file names, one per line: what an application includes has no two headers of one
# name.
/^include\/.*\.hpp$/ && !/^include\/mrc\/(sim|probe)\// {
  name = $0
  sub(/.*\//, "", name)
  if (name in seen) printf "%s:1: the name of %s, choose another\n", $0, seen[name]
  seen[name] = $0
}
