#!/usr/bin/env bash
# A Docker daemon of its own, for tests on a machine where none runs; a running one is never touched.
#
#   scripts/image/daemon.sh start DIR    everything it keeps lies in DIR; prints the DOCKER_HOST to use
#   scripts/image/daemon.sh stop DIR     ends the one of DIR, by its number, and removes DIR
#   scripts/image/daemon.sh base SUITE NAME   at the daemon of DOCKER_HOST: a base image from the machine's own Debian mirror
#
# Needs root and Debian's docker.io; base needs mmdebstrap. Exit code 2: a message says why not.
set -euo pipefail

die() {
  echo "error: $*" >&2
  exit 2
}

make_bridge() {  # a network of its own; the usual docker0 may be another daemon's
  local third
  command -v ip >/dev/null || die "the command ip is missing; on Debian and Ubuntu: apt-get install iproute2"
  for third in {200..250}; do
    ip -4 addr | grep -q "172\.31\.$third\." && continue
    BRIDGE=wellfed$third
    ip link add name "$BRIDGE" type bridge 2>/dev/null || continue
    ip addr add "172.31.$third.1/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    echo "$BRIDGE" >"$DIR/bridge"
    return
  done
  die "cannot make a network among 172.31.200.0 to 172.31.250.0"
}

start() {
  ((EUID == 0)) || die "only root can start a Docker daemon"
  command -v dockerd >/dev/null || die "dockerd is missing; on Debian and Ubuntu: apt-get install docker.io"
  mkdir -p "$DIR"
  local driver pid
  make_bridge
  for driver in overlay2 vfs; do
    setsid dockerd --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/pid" --host "unix://$DIR/sock" \
      --storage-driver "$driver" --bridge "$BRIDGE" >"$DIR/log" 2>&1 </dev/null &
    pid=$!
    for _ in {1..120}; do
      if DOCKER_HOST=unix://$DIR/sock docker version >/dev/null 2>&1; then
        echo "unix://$DIR/sock"
        return
      fi
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.5
    done
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  die "the daemon does not start: $(grep -E 'level=(error|fatal)|^failed' "$DIR/log" | tail -n 1)"
}

stop() {
  local pid place
  pid=$(cat "$DIR/pid" 2>/dev/null) || pid=""
  if [[ -n $pid && $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == *"$DIR/data"* ]]; then
    kill "$pid"
    for _ in {1..120}; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.5
    done
  fi
  # what is still mounted in there keeps its folder; the longest path comes first
  while IFS= read -r place; do
    umount -l -- "$place" 2>/dev/null || true
  done < <(awk -v dir="$DIR/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r)
  [[ ! -s $DIR/bridge ]] || ip link delete "$(<"$DIR/bridge")" 2>/dev/null || true
  rm -rf -- "${DIR:?}/data" "$DIR/exec" "$DIR/sock" "$DIR/pid" "$DIR/log" "$DIR/bridge"
  rmdir -- "$DIR" 2>/dev/null || true
}

base() {  # the packages come from where this machine's own come from
  command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; on Debian and Ubuntu: apt-get install mmdebstrap"
  mmdebstrap --quiet --variant=minbase "$1" - | docker import - "$2" >/dev/null
}

case ${1:-} in
  start | stop)
    DIR=${2:-}
    [[ $DIR == /* ]] || die "expected a folder with its whole path, got '$DIR'"
    "$1"
    ;;
  base) base "${2:?SUITE}" "${3:?NAME}" ;;
  *) die "daemon.sh ${1:-without a word} is not known; expected start, stop or base" ;;
esac
