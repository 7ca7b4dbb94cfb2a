# shellcheck shell=bash disable=SC2034  # those who source it read the variables
# Where things are in the container, and how its scripts speak. Sourced by the others.
# The WELLFED_ variables move everything elsewhere: the tests run the scripts without a container.
PREFIX=${WELLFED_PREFIX:-/opt/env}
WORKSPACE=${WELLFED_WORKSPACE:-/workspace}
HOME_DIR=${WELLFED_HOME:-/home/user}
ETC=${WELLFED_ETC:-/etc}
SECRETS=${WELLFED_SECRETS:-/run/secrets}
NETWORK=${WELLFED_NETWORK:-/sys/class/net}
CGROUP=${WELLFED_CGROUP:-/sys/fs/cgroup}
UID_MAP=${WELLFED_UID_MAP:-/proc/self/uid_map}
USER_NAME=user

# What belongs to this one container and start: process numbers, the environment, keys that may log in. It isn't kept in
# the state volume, since two containers may share that one. The dot keeps it from `rm -rf /tmp/*`.
run_dir() { # run_dir UID
  printf '%s' "${WELLFED_RUN:-/tmp/.wellfed-$1}"
}

say() { # to stderr: the output of `docker run IMAGE command` is the command's alone
  printf '%s\n' "$*" >&2
}

die() {
  say "error: $*"
  exit 2
}

a_port() { # a_port NAME DEFAULT: the port in the variable NAME
  local value=${!1:-}
  # Kubernetes sets SSH_PORT=tcp://... for a service of that name
  [[ -n $value && $value != tcp://* ]] || value=$2
  if [[ ! $value =~ ^[0-9]{1,5}$ ]] || ((10#$value < 1 || 10#$value > 65535)); then
    die "$1 must be a port from 1 to 65535, got '$value'"
  fi
  printf '%d' "$((10#$value))"
}
