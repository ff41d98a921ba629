# SPDX-License-Identifier: Apache-2.0
# Every type, concept and enumeration at namespace level has a /// comment just above. clang-format
# does not indent namespaces and breaks the line after template<>, so what starts in column 1 is at
# namespace level. A comment covers what follows without an empty line. Exempt: forward
# declarations, specialisations, and namespaces named detail.
FNR == 1 { hidden = 0 }
FNR == 1 || /^$/ { documented = 0 }
/^namespace .*detail.*\{/ { hidden = 1 }
/^\}  \/\/ namespace .*detail/ { hidden = 0 }
/^\/\/\// || /^template <>/ { documented = 1; next }
/^(class|struct|union|enum|concept) / {
  declaration_only = $1 != "concept" && /^[^{]*;/
  if (!documented && !hidden && !declaration_only)
    printf "%s:%d: no /// comment above: %s\n", FILENAME, FNR, $0
}
