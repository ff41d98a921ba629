#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual page of mrc_ctl has the commands and options that its help has, and no others; the
# completion for bash offers them, and the devices that are open.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl"
tool=$source_dir/tools/mrc_ctl
cd "$work"

say 'manual page'
python3 - "$mrc_ctl" "$tool/mrc_ctl.1" <<'END' || fail 'the manual page and --help differ'
import os, re, subprocess, sys
program, page = sys.argv[1:]

def help_of(*command):  # {section: [first word of each of its rows]}
    text = subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "200"}).stdout
    sections, rows = {}, None
    for line in text.splitlines():
        if re.match(r"[A-Z]\w+:$", line):
            rows = sections.setdefault(line[:-1], [])
        elif re.match(r"\S", line):
            rows = None
        elif rows is not None and (row := re.match(r"  (?:-h,)?(\S+)", line)):
            if row[1]:
                rows.append(row[1])
    return sections

def options(section):
    return {word for word in section if word.startswith("--")}

helped = {"": options(help_of()["Options"])}
for command in help_of()["Subcommands"]:
    helped[command] = options(help_of(command)["Options"]) - {"--help"}

shown, command, depth = {"": set()}, "", 0
for line in open(page):
    if line.startswith(".Ss Commands"):
        depth = 0
    depth += line.startswith(".Bl") - line.startswith(".El")
    if item := re.match(r"\.It Cm (\w+)", line):
        command = item[1]
        shown.setdefault(command, set())
    elif item := re.match(r"\.It Fl -([\w-]+)", line):
        shown[command].add("--" + item[1])
shown["allow"] |= shown["deny"]  # as the page says

bad = [f"{name or 'mrc_ctl'}: help has {sorted(helped.get(name, []))}, the page has "
       f"{sorted(shown.get(name, []))}"
       for name in helped.keys() | shown.keys() if helped.get(name) != shown.get(name)]
sys.exit("\n".join(bad) or 0)
END
kinds=$(COLUMNS=400 "$mrc_ctl" events --help | sed -n 's/^ *--kind .*Only those: //p')
[[ -n $kinds && $(tr '\n' ' ' <"$tool/mrc_ctl.1") == *"Only those: $kinds."* ]] ||
  fail "the manual page has other kinds of events than --help: $kinds"
if command -v groff >/dev/null; then
  groff -mandoc -Tutf8 -ww "$tool/mrc_ctl.1" >page.out 2>page.err || fail 'groff does not read it'
  [[ ! -s page.err ]] || fail "groff warns: $(cat page.err)"
fi

say 'completion'
mkdir sockets
export MRC_CONTROL=$PWD/sockets
port=$(free_port)
start_server server "$port"
start client "$mrc_perf" --port "$port" --size 64K --rate 40M --duration 600 --give-up 600 127.0.0.1
client=$pid
mrc_ctl() { "$mrc_ctl" --folder "$work/sockets" --patience 60s "$@"; }
listed() { [[ $(mrc_ctl --json list | jq length) == 2 ]]; }
until_true 30 listed || fail "not two devices: $(mrc_ctl list)"
# shellcheck source=/dev/null
. "$tool/completion.bash"
offers() {  # offers WORDS LINE...: these, in any order, at the last word of the line
  local wanted=$1
  shift
  COMP_WORDS=(mrc_ctl "$@")
  COMP_CWORD=$#
  _mrc_ctl mrc_ctl
  [[ ${COMPREPLY[*]-} == "$wanted" ]] || fail "at '$*' it offers '${COMPREPLY[*]-}', not '$wanted'"
}
[[ $(complete -p mrc_ctl) == *_mrc_ctl* ]] || fail 'mrc_ctl is not completed'
offers 'paths' pat
offers 'plane planes' plane
offers 'denied deny' den
offers 'plane planes' --pid 7 plane
offers '' nothing
offers '--patience --pid' --p
offers '--patience --peer --pid --plane' probe --p
offers '--listen' check --l
offers 'down up' plane 1 ''
offers 'diff get list put' profiles ''
offers '--dry-run' profiles put --dr
offers 'info off warn' log ''
offers 'plane plane_down plane_up' events --kind pl
offers "$(printf '%s\n' "$server" "$client" | sort | paste -sd' ')" paths --pid ''
offers "$client" paths --pid "$client"
offers 'mrc_perf' --name mrc
offers '' probe --time ''
offers "$work/sockets" --folder "$work/sock"
id=$(mrc_ctl --json list | jq -r '.[0].device')
offers "$id" --device "${id:0:12}"
offers '' check --listen n
kill -INT "$client"
exit_code "$client" 60
exit_code "$server" 60
