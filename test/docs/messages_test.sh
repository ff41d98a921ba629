#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# messages_test.sh: docs/troubleshooting.md quotes messages as the programs print them.
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/messages_test.py"
