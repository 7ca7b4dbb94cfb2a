#!/usr/bin/env bash
# `make env` by wheels against pip with the same lock, from empty caches, in turn.
#
#   benchmarks/env_time.sh [RUNS]      3 runs by default; each needs the network and 12 GB of disk
#
# Works in a folder of its own under TMPDIR, on a clone of the committed state.
set -euo pipefail
runs=${1:-3}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT

git clone --quiet "$root" "$place/clone"
python=$("$root/.venv/bin/python" -c 'import sys; print(sys._base_executable)')
seconds() { # seconds COMMAND...: how long it took
  local begin
  begin=$(date +%s.%N)
  "$@" >"$place/log" 2>&1 || { tail -n 20 "$place/log" >&2; exit 2; }
  awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN {printf "%.1f", b - a}'
}
by_make() { HOME=$place/home make -C "$place/clone" env ENV_FROM=wheels; }
by_pip() {
  "$python" -m venv "$place/venv"
  HOME=$place/home PIP_CONFIG_FILE=/dev/null "$place/venv/bin/python" -m pip install \
    --no-cache-dir --require-hashes -r "$root/locks/requirements.lock"
}

printf '%-6s%12s%12s\n' run "make env" pip
for run in $(seq "$runs"); do
  rm -rf -- "${place:?}/home" "$place/clone/.venv" "$place/clone/.tools" "$place/venv"
  mkdir "$place/home"
  make_s=$(seconds by_make)
  rm -rf -- "${place:?}/home" "$place/clone/.venv"
  mkdir "$place/home"
  pip_s=$(seconds by_pip)
  printf '%-6s%10s s%10s s\n' "$run" "$make_s" "$pip_s"
done
