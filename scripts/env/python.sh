# shellcheck shell=bash disable=SC2034  # scripts/env.sh reads the variables
# Finds a Python that really runs. Version managers put a "shim" on PATH, a script that picks a Python
# by the current folder; uv would take it for the Python itself, so every path is resolved by asking it.
# Sourced by scripts/env.sh.

PY_MINOR="" PY_VERSION="" PY_VENV="" PY_PATH=""

probe_python() {  # probe_python COMMAND: sets PY_*; fails where it does not run or is no CPython
  local code='
import os, sys
try:
    import ensurepip, venv
    have = "venv"
except ImportError:
    have = "novenv"
path = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
assert sys.implementation.name == "cpython" and os.access(path, os.X_OK)
print("%d.%d" % sys.version_info[:2], "%d.%d.%d" % sys.version_info[:3], have, path)'
  read -r PY_MINOR PY_VERSION PY_VENV PY_PATH < <("$1" -I -c "$code" 2>/dev/null </dev/null) && [[ -x $PY_PATH ]]
}

python_roots() {  # folders that hold one Python a subfolder: pyenv's, uv's
  local base
  printf '%s\n' "${PYENV_ROOT:-/nonexistent}/versions" "${HOME:-/nonexistent}/.pyenv/versions" \
    "${HOME:-/nonexistent}/.local/share/uv/python"
  # HOME may be another one than pyenv was installed under: python3 on PATH knows where it lies
  if probe_python python3; then
    base=${PY_PATH%/bin/*}
    [[ ${base%/*} != */versions ]] || printf '%s\n' "${base%/*}"
  fi
}

find_python() {  # find_python MINOR...: the first minor that is found anywhere; sets PY_*
  local minor name root path
  local -a roots
  mapfile -t roots < <(python_roots)
  for minor in "$@"; do
    for name in "python$minor" python3 python; do
      while IFS= read -r path; do
        if probe_python "$path" && [[ $PY_MINOR == "$minor" ]]; then return 0; fi
      done < <(type -ap "$name")
    done
    for root in "${roots[@]}"; do
      while IFS= read -r path; do
        if probe_python "$path" && [[ $PY_MINOR == "$minor" ]]; then return 0; fi
      done < <(ls -rvd "$root"/*"$minor".*/bin/"python$minor" 2>/dev/null)
    done
  done
  return 1
}

choose_python() {  # for the environment by wheels: what PYTHON= asks for, else the first of MINORS
  local whose=${TORCH:+TORCH=$TORCH}
  if [[ $PYTHON == */* ]]; then
    probe_python "$PYTHON" || die "PYTHON=$PYTHON does not run; expected a Python $SPAN"
    [[ " ${MINORS[*]} " == *" $PY_MINOR "* ]] ||
      die "PYTHON=$PYTHON is Python $PY_VERSION; ${whose:-the lock} expects $SPAN"
  elif [[ -n $PYTHON ]]; then
    [[ " ${MINORS[*]} " == *" ${PYTHON#python} "* ]] ||
      die "PYTHON=$PYTHON does not suit ${whose:-the lock}; expected $SPAN"
    find_python "${PYTHON#python}" ||
      die "no Python ${PYTHON#python} found on PATH or among pyenv's versions; install it, or leave PYTHON out"
  else
    find_python "${MINORS[@]}" ||
      die "no Python $SPAN found on PATH or among pyenv's versions; install one (on Debian and Ubuntu: python3 python3-venv)"
    [[ $PY_MINOR == "${MINORS[0]}" ]] ||
      say "warning: no Python ${MINORS[0]} found, so the environment gets $PY_VERSION; see the README for what is tested"
  fi
  BASE_PYTHON=$PY_PATH BASE_VERSION=$PY_VERSION
}

makes_venvs() {
  [[ -n $PY_PATH && $PY_VENV == venv ]] && ((${PY_MINOR#3.} >= 9))
}

choose_tools_python() {  # for the tools any Python >= 3.9 does, if it can make a venv; sets PY_*
  local seen="" path
  if makes_venvs; then return; fi
  while IFS= read -r path; do
    if ! probe_python "$path" || ((${PY_MINOR#3.} < 9)); then continue; fi
    if makes_venvs; then return; fi
    seen="$PY_PATH ($PY_VERSION)"
  done < <(type -ap python3 python)
  if find_python 3.9 3.12 3.11 3.10 && makes_venvs; then return; fi
  [[ -z $seen ]] || die "$seen lacks the venv module; on Debian and Ubuntu: apt-get install python3-venv"
  die "no Python 3.9 or newer found; install one (on Debian and Ubuntu: python3 python3-venv)"
}
