#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# api_docs_test.sh: the API reference can be generated, and no public name of the headers lacks a
# comment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=${MRC_SOURCE_DIR:-$here/../..}
if ! command -v doxygen >/dev/null; then
  echo "doxygen not found (Debian: apt-get install doxygen)"
  exit 77
fi

# A copy, so that the source tree stays as it is.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/scripts"
cp -r "$source_dir/docs" "$source_dir/include" "$tree/"
cp "$source_dir/scripts/docs" "$tree/scripts/"
cd "$tree"

if ! scripts/docs; then
  echo "add a /// comment to each of these names, or mend the comment"
  exit 1
fi
for page in index classmrc_1_1Device classmrc_1_1QueuePair structmrc_1_1Config; do
  if [[ ! -s build/docs/html/$page.html ]]; then
    echo "the reference has no page $page.html"
    exit 1
  fi
done
if ! grep -qF 'MRC_LOSS_STRIKES' docs/configuration.md ||
  ! grep -qF 'Inferred losses in a row' build/docs/html/structmrc_1_1ExpertConfig.html; then
  echo "mrc::ExpertConfig::loss_strikes lacks its text from docs/configuration.md"
  exit 1
fi
