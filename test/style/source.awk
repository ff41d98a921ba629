# SPDX-License-Identifier: Apache-2.0
# Rules for every source file: width, licence line, header guard.
function close_file() {
  if (file == "") return
  if (!licence) printf "%s:1: first line (or second, after #!) has to be the SPDX line\n", file
  if (file ~ /\.(hpp|inl|h)$/ && !guard) printf "%s:1: no #pragma once\n", file
}
FNR == 1 {
  close_file()
  file = FILENAME
  licence = guard = 0
  shebang = /^#!/
}
FNR == 1 + shebang && /^(\/\/|#) SPDX-License-Identifier: Apache-2\.0$/ { licence = 1 }
/^#pragma once$/ { guard = 1 }
{
  columns = $0
  gsub(/[\200-\277]/, "", columns)  # a character counts once, however many bytes UTF-8 takes
  if (length(columns) > 100)
    printf "%s:%d: %d columns, more than 100\n", FILENAME, FNR, length(columns)
}
END { close_file() }
