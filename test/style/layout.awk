# SPDX-License-Identifier: Apache-2.0
# The layout, from file names, one per line: a reader sees a folder at a glance, and what an
# application includes has no two headers of one name.
BEGIN { most = 45 }
{
  folder = $0
  if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
  if (++files[folder] == most + 1)
    printf "%s: more than %d files directly in it, make folders\n", folder, most
}
/^include\/.*\.hpp$/ && !/^include\/mrc\/(sim|probe)\// {
  name = $0
  sub(/.*\//, "", name)
  if (name in seen) printf "%s:1: the name of %s, choose another\n", $0, seen[name]
  seen[name] = $0
}
