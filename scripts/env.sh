#!/usr/bin/env bash
# Makes the environment: an empty folder becomes .venv with Python, PyTorch and every package of the lock.
#
#   scripts/env.sh          make it, bring it up to date or repair it; does nothing when it is whole
#   scripts/env.sh tools    only .tools: uv and py-rattler
#   scripts/env.sh docs     only .docs-env: what builds the documentation's site
#   scripts/env.sh clean    remove what this script made (never runs/ or data)
#
# Settings are environment variables; the Makefile passes them on:
#   ENV_FROM  auto | conda | channels | wheels    VENV    where (.venv)
#   PYTHON    3.9 to 3.12 or a path, wheels only  TORCH   floor: the oldest versions supported;
#   FORCE     1: build an existing environment            current: the newest, Python 3.13 or 3.12
#             anew another way
#   CONDA_LOCK, PIP_LOCK   other lock files       TOOLS   a ready tools folder, used as it is
#   NEED_GB   free space wanted                   ENV_WAIT  seconds to wait for another make env
# Exit codes: 0 ready, 2 a message says why not, 130 interrupted.
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail

((BASH_VERSINFO[0] >= 4)) || { echo "error: bash $BASH_VERSION is too old; expected 4 or newer" >&2; exit 2; }
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/env/run.sh
. "$ROOT/scripts/env/run.sh"
# shellcheck source=scripts/env/marker.sh
. "$ROOT/scripts/env/marker.sh"
# shellcheck source=scripts/env/python.sh
. "$ROOT/scripts/env/python.sh"
# shellcheck source=scripts/env/ways.sh
. "$ROOT/scripts/env/ways.sh"

read_settings() {
  ENV_FROM=${ENV_FROM:-auto} PYTHON=${PYTHON:-} TORCH=${TORCH:-} FORCE=${FORCE:-}
  SHOWN=${VENV:-.venv} NEED_GIVEN=${NEED_GB:-}
  [[ $SHOWN == /* ]] && VENV=$SHOWN || VENV=$ROOT/$SHOWN
  VENV=$(readlink -m -- "$VENV") # a .venv that is a link: its folder is what we fill
  TOOLS_GIVEN=${TOOLS:-} TOOLS=${TOOLS:-$ROOT/.tools}
  case $ENV_FROM in
    auto | conda | channels | wheels) ;;
    *) die "ENV_FROM=$ENV_FROM is not known; expected auto, conda, channels or wheels" ;;
  esac
  case $PYTHON in
    "" | */* | 3.9 | 3.10 | 3.11 | 3.12 | 3.13 | python3.9 | python3.1[0123]) ;;
    *) die "PYTHON=$PYTHON is not supported; expected 3.9 to 3.13 or the path of one" ;;
  esac
  case $TORCH in
    "") MINORS=(3.9 3.12 3.11 3.10) SPAN="3.9 to 3.12" ;;
    floor) MINORS=(3.9 3.11 3.10) SPAN="3.9 to 3.11" ;; # no wheels of PyTorch 2.1 for a newer one
    current) MINORS=(3.13 3.12) SPAN="3.12 or 3.13" ;;
    *) die "TORCH=$TORCH is not known; expected floor, current or nothing" ;;
  esac
  [[ -z ${PIP_LOCK:-} ]] || MINORS=(3.9 3.12 3.11 3.10 3.13) # nobody knows what that lock is for
  if [[ -n $PYTHON$TORCH ]]; then
    [[ $ENV_FROM == auto ]] && ENV_FROM=wheels
    [[ $ENV_FROM == wheels ]] || die "PYTHON= and TORCH= choose wheels, but ENV_FROM=$ENV_FROM; leave one out"
  fi
}

use_way() {  # sets WAY, the files it installs and their hash
  local folder=$ROOT
  WAY=$1 CONDA_FILE="" NEED_GB=8
  case $WAY in
    wheels)
      PIP_FILE=${PIP_LOCK:-$ROOT/locks/${TORCH:-requirements}.lock}
      HASH=$(hash_of "$PIP_FILE") || exit 2
      ;;
    conda | channels)
      PIP_FILE=$ROOT/locks/conda-pip.lock NEED_GB=14
      if [[ $WAY == channels ]]; then
        folder=$ROOT/environments/pytorch-channel
        PIP_FILE=$folder/conda-pip.lock
      fi
      PIP_FILE=${PIP_LOCK:-$PIP_FILE} CONDA_FILE=${CONDA_LOCK:-$folder/conda-lock.yml}
      HASH=$(hash_of "$CONDA_FILE" "$PIP_FILE") || exit 2
      ;;
  esac
  NEED_GB=${NEED_GIVEN:-$NEED_GB}
}

