# shellcheck shell=bash
# What a person should know at the start, in few lines. Sourced by start.sh.

marker_value() { # marker_value KEY: from the environment's marker
  local text regex="\"$1\": \"([^\"]*)\""
  text=$(cat -- "$PREFIX/wellfed.json" 2>/dev/null) || text=""
  if [[ $text =~ $regex ]]; then printf '%s' "${BASH_REMATCH[1]}"; else printf '?'; fi
}

say_contents() {
  say "Python $(marker_value python), torch $(marker_value torch), CUDA $(marker_value cuda), installed by $(marker_value way);" \
    "user $USER ($EUID:$(id -g))"
}

say_gpu() {
  local names first
  if command -v nvidia-smi >/dev/null; then
    if names=$(timeout 10 nvidia-smi --query-gpu=name --format=csv,noheader 2>&1) && [[ -n $names ]]; then
      say "GPU: $(sort <<<"$names" | uniq -c | sed -E 's/^ *([0-9]+) /\1 x /' | paste -sd, | sed 's/,/, /g')"
    else
      read -r first <<<"$names" || true
      say "note: nvidia-smi fails (${first:-no answer within 10 s}), so this runs on the CPU; look at the host's driver," \
        "then start the container again"
    fi
  elif compgen -G "/dev/nvidia[0-9]*" >/dev/null || [[ -e /dev/dxg ]]; then
    say "GPU: there is a device, but no nvidia-smi to ask"
  else
    say "this runs on the CPU: the container sees no GPU. With one: start it with --gpus all"
  fi
}

say_shm() { # Docker's own 64 MB end the workers of PyTorch's DataLoader with a bus error
  local free
  free=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0
  free=${free//[^0-9]/}
  ((${free:-0} < 1048576)) || return 0
  say "note: /dev/shm has $((${free:-0} / 1024)) MiB free. train needs none of it; PyTorch's own DataLoader" \
    "passes batches through it: for that start with --shm-size=8g (docker-compose.yml does)"
}

describe_start() { # describe_start NUMBER_OF_WORDS: a command gets only what may concern it
  (($1)) || say_contents
  say_gpu
  say_shm
  check_workspace
  if ((${#SERVICE_LIST[@]})); then
    say_bind
    kept || say "note: token and SSH host key last as long as this container: user $EUID can't write $HOME_DIR/.state"
  fi
}
