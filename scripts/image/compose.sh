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
  check_settings
  check_ports
  compose up --detach "${MORE[@]}" ||
    die "the container was not started; Docker's own words stand above, and make logs shows the container's, if there is one"
  wait_until_ready
  echo "stop it: make down    a shell inside: make shell    its words: make logs"
}

setting() {  # setting NAME DEFAULT: from the environment, else from .env, where quotes don't count
  local value=${!1:-}
  [[ -n $value || ! -e .env ]] ||
    value=$(sed -nE "/^$1=/ {s/\r\$//; s/^$1=//; s/^([\"'])(.*)\1\$/\2/; p}" .env | tail -n 1)
  printf '%s' "${value:-$2}"
}

check_settings() {  # Docker would make a missing folder, as root, and compose ends in a traceback
  local name path size
  for name in WORKSPACE AUTHORIZED_KEYS JUPYTER_TOKEN_FILE; do
    path=$(setting "$name" "")
    path=${path/#\~\//$HOME/}
    if [[ $name == WORKSPACE ]]; then
      [[ -z $path || -d $path ]] || die "WORKSPACE=$path is no folder; make it first, or name another in .env"
    else
      [[ -z $path || -f $path ]] || die "$name=$path is no file; name one in .env, or leave it empty"
    fi
  done
  size=$(setting SHM_SIZE 8g)
  [[ ${size,,} =~ ^[1-9][0-9]*([kmg]?b?)$ ]] || die "SHM_SIZE must be a size such as 8g or 512m, got '$size'; it stands in .env"
}

check_ports() {  # before Docker does: it says so in many words, and leaves half a container behind
  local pair name inside port
  for pair in JUPYTER_PORT:8888 SSH_PORT:2222 TENSORBOARD_PORT:6006; do
    name=${pair%:*} inside=${pair#*:}
    port=$(setting "$name" "$inside")
    if [[ ! $port =~ ^[0-9]{1,5}$ ]] || ((10#$port < 1 || 10#$port > 65535)); then
      die "$name must be a port from 1 to 65535, got '$port'; it stands in .env"
    fi
    if (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && [[ $(published "$inside") != "$port" ]]; then
      die "port $port of 127.0.0.1 is taken by another program; end that one, or choose another: $name=$((10#$port + 1)) in .env"
    fi
  done
}

container() {  # also one that has ended
  local id
  id=$(compose ps -a -q "$SERVICE" 2>/dev/null) ||
    die "docker compose refuses its settings; look at .env and docker-compose.yml: $(compose ps 2>&1 | tail -n 1)"
  head -n 1 <<<"$id"
}

show_log() {
  local id
  id=$(container)
  [[ -n $id ]] || die "there is no container; start it with make up"
  compose logs --follow --tail 100
}

open_shell() {  # commands may also come through a pipe
  local options=()
  [[ -t 0 ]] || options=(-T)
  exec "${COMPOSE[@]}" exec ${options[@]+"${options[@]}"} -u user "$SERVICE" bash -l
}

take_down() {
  compose down --remove-orphans || die "the container was not removed; Docker's own words stand above"
}

running() {
  local id
  id=$(container)
  [[ -n $id && $("$DOCKER" inspect --format '{{.State.Running}}' "$id") == true ]] ||
    die "the container is not running; start it with make up"
}

wait_until_ready() {  # an address is no use before somebody answers there
  local id end=$((SECONDS + 120))
  id=$(container)
  while ((SECONDS < end)); do
    if [[ $("$DOCKER" inspect --format '{{.State.Running}}' "$id" 2>/dev/null) != true ]]; then
      "$DOCKER" logs --tail 20 "$id" >&2 || true
      die "the container ended; its last lines stand above"
    fi
    if "$DOCKER" exec "$id" /opt/docker/healthcheck.sh >/dev/null 2>&1; then
      [[ $(setting SERVICES jupyter) != *jupyter* ]] || print_url
      return
    fi
    sleep 0.5
  done
  die "the container runs, but its services have not answered within 120 s; look at make logs"
}

host_port() {  # host_port PORT: where it is reached from outside
  local port
  port=$(published "$1")
  [[ -n $port ]] || die "port $1 is not published; look at ports in docker-compose.yml"
  printf '%s' "$port"
}

published() {
  local address
  address=$(compose port "$SERVICE" "$1" 2>/dev/null) || address=""
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
