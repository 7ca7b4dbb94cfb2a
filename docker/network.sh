# shellcheck shell=bash disable=SC2034
# Where services listen, and what address a person types. Sourced by start.sh.

on_host_network() { # a bridge network has no interface with hardware behind it, and no Docker bridge of its own
  local file
  for file in "$NETWORK"/*/device "$NETWORK"/docker0; do
    [[ ! -e $file ]] || return 0
  done
  return 1
}

bind_address() {
  if [[ -n ${BIND:-} ]]; then
    [[ $BIND =~ ^[0-9A-Fa-f.:]+$ ]] || die "BIND must be an address such as 127.0.0.1 or 0.0.0.0, got '$BIND'"
    printf '%s' "$BIND"
  elif on_host_network; then
    printf 127.0.0.1
  else
    printf 0.0.0.0 # of the container; who reaches it is said by docker run -p
  fi
}

say_bind() {
  on_host_network || return 0
  if [[ $ADDRESS == 127.* || $ADDRESS == ::1 ]]; then
    say "on the host's network: services listen on 127.0.0.1 alone (BIND=0.0.0.0 opens them to the network)"
  else
    say "note: on the host's network with BIND=$BIND: everybody in the network reaches these services"
  fi
}

announce() { # announce NAME PORT PID: for healthcheck.py
  printf '%s %s %s\n' "$1" "$2" "$3" >>"$RUN/services"
}

# ---------------------------------------------------------------- TensorBoard: it knows no password
prepare_tensorboard() {
  local logdir=${TENSORBOARD_LOGDIR:-$WORKSPACE/runs} port
  PORT_tensorboard=$(a_port TENSORBOARD_PORT 6006) || exit 2
  port=$(a_port TENSORBOARD_PORT_HOST "$PORT_tensorboard") || exit 2
  START_tensorboard=("$PREFIX/bin/tensorboard" --logdir "$logdir" --host "$ADDRESS" --port "$PORT_tensorboard"
    --load_fast false)
  say "TensorBoard: http://127.0.0.1:$port/ (curves of $logdir; no password)"
}
