#!/usr/bin/env bash
# Runs as the user, after entrypoint.sh: sets up home, environment, keys and token, then starts what was asked for.
#
#   start.sh               the services
#   start.sh COMMAND ...   that command; its exit code is ours. Services beside it only if SERVICES is set
#
#   SERVICES                   jupyter (default), tensorboard, ssh; blanks or commas between. ssh comes by itself with a key
#   SSH_AUTHORIZED_KEYS        public keys, one a line. Or a file: SSH_AUTHORIZED_KEYS_FILE, /run/secrets/authorized_keys,
#                              /etc/wellfed/authorized_keys
#   JUPYTER_TOKEN              or a file: JUPYTER_TOKEN_FILE, /run/secrets/jupyter_token; else one is made and kept
#   BIND                       the address to listen on (0.0.0.0; on the host's network 127.0.0.1)
#   JUPYTER_PORT, SSH_PORT, TENSORBOARD_PORT       inside (8888, 2222, 6006)
#   JUPYTER_PORT_HOST, SSH_PORT_HOST, TENSORBOARD_PORT_HOST   outside, for the addresses that are printed
#   TENSORBOARD_LOGDIR         where curves lie (/workspace/runs)
#   STOP_GRACE                 seconds that processes get to save before the container ends (52; compose kills after 60)
# Exit codes: the command's; services: 0 when asked to stop, 1 when one died; 2 a message says why nothing was started.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/paths.sh"
. "$HERE/home.sh"
. "$HERE/environment.sh"
. "$HERE/banner.sh"
. "$HERE/network.sh"
. "$HERE/jupyter.sh"
. "$HERE/ssh.sh"
. "$HERE/supervise.sh"
. "$HERE/stop.sh"

read_given() { # sets KEYS_GIVEN and TOKEN_GIVEN: what entrypoint.sh read for us
  KEYS_GIVEN="" TOKEN_GIVEN=""
  if { : <&7; } 2>/dev/null; then
    KEYS_GIVEN=$(cat <&7)
    exec 7<&-
  fi
  if { : <&8; } 2>/dev/null; then
    TOKEN_GIVEN=$(cat <&8)
    exec 8<&-
  fi
  if [[ -n ${SSH_AUTHORIZED_KEYS:-} ]]; then
    KEYS_GIVEN+=$'\n#from SSH_AUTHORIZED_KEYS\n'$SSH_AUTHORIZED_KEYS
  fi
}

choose_services() { # choose_services NUMBER_OF_WORDS: sets SERVICE_LIST
  local name names
  local -A wanted=()
  if (($1 == 0)) || [[ -n ${SERVICES:-} ]]; then
    names=${SERVICES:-}
    for name in ${names//,/ }; do
      case $name in
        jupyter | tensorboard | ssh) wanted[$name]=1 ;;
        *) die "SERVICES names '$name', which is not known; expected jupyter, tensorboard or ssh" ;;
      esac
    done
    ((${#wanted[@]})) || wanted[jupyter]=1
    [[ ! -v wanted[ssh] ]] || keys_given || die "SERVICES names ssh, but no key was given: nobody could log in;" \
      "set SSH_AUTHORIZED_KEYS=\"\$(cat ~/.ssh/id_ed25519.pub)\", or mount a file as /etc/wellfed/authorized_keys"
    ! keys_given || wanted[ssh]=1
  fi
  SERVICE_LIST=()
  for name in jupyter tensorboard ssh; do
    [[ ! -v wanted[$name] ]] || SERVICE_LIST+=("$name")
  done
}

check_command() {
  (($#)) || return 0
  if [[ -z $1 ]] || ! type -P -- "$1" >/dev/null; then
    say "error: there is no command '$1' in the container; without one it starts the services (SERVICES=jupyter,tensorboard)"
    exit 127
  fi
}

main() {
  local name
  STOP_GRACE=${STOP_GRACE:-52}
  [[ $STOP_GRACE =~ ^[0-9]{1,5}$ ]] || die "STOP_GRACE must be a number of seconds, got '$STOP_GRACE'"
  STOP_GRACE=$((10#$STOP_GRACE))
  exec {NEVER}<> <(:) # nothing ever comes through it: see pause
  watch_signals
  check_command "$@"
  settle_home
  make_run_dir
  read_given
  choose_services $#
  ADDRESS=$(bind_address) || exit 2
  write_environment "$RUN/env.sh"
  describe_start $#
  for name in "${SERVICE_LIST[@]}"; do "prepare_$name"; done
  unset JUPYTER_TOKEN SSH_AUTHORIZED_KEYS
  supervise "$@"
}

main "$@"
