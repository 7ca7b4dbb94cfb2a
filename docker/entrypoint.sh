#!/usr/bin/env bash
# The container's entry: as root it finds out whose files /workspace holds, becomes that user, and goes on as start.sh.
# Started with --user it has nothing to map. Nothing of ours runs as root after this.
#
#   HOST_UID, HOST_GID  the user to be (default: the owner of /workspace; where that is root: 1000)
#   RUN_AS_ROOT=1       stay root: for rootless Docker, where root in here is you out there
# The settings of the services stand in start.sh.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/paths.sh"
. "$HERE/user.sh"
. "$HERE/given.sh"

find_init() { # sets INIT: tini reaps what others leave behind; one of them is enough
  INIT=()
  command -v tini >/dev/null || return 0
  if (($$ == 1)); then
    INIT=(tini --)
  elif ! ((PPID == 1)) || ! [[ $(</proc/1/comm) == @(tini|docker-init|catatonit) ]]; then
    INIT=(tini -s --) # someone else's process 1, as with --pid=host
  fi
}

main() {
  umask 022
  BECOME=()
  if ((EUID != 0)); then
    : # --user: that is who we are
  elif [[ ${RUN_AS_ROOT:-} == 1 ]]; then
    allow_root
  else
    choose_user
    map_user
    find_become
  fi
  find_init
  # both are opened here, since only root may be able to read them
  exec 7< <(given_keys) 8< <(given_token)
  exec ${BECOME[@]+"${BECOME[@]}"} ${INIT[@]+"${INIT[@]}"} "$HERE/start.sh" "$@"
}

main "$@"
