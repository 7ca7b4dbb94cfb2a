# shellcheck shell=bash disable=SC2034
# A home that can be written, whoever we are, and folders for state and for this start. Sourced by start.sh.

settle_home() { # sets HOME, USER, LOGNAME, SHELL, STATE and the caches
  local entry
  entry=$(getent passwd "$EUID" 2>/dev/null) || entry=""
  LOGIN_NAME=${entry%%:*}
  export HOME=$HOME_DIR USER=${LOGIN_NAME:-$USER_NAME} SHELL=/bin/bash
  export LOGNAME=$USER
  if ((EUID == 0)) && [[ -z ${WELLFED_HOME:-} ]]; then
    HOME=/root # rootless Docker
  fi
  RUN=$(run_dir "$EUID")
  if ! can_write "$HOME"; then # --user with a number of its own, or --read-only
    HOME=$RUN/home
  fi
  STATE=$HOME_DIR/.state
  can_write "$STATE" || STATE=$HOME/.state
  cache_in NUMBA_CACHE_DIR numba
  cache_in MPLCONFIGDIR matplotlib
}

can_write() { # a folder that is there, or can be made
  [[ -d $1 ]] || mkdir -p -- "$1" 2>/dev/null || return 1
  [[ -w $1 && -x $1 ]]
}

cache_in() { # cache_in VARIABLE NAME: the folder that the image or the user chose, if it can be written
  if [[ -z ${!1:-} ]] || ! can_write "${!1}"; then
    export "$1=$STATE/$2"
  fi
}

make_run_dir() { # new at each start, ours alone
  rm -rf -- "$RUN/ssh" "$RUN/jupyter" "$RUN/logs" "$RUN"/*.sh "$RUN/services" "$RUN/urls" 2>/dev/null || true
  [[ -d $RUN ]] || mkdir -m 700 -- "$RUN" 2>/dev/null ||
    die "cannot make $RUN; expected a /tmp that can be written (with --read-only add --tmpfs /tmp)"
  [[ -O $RUN && ! -L $RUN ]] || die "$RUN belongs to another user; remove it"
  chmod 700 -- "$RUN"
  mkdir -p -- "$RUN/logs" "$HOME" "$STATE" ||
    die "cannot make a folder in $RUN; expected a /tmp that can be written"
}

check_workspace() {
  local owner
  [[ ! -w $WORKSPACE ]] || return 0
  owner=$(stat -c '%u:%g, mode %a' -- "$WORKSPACE" 2>/dev/null) || owner="nobody: it does not exist"
  if [[ $owner == "$EUID:"* ]]; then owner="you, but it is mounted read-only"; fi
  say "note: $WORKSPACE cannot be written by user $EUID:$(id -g); it belongs to $owner"
}

kept() { # is STATE a place that outlives the container?
  [[ $STATE == "$HOME_DIR/.state" ]]
}
