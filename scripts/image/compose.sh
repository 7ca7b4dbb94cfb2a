# shellcheck shell=bash
# The container of docker-compose.yml: start it, look into it. Sourced by scripts/image.sh.

SERVICE=lab

compose() {
  "${COMPOSE[@]}" "$@"
}

write_dotenv() {  # compose can't ask who you are, so it is written down, once
  if [[ -e .env ]]; then return; fi
  { sed -E "s/^HOST_UID=.*/HOST_UID=$(id -u)/; s/^HOST_GID=.*/HOST_GID=$(id -g)/" .env.example >.env.new &&
    mv .env.new .env; } 2>/dev/null || die "cannot write $PWD/.env; check the folder's owner"
  echo "wrote .env: your user's numbers, ports, and what else can be set"
}

start() {
  write_dotenv
  local image
  image=$(setting IMAGE pytorch-cuda:local)
  "$DOCKER" image inspect "$image" >/dev/null 2>&1 ||
    die "there is no image $image; build it with make image (about 10 minutes, once), or name another as IMAGE in .env"
  compose up --detach "${MORE[@]}"
  wait_for_jupyter
  echo "stop it: make down    a shell inside: make shell    its words: make logs"
}

setting() {  # setting NAME DEFAULT: from the environment, else from .env
  local value=${!1:-}
  [[ -n $value || ! -e .env ]] || value=$(sed -nE "s/^$1=//p" .env | tail -n 1)
  printf '%s' "${value:-$2}"
}

container() {
  compose ps -q "$SERVICE" 2>/dev/null
}

running() {
  local id
  id=$(container)
  [[ -n $id && $("$DOCKER" inspect --format '{{.State.Running}}' "$id") == true ]] ||
    die "the container is not running; start it with make up"
}

wait_for_jupyter() {  # its address is no use before somebody answers there
  local tries id
  id=$(container)
  [[ ,$(setting SERVICES jupyter), == *jupyter* ]] || return 0
  for ((tries = 0; tries < 120; tries++)); do
    if [[ $("$DOCKER" inspect --format '{{.State.Running}}' "$id") != true ]]; then
      "$DOCKER" logs --tail 20 "$id" >&2
      die "the container ended; its last lines stand above"
    fi
    if "$DOCKER" exec "$id" /opt/docker/healthcheck.sh >/dev/null 2>&1; then
      print_url
      return
    fi
    sleep 0.5
  done
  echo "JupyterLab has not answered within 60 s; look at make logs" >&2
}

host_port() {  # host_port PORT: where it is reached from outside
  local address
  address=$(compose port "$SERVICE" "$1" 2>/dev/null) || true
  [[ -n $address ]] || die "port $1 is not published; look at ports in docker-compose.yml"
  printf '%s' "${address##*:}"
}

print_url() {  # with the token; the container keeps it where only its user can read it
  local url
  # shellcheck disable=SC2016  # for the shell inside
  url=$("$DOCKER" exec -u user "$(container)" sh -c 'cat "/tmp/.wellfed-$(id -u)/urls"' 2>/dev/null) ||
    die "JupyterLab does not run here: SERVICES in .env leaves it out, or it still starts; look at make logs"
  echo "JupyterLab: $url"
}

log_in() {
  local port
  port=$(host_port 2222)
  "$DOCKER" exec "$(container)" pgrep -x sshd >/dev/null 2>&1 ||
    die "no SSH server runs: it starts when a key is given; set AUTHORIZED_KEYS=~/.ssh/id_ed25519.pub in .env, then make up"
  exec ssh -p "$port" "${MORE[@]}" user@127.0.0.1
}
