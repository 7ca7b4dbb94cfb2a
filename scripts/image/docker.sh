# shellcheck shell=bash
# Finds a Docker client that can build here, and compose. Sourced by scripts/image.sh.

die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

can_build() {  # BuildKit is in the client up to Docker 22, and in its plug-in buildx from 23 on
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  [[ $version =~ version\ ([0-9]+)\. ]] || return 1
  ((BASH_REMATCH[1] < 23)) || "$1" buildx version >/dev/null 2>&1
}

find_docker() {  # sets DOCKER, and BuildKit on; a client alone is not enough, the daemon must answer
  local path said
  [[ -z ${DOCKER:-} ]] || type -P -- "$DOCKER" >/dev/null ||
    die "DOCKER=$DOCKER is no program; leave it out, and the one on PATH is taken"
  if [[ -z ${DOCKER:-} ]]; then
    while IFS= read -r path; do
      if can_build "$path"; then DOCKER=$path; break; fi
    done < <(type -ap docker)
  fi
  if [[ -z ${DOCKER:-} ]]; then
    [[ -n $(type -ap docker) ]] || die "docker is not installed; see docs.docker.com/engine/install, on Debian: apt-get install docker.io"
    die "this docker lacks its plug-in buildx, which builds images; install docker-buildx-plugin (on Debian and Ubuntu: docker-buildx)"
  fi
  said=$(timeout 20 "$DOCKER" version --format '{{.Server.Version}}' 2>&1) || case $said in
    *"permission denied"*) die "user $(id -un) may not use Docker; become a member of the group docker: sudo usermod -aG docker $(id -un), then log in again" ;;
    *) die "Docker's daemon does not answer; start it: sudo systemctl start docker (or Docker Desktop)" ;;
  esac
  export DOCKER DOCKER_BUILDKIT=1
}

find_compose() {  # sets COMPOSE: the plug-in of today, or docker-compose 1.28 or newer
  find_docker
  if "$DOCKER" compose version >/dev/null 2>&1; then
    COMPOSE=("$DOCKER" compose)
  elif command -v docker-compose >/dev/null; then
    COMPOSE=(docker-compose)
  else
    die "docker compose is not installed; install docker-compose-plugin (on Debian: docker-compose)"
  fi
  COMPOSE+=(-f docker-compose.yml)
  if wants_gpu; then COMPOSE+=(-f compose.gpu.yml); fi
}

wants_gpu() {  # a GPU that answers, and a Docker that can hand it over; GPU=1 or GPU=0 decides otherwise
  case ${GPU:-} in
    1) return 0 ;;
    0) return 1 ;;
  esac
  command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU' || return 1
  if "$DOCKER" info --format '{{json .Runtimes}}' 2>/dev/null | grep -q nvidia ||
    command -v nvidia-container-cli >/dev/null || command -v nvidia-ctk >/dev/null; then
    return 0
  fi
  echo "a GPU is there, but Docker can't hand it over: install NVIDIA's Container Toolkit; going on without" >&2
  return 1
}
