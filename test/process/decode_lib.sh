# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the dissector share. Source it after lib.sh: it goes to the folder $work.
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
support=$source_dir/test/support dissector=$source_dir/tools/wireshark/mrc.lua
command -v tshark >/dev/null || skip 'no tshark'
command -v python3 >/dev/null || skip 'no python3'
python=$(python3 -c 'import sys; print(sys.executable)')  # the program itself, not a slow wrapper
export PYTHONDONTWRITEBYTECODE=1
cd "$work"

capture() { "$python" "$support/mrc_capture.py" "$@"; }
# No preferences or plugins of the user that runs the test.
export XDG_CONFIG_HOME=$work HOME=$work
dissect() {  # dissect FILE OPTION...: tshark with the dissector, output in dissect.out
  tshark -n -X "lua_script:$dissector" -r "$@" >dissect.out 2>dissect.err ||
    fail "tshark: $(cat dissect.err)"
  if grep -q 'Lua' dissect.err dissect.out; then
    fail "$(grep -h Lua dissect.err dissect.out | sort | uniq -c | head)"
  fi
}
check() {  # check STATUS OPTION...: mrc_check.py, output in check.out
  local status=$1 result=0
  shift
  "$python" "$support/mrc_check.py" "$@" >check.out 2>check.err || result=$?
  expect "exit status of mrc_check.py $*" [ "$result" = "$status" ]
}

# Cases that check_cases judges, all in one capture.
options=()
good() {  # good PACKET...: no violation
  printf 'good\t\t%s\t%s\n' "${options[*]}" "$*" >>cases.txt
}
bad() {  # bad FIELD PACKET...: one violation, of this field of the last packet
  local field=$1
  case $field in
    BTH.*) field=mrc.${field#*.} ;;
    METH.* | TSETH.* | RETH.* | AETH.*) field=mrc.${field,,} ;;
    SETH.*) field=mrc.sack.${field#*.} ;;
    CC_STATE.*) field=mrc.cc.${field#*.} ;;
    NETH.*) field=mrc.nack.${field#*.} ;;
    PETH.*) field=mrc.probe.${field#*.} ;;
    ERTH.*) field=mrc.request.${field#*.} ;;
    EETH.*) field=mrc.response.${field#*.} ;;
  esac
  printf 'bad\t%s\t%s\t%s\n' "$field" "${options[*]}" "${*:2}" >>cases.txt
}
check_cases() {  # check_cases OPTION...: of mrc_check.py
  local specs
  specs=$(cut -f 4 cases.txt | tr '\n' ' ')
  tr ' ' '\n' <<<"$specs" | capture cases.pcap -
  check 0 --cases cases.txt "$@" cases.pcap
  cat check.out
}
