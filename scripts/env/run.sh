# shellcheck shell=bash disable=SC2034  # scripts/env.sh reads the variables
# Messages, and one way to run a step: its output goes to the log, its failure becomes one line.
# Sourced by scripts/env.sh; needs ROOT.

LOG=$ROOT/.cache/env.log
JOB=""          # process group of the step that runs now
LINE_OPEN=no    # "yes" while a stage's line still waits for its time
DRAWS=no        # "yes" while a step draws its progress on the terminal
UNFINISHED=""   # the folder that is half made now, for the message of an interrupt

say() {
  if [[ $LINE_OPEN == yes ]]; then echo; LINE_OPEN=no; fi
  printf '%s\n' "$*"
}

die() {
  local red="" off=""
  if [[ -t 2 && -z ${NO_COLOR:-} ]]; then red=$'\e[31m' off=$'\e[0m'; fi
  if [[ $LINE_OPEN == yes ]]; then echo; LINE_OPEN=no; fi
  printf '%serror:%s %s\n' "$red" "$off" "$*" >&2
  exit 2
}

stage() {  # stage "1/4 tools" "what is done": one line, closed by stage_done with the time taken
  STAGE_START=$SECONDS
  printf '%-14s %s ' "$1" "$2"
  LINE_OPEN=yes
}

stage_done() {
  [[ $LINE_OPEN == yes ]] || printf '%-14s ' ""
  LINE_OPEN=no
  printf '... %s%d s\n' "${1:+$1, }" "$((SECONDS - STAGE_START))"
}

on_signal() {  # on_signal NAME CODE: end the running step with all its children, say one thing, leave
  trap '' INT TERM HUP
  if [[ -n $JOB ]]; then
    kill -TERM -- "-$JOB" 2>/dev/null || true
    for _ in {1..50}; do
      kill -0 -- "-$JOB" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$JOB" 2>/dev/null || true
  fi
  if [[ $LINE_OPEN == yes ]]; then echo; fi
  if [[ -n $UNFINISHED ]]; then
    echo "interrupted ($1): $UNFINISHED is half made and will not be used; run make env again to finish it" >&2
  else
    echo "interrupted ($1): nothing was changed" >&2
  fi
  exit "$2"
}

in_background() {  # a job of its own group, so that a signal reaches us at once and we can end the whole group
  set -m
  "$@" &
  JOB=$!
  set +m
  local code=0
  wait "$JOB" 2>/dev/null || code=$?
  JOB=""
  return "$code"
}

logged() {
  if [[ $DRAWS == yes ]]; then
    # uv, pip and rattler draw their progress only on a terminal: give them one, and keep their words
    "$TOOLS/bin/python" "$ROOT/scripts/env/progress.py" "$LOG" "$@"
  else
    "$@" >>"$LOG" 2>&1 </dev/null
  fi
}

long_step() {  # a step of minutes: its own progress is shown, where there is a terminal
  if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then
    DRAWS=yes
    echo
    LINE_OPEN=no
  fi
  run_step "$@"
  DRAWS=no
}

run_step() {  # run_step WHAT COMMAND...: WHAT is the subject of the message when it fails
  local what=$1 size
  shift
  printf '\n$ %s\n' "$*" >>"$LOG" || die "cannot write $LOG; check the disk and the folder's owner"
  size=$(stat -c %s "$LOG")
  in_background logged "$@" && return
  local out own=""
  out=$(tail -c "+$((size + 1))" "$LOG")
  # our own scripts say in one line what is wrong; other tools need a reader
  if [[ "$*" == *"$ROOT/scripts/"*.py* ]]; then own=$(own_words "$out"); fi
  die "$what: ${own:-$(explain "$out")}"
}

first() {  # first TEXT REGEX: the first group of the first line that matches
  local line
  while IFS= read -r line; do
    if [[ $line =~ $2 ]]; then
      printf '%s' "${BASH_REMATCH[1]}"
      return
    fi
  done <<<"$1"
}

own_words() {
  grep -E '^error: ' <<<"$1" | tail -n 1 | cut -c 8-400 || true
}

# shellcheck disable=SC2016  # the backquotes are the tools' own
explain() {  # what a tool's output means, in one line; the order matters: sure signs first
  local out=$1 name own
  own=$(own_words "$out")
  if grep -qiE 'no space left|os error 28|disk quota exceeded|os error 122' <<<"$out"; then
    echo "the disk is full; free about $NEED_GB GB, then run make env again ($LOG)"
  elif grep -qiE 'hash mismatch|do not match the hashes' <<<"$out"; then
    name=$(first "$out" 'ash mismatch for `([^`]+)`')
    [[ -n $name ]] || name=$(first "$out" '^ *([A-Za-z0-9_.-]+==[^ ]+) from ')
    echo "${name:-a package} does not have the locked hash: the index or a proxy serves another file; do not install it by other means, check the index and the lock ($LOG)"
  elif grep -qiE 'unknownissuer|certificate verify failed|invalid peer certificate|certificate_verify' <<<"$out"; then
    echo "the server's certificate is not trusted; set SSL_CERT_FILE to your network's certificate file ($LOG)"
  elif grep -qiE 'error sending request|connection refused|tcp connect error|dns error|name resolution|newconnectionerror|connecttimeout|read timed out|operation timed out|network is unreachable|error decoding response body|tunnel error|proxyerror' <<<"$out"; then
    echo "no network, or the package index does not answer; check the connection and HTTPS_PROXY, then run make env again ($LOG)"
  elif grep -qiE '404 not found|\(404|http 404|not found in the package registry|there is no version of|no matching distribution|no solution found' <<<"$out"; then
    name=$(first "$out" '(Failed to (download|fetch|read) .*)')
    name=$(first "$name" '`([^`]+==[^`]+)`')
    [[ -n $name ]] || name=$(first "$out" 'o matching distribution found for ([^ ]+)')
    [[ -n $name ]] || name=$(first "$out" 'no version of ([^ ]+)')
    [[ -n $name ]] || name=$(first "$out" 'Because ([^ ]+) was not found')
    echo "${name:-a package} is not on the package index any more, or not for this machine; lock again with make lock, or use an index that has it ($LOG)"
  else
    echo "${own:-it failed}; the whole output is in $LOG"
  fi
}