python_fits() {  # does the environment's Python satisfy PYTHON=?
  local has
  has=$(marker_get python)
  [[ $PYTHON == "" || $PYTHON == */* || $has == "${PYTHON#python}".* ]]
}

is_ready() {  # no Python starts here: this is what every make train waits for
  marker_read "$VENV" && marker_is state ready || return 1
  [[ $ENV_FROM == auto ]] || marker_is way "$ENV_FROM" || return 1
  use_way "$(marker_get way)"
  # an image's environment can't be written, and serves whatever checkout is mounted
  marker_is lock "$HASH" && marker_is prefix "$VENV" && { marker_is checkout "$ROOT" || [[ ! -w $VENV ]]; } &&
    [[ -x $VENV/bin/python ]] && python_fits
}

say_ready() {
  echo "$SHOWN is ready: $(marker_get way), Python $(marker_get python), torch $(marker_get torch)"
}

take_lock() {  # one at a time; the lock falls by itself when its holder ends, however it ends
  local holder
  command -v flock >/dev/null || die "the command flock is missing; on Debian and Ubuntu: apt-get install util-linux"
  if ! { mkdir -p "$ROOT/.cache" && : >>"$ROOT/.cache/env.lock"; } 2>/dev/null; then
    die "cannot write in $ROOT/.cache; check the disk and the folder's owner"
  fi
  exec 9>>"$ROOT/.cache/env.lock"
  if ! flock -n 9; then
    holder=$(<"$ROOT/.cache/env.lock")
    say "another make env is at work here (${holder:-just started}); waiting for it, ${ENV_WAIT:-1800} s at most"
    in_background flock -w "${ENV_WAIT:-1800}" 9 ||
      die "the other make env (${holder:-unknown}) did not end within ${ENV_WAIT:-1800} s; try again later, or end it"
  fi
  echo "process $$, since $(date +%H:%M:%S)" >"$ROOT/.cache/env.lock"
  : >"$LOG"
}

decide_way() {  # sets WAY and REASON: what was asked for, what stands there, or what can be reached
  local why
  if [[ $ENV_FROM != auto ]]; then
    WAY=$ENV_FROM REASON="asked for"
  elif marker_read "$VENV"; then
    WAY=$(marker_get way) REASON=$(marker_get reason)
  elif [[ $(uname -sm) != "Linux x86_64" ]]; then
    WAY=wheels REASON="the conda locks are for Linux on x86_64"
  else
    choose_tools_python # any Python can ask
    if why=$("$PY_PATH" -I "$ROOT/scripts/env/probe.py" 2>/dev/null); then
      WAY=conda REASON="conda-forge and PyTorch's index answer"
    else
      WAY=wheels REASON="${why:-the network could not be asked}"
    fi
  fi
  use_way "$WAY"
  say "environment by $WAY: $REASON"
}

decide_work() {  # sets WORK: build, update or repair; another way or Python on a whole environment wants FORCE=1
  local was
  WORK=build
  owned_or_new "$VENV" VENV
  marker_read "$VENV" || return 0
  [[ -w $VENV ]] || die "$SHOWN ($(marker_get way)) can't be written, and ${PIP_FILE#"$ROOT"/} asks for something else;" \
    "in a container: build the image again (make image), or say VENV=.venv for an environment of your own"
  was="$(marker_get way), Python $(marker_get python), torch $(marker_get torch)"
  if ! marker_is state ready; then
    say "$SHOWN is half made (an earlier make env did not finish): building it again"
  elif ! marker_is way "$WAY" || ! python_fits; then
    [[ $FORCE == 1 ]] ||
      die "$SHOWN exists ($was); $WAY${PYTHON:+ with Python $PYTHON} would delete it and build it again" \
        "from ${PIP_FILE#"$ROOT"/}: say FORCE=1 to do so, or VENV=DIR to have both"
    say "$SHOWN ($was) is built again by $WAY"
  elif ! marker_is prefix "$VENV" || [[ ! -x $VENV/bin/python ]]; then
    say "$SHOWN was moved, or its Python is gone: building it again"
  elif marker_is lock "$HASH"; then
    WORK=relink # only the checkout moved: its path is all that changes
  else
    say "$SHOWN is of another lock: bringing it up to date"
    [[ $WAY != wheels ]] || WORK=update
  fi
}

make_env() {
  local start=$SECONDS
  clean_settings
  decide_way
  decide_work
  [[ $WORK != build || $WAY != wheels ]] || choose_python
  mkdir -p "$VENV" 2>/dev/null ||
    die "cannot make the folder $VENV; check its owner, or choose another with VENV=DIR"
  [[ $WORK != build ]] || enough_space "$VENV"
  [[ -n $TOOLS_GIVEN ]] || make_tools "1/4 "
  UNFINISHED=$SHOWN
  mark building
  [[ $WORK != build ]] || empty_dir "$VENV"
  case $WAY-$WORK in
    *-relink) ;;
    wheels-*) install_wheels "$WORK" ;;
    *) install_conda ;;
  esac
  install_checkout 2>>"$LOG" ||
    die "cannot place the command train in $SHOWN: $(explain "$(tail -n 3 "$LOG")")"
  check_whole
  mark ready "${VERSIONS[@]}"
  UNFINISHED=""
  compile_kernels
  say "$SHOWN is ready after $((SECONDS - start)) s; use it with make train, make test, or:"
  say "  source $SHOWN/bin/activate"
}

mark() {  # mark STATE [python=.. torch=.. cuda=..]
  local state=$1
  shift
  marker_write "$VENV" state="$state" way="$WAY" lock="$HASH" "$@" reason="$REASON" prefix="$VENV" checkout="$ROOT"
}

main() {
  trap 'on_signal Ctrl-C 130' INT
  trap 'on_signal SIGTERM 143' TERM
  trap 'on_signal SIGHUP 129' HUP
  read_settings
  case ${1:-make} in
    make)
      is_ready && { say_ready; return; }
      take_lock
      is_ready && { say_ready; return; } # the other one made it
      make_env
      ;;
    tools | docs)
      NEED_GB=1
      take_lock
      clean_settings
      if [[ $1 == tools ]]; then make_tools ""; else make_docs; fi
      ;;
    clean)
      take_lock
      # shellcheck source=scripts/env/clean.sh
      . "$ROOT/scripts/env/clean.sh"
      ;;
    *) die "env.sh $1 is not known; expected nothing, tools, docs or clean" ;;
  esac
}

main "$@"
