# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of mrc_ctl in bash: source it, or install it as
# share/bash-completion/completions/mrc_ctl. Commands and options are those of `mrc_ctl --help`,
# so those of later versions are known, too.

# _mrc_ctl_help SECTION PROGRAM [COMMAND]: the words in front of the lines of a section of its help
_mrc_ctl_help() {
  COLUMNS=200 "${@:2}" --help 2>/dev/null | awk -v section="$1:" '
    /^[A-Z]/ { inside = $0 == section }
    inside && /^  [a-z-]/ { n = split($1, words, ","); for (i = 1; i <= n; ++i) print words[i] }'
}

# _mrc_ctl_field FIELD PROGRAM: its values in the list of open devices, one per line
_mrc_ctl_field() {
  "$2" --json list 2>/dev/null | sed -n 's/^ *"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' |
    sort -u
}

# _mrc_ctl_kinds PROGRAM: those of events, as the help names them
_mrc_ctl_kinds() {
  COLUMNS=400 "$1" events --help 2>/dev/null |
    sed -n 's/^ *--kind .*Only those: //p' | tr -cs 'a-z_' '\n'
}

# _mrc_ctl_takes_value OPTION COMMAND
_mrc_ctl_takes_value() {
  case $2:$1 in
    *:--all | *:--json | *:--idle | *:--bad | *:--follow | *:--everything | *:--steer) false ;;
    profiles:--dry-run) false ;;
    check:--listen | serve:--paths) false ;;
    *:--*) true ;;
    *) false ;;
  esac
}

_mrc_ctl() {
  local program=$1 word=${COMP_WORDS[COMP_CWORD]} before='' commands command='' given=0 i
  if ((COMP_CWORD > 0)); then before=${COMP_WORDS[COMP_CWORD - 1]}; fi
  COMPREPLY=()
  commands=$(_mrc_ctl_help Subcommands "$program")
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ -n $command ]]; then
      given=$((given + 1))  # words behind the command
    elif [[ ${COMP_WORDS[i - 1]} != --* && " ${commands//$'\n'/ } " == *" ${COMP_WORDS[i]} "* ]]; then
      command=${COMP_WORDS[i]}
    fi
  done

  local words
  case $before in
    --pid) words=$(_mrc_ctl_field pid "$program") ;;
    --name) words=$(_mrc_ctl_field program "$program") ;;
    --device) words=$(_mrc_ctl_field device "$program") ;;
    --kind) words=$(_mrc_ctl_kinds "$program") ;;
    --folder)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --fabric | --token-file)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    *)
      if _mrc_ctl_takes_value "$before" "$command"; then
        return  # that only the user knows
      elif [[ $word == -* ]]; then
        words=$(_mrc_ctl_help Options "$program")
        if [[ -n $command ]]; then words+=$'\n'$(_mrc_ctl_help Options "$program" "$command"); fi
      elif [[ -z $command ]]; then
        words=$commands
      elif [[ $command == plane && $given == 1 ]]; then
        words='up down'
      elif [[ $command == profiles && $given == 0 ]]; then
        words='list get put diff'
      elif [[ $command == profiles && $given == 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
      elif [[ $command == log && $given == 0 ]]; then
        words='off warn info'
      else
        words=''
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
}

complete -F _mrc_ctl mrc_ctl
