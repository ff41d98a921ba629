#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the page of `mrc_ctl serve` says in one sentence, of fabrics with failures of each kind, by
# the page's own code in Node.js.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_tool node
cp "$source_dir"/tools/mrc_ctl/serve/page/*.js "$work"
echo '{"type": "module"}' >"$work/package.json"
expect 'verdicts' [ "$(node "$support/serve_verdict.mjs" "$work" 2>&1)" = ok ]
