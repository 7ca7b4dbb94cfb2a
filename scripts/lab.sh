#!/usr/bin/env bash
# JupyterLab: where this checkout's container runs, its address; else that of one of this folder, or one is started.
#
#   scripts/lab.sh ARGUMENTS     they are for JupyterLab, where it is started here
#
# VENV is the environment's folder. Exit codes: 0 done, 2 a message says why not; else JupyterLab's own.
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
LOG=.cache/jupyterlab.log
# shellcheck source=scripts/image/docker.sh
. "$ROOT/scripts/image/docker.sh"
# shellcheck source=scripts/image/compose.sh
. "$ROOT/scripts/image/compose.sh"

in_use() { # does the container run? No Docker, no container; that is no mistake here
  (find_compose && running) >/dev/null 2>&1
}

url_here() { # of a server that was started in this folder, if one runs
  "$VENV/bin/jupyter" server list --json 2>/dev/null | "$VENV/bin/python" -c '
import json, os, sys
for line in sys.stdin:
    try:
        one = json.loads(line)
        if os.path.realpath(one["root_dir"]) == os.path.realpath("."):
            print(one["url"] + "lab" + ("?token=" + one["token"] if one["token"] else ""))
            break
    except (ValueError, KeyError, TypeError):
        pass'
}

url_of_the_log() { # what JupyterLab itself says, once it listens
  sed -n '/ is running at:/,$p' "$LOG" | grep -oEm1 'https?://[^ ]+'
}

start_here() {
  local root_too=() server url="" code=0 stopped=""
  scripts/env.sh
  url=$(url_here) || true
  if [[ -n $url ]]; then
    echo "JupyterLab of this folder runs already (Ctrl-C where it was started ends it):"
    echo "JupyterLab: $url"
    return
  fi
  ((EUID != 0)) || root_too=(--allow-root)
  mkdir -p .cache
  (umask 077 && : >"$LOG" && chmod 600 "$LOG") # it holds the token
  "$VENV/bin/jupyter" lab --ip 127.0.0.1 ${root_too[@]+"${root_too[@]}"} "$@" </dev/null >>"$LOG" 2>&1 &
  server=$!
  trap 'stopped=1; kill -TERM "$server" 2>/dev/null || true' INT TERM HUP
  until url=$(url_of_the_log); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.2
  done
  if [[ -n $url ]]; then
    echo "JupyterLab: $url"
    echo "Ctrl-C ends it. What it says goes to $LOG. (make up runs it in a container.)"
  fi
  wait "$server" || code=$?
  while kill -0 "$server" 2>/dev/null; do wait "$server" || code=$?; done # a signal ended the wait, not yet the server
  [[ -z $stopped ]] || return 0
  if [[ -z $url ]]; then
    tail -n 5 "$LOG" >&2
    ((code == 0)) || echo "error: JupyterLab ended before it could be reached (exit code $code); all that it said: $LOG" >&2
  fi
  return "$code"
}

cd -- "$ROOT"
: "${VENV:=.venv}"
if in_use; then
  find_compose
  echo "The container of this checkout runs (make down ends it), so this is its JupyterLab:"
  print_url
else
  start_here "$@"
fi
