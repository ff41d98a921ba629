# SPDX-License-Identifier: Apache-2.0
# engine/ neither dispatches at run time, nor throws, nor allocates. A line that runs only at set-up
# says so: // set-up
/\/\/ set-up/ || /^#/ { next }
{
  code = $0
  gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
  sub(/\/\/.*/, "", code)
  gsub(/\/\*[^*]*\*\//, "", code)
  code = " " code " "
  if (match(code, /[^A-Za-z0-9_](virtual|throw|new|malloc)[^A-Za-z0-9_]|std::function/)) {
    word = substr(code, RSTART, RLENGTH)
    gsub(/[^A-Za-z:]/, "", word)
    printf "%s:%d: %s on the data path\n", FILENAME, FNR, word
  }
}
