# SPDX-License-Identifier: Apache-2.0
# The kinds of Engine's methods: what the class comment and docs/contracts.md list as inputs is
# what stands in the section "Inputs" of the class, in that order, and getters change nothing.
function names_in(text, pattern,   list, name) {
  while (match(text, pattern)) {
    name = substr(text, RSTART, RLENGTH)
    gsub(/[^a-z_]/, "", name)
    list = list " " name
    text = substr(text, RSTART + RLENGTH)
  }
  return list
}
FILENAME ~ /\.md$/ {
  if (/^\| inputs \|/) {
    page = names_in($0, "`[a-z_]+`")
    table = FILENAME
    row = FNR
  }
  next
}
/^\/\/\/ \* inputs/ { listing = 1; line = FNR; header = FILENAME }
/^\/\/\/ \* outputs/ { listing = 0 }
listing { comment = comment names_in($0, "[a-z_]+\\(\\)") }
/^ private:/ { section = "" }
/^  \/\/ --- / { section = $3 }
# A declaration begins at two spaces and may go on; what is in braces has more.
section == "Inputs" && /^  [A-Za-z].*\(/ {
  inputs = inputs names_in(substr($0, 1, index($0, "(")), "[a-z_]+\\($")
}
section == "Getters" && /^  [A-Za-z[]/ && !/^  (template|using)/ { declaration = ""; open = 1 }
open {
  declaration = declaration $0
  if (/[;{]$/ || /\}$/) {
    open = 0
    if (declaration !~ /\) const/)
      printf "%s:%d: a getter that is not const\n", FILENAME, FNR
  }
}
END {
  if (comment != "" && comment != inputs)
    printf "%s:%d: the comment lists inputs%s; the section has%s\n", header, line, comment, inputs
  if (page != "" && page != inputs)
    printf "%s:%d: the table lists inputs%s; the section has%s\n", table, row, page, inputs
}
