#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# style_test.sh [ROOT]: checks the rules of style that a machine can check and prints one line for
# each finding: FILE:LINE: what is wrong. ROOT is the source tree (default: this one).
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-${MRC_SOURCE_DIR:-$here/../..}}"

# Committed files and those about to be; in an unpacked archive, all but build output.
list_files() {
  if [[ -e .git ]] && git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard
  else
    find . -type f -not -path './build*/*' -not -path './out/*' -not -path './.git/*' -printf '%P\n'
  fi | sort -u | while IFS= read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done
}

# Of the files on standard input, those that hold text, and the rules for texts apply to.
texts_of() {
  local files file
  files=$(grep -vE '\.(svg|csv|json)$|^test/fuzz/corpus/|^LICENSE$') || return 0
  tr '\n' '\0' <<<"$files" | xargs -0 -r grep -lI -e '' -- || true
  while IFS= read -r file; do
    if [[ ! -s $file ]]; then printf '%s\n' "$file"; fi
  done <<<"$files"
}

# Source files carry a licence line; data and prose are exempt from that and from the width.
sources_of() {
  awk '/\.(hpp|inl|cpp|h|c|sh|awk|cmake|cmake\.in)$/ || /(^|\/)CMakeLists\.txt$/ { print; next }
    { if ((getline line <$0) > 0 && line ~ /^#!/) print; close($0) }'
}

headers=() data_path=() programs=()
mapfile -t texts < <(list_files | texts_of)
if ((${#texts[@]} == 0)); then
  echo "no files in $PWD" >&2
  exit 2
fi
mapfile -t sources < <(printf '%s\n' "${texts[@]}" | sources_of)
for file in "${texts[@]}"; do
  case $file in
    include/mrc/engine/service.hpp) headers+=("$file") ;; # of a module, once a burst
    include/mrc/engine/*) data_path+=("$file") ;;&
    include/*) headers+=("$file") ;;
    nccl_plugin/test/*) ;;
    nccl_plugin/*.[ch]pp | verbs_shim/*.[ch]pp) programs+=("$file") ;;
  esac
done

check() {  # check SCRIPT FILE...: runs an awk script of this folder over the files
  local script=$1
  shift
  if (($# > 0)); then awk -f "$here/$script" "$@"; fi
}

findings=$(
  printf '%s\n' "${texts[@]}" | awk -f "$here/layout.awk"
  check text.awk "${texts[@]}"
  check source.awk "${sources[@]}"
  check layers.awk "${headers[@]}"
  check programs.awk "${programs[@]}"
  check docs.awk "${headers[@]}"
  check namespace.awk "${headers[@]}"
  check system_headers.awk "${headers[@]}"
  check data_path.awk "${data_path[@]}"
)
if [[ -n $findings ]]; then
  printf '%s\n' "$findings"
  printf '%s findings in %s files\n' "$(wc -l <<<"$findings")" "${#texts[@]}" >&2
  exit 1
fi
echo "${#texts[@]} files, ${#sources[@]} of them sources: no findings"
