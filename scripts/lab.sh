#!/usr/bin/env bash
# JupyterLab: where this checkout's container runs, its address; else one is started from the environment.
#
#   scripts/lab.sh ARGUMENTS     they are for JupyterLab, where it is started here
#
# VENV is the environment's folder. Exit codes: 0 done, 2 a message says why not; else JupyterLab's own.
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/image/docker.sh
. "$ROOT/scripts/image/docker.sh"
# shellcheck source=scripts/image/compose.sh
. "$ROOT/scripts/image/compose.sh"

in_use() { # does the container run? No Docker, no container; that is no mistake here
  (find_compose && running) >/dev/null 2>&1
}

start_here() {
  local root_too=()
  echo "No container of this checkout runs (make up starts one), so JupyterLab starts here, on 127.0.0.1, from ${VENV:=.venv}."
  scripts/env.sh
  ((EUID != 0)) || root_too=(--allow-root)
  exec "$VENV/bin/jupyter" lab --ip 127.0.0.1 ${root_too[@]+"${root_too[@]}"} "$@"
}

cd -- "$ROOT"
if in_use; then
  find_compose
  echo "The container of this checkout runs (make down ends it), so this is its JupyterLab:"
  print_url
else
  start_here "$@"
fi
