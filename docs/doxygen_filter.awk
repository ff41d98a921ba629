# SPDX-License-Identifier: Apache-2.0
# Doxygen's input filter for the headers of include/mrc. Line numbers stay as they are.
#
# * The inline namespace of the version is left out: names appear as programs write them,
#   mrc::Device.
# * Every header is a documented file; a `///` comment in front of a namespace or an #include
#   describes it. Without that Doxygen would not check functions outside of classes.
# * The members of mrc::Config and mrc::ExpertConfig get the meaning of their option from the table
#   in docs/configuration.md, which is generated from the option table.
# * Digit separators are left out. Doxygen 1.9.4 takes them for quotes: after 10'000 it adds the
#   comment above a member to the member before.

# Prints what was held back: perhaps an empty line, then perhaps lines of a comment.
function flush(as_file) {
  if (empty_held) print (as_file && comment != "" ? "/// @file" : "")
  printf "%s", comment
  empty_held = 0
  comment = ""
}

BEGIN {
  while ((getline row < "docs/configuration.md") > 0) {
    if (row !~ /^\| `[a-z0-9_]+` \| `MRC_/) continue
    sub(/^\| */, "", row)
    sub(/ *\|$/, "", row)
    split(row, cell, / \| /)
    gsub(/`/, "", cell[1])
    meaning[cell[1]] = cell[5] " Variable " cell[2] ", allowed: " cell[4] "."
  }
}
!/^ *\/\// {
  while (match($0, /[0-9]'[0-9]/)) $0 = substr($0, 1, RSTART) substr($0, RSTART + 2)
}
/\/\/\// { gsub(/::ffff/, "\\\\::ffff") }  # an address, not a name to link to
FNR == 1 { print "/** @file */"; next }
/^$/ { flush(0); empty_held = 1; next }
/^\/\/\// { comment = comment $0 "\n"; next }
{
  flush(/^namespace mrc/ || /^#include/)
  sub(/^namespace mrc::inline v0_1/, "namespace mrc")
}
FILENAME ~ /mrc\/config\.hpp$/ && /^  [A-Za-z0-9_:<>]+ [a-z_0-9]+( = .*|\{.*\})?;$/ {
  name = $2
  sub(/[;{].*/, "", name)
  if (name in meaning) $0 = $0 "  ///< " meaning[name]
}
{ print }
END { flush(0) }
