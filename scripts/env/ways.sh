# shellcheck shell=bash disable=SC2034  # scripts/env.sh reads the variables
# What is installed, and how: the tools, the docs' tools, the environment by wheels or by conda packages.
# Sourced by scripts/env.sh; needs ROOT, TOOLS, VENV, WAY, PIP_FILE, CONDA_FILE.

clean_settings() {  # a user's settings may say where packages come from, not which or where to
  unset PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_CONSTRAINT PIP_REQUIREMENT \
    PIP_EDITABLE PIP_NO_BINARY PIP_DRY_RUN PIP_IGNORE_INSTALLED PIP_REQUIRE_VIRTUALENV \
    UV_CONSTRAINT UV_OVERRIDE UV_EXCLUDE UV_EXCLUDE_NEWER UV_SYSTEM_PYTHON UV_TARGET UV_PREFIX \
    UV_NO_BINARY UV_PYTHON UV_BUILD_CONSTRAINT UV_NO_VERIFY_HASHES UV_REINSTALL UV_WORKING_DIR UV_PROJECT
  export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=${PIP_RETRIES:-2}
  export UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-2}
  # one company index for pip and uv alike
  if [[ -n ${PIP_INDEX_URL:-} && -z ${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-} ]]; then
    export UV_DEFAULT_INDEX=$PIP_INDEX_URL
  fi
  if [[ -n ${PIP_CERT:-} && -z ${SSL_CERT_FILE:-} ]]; then export SSL_CERT_FILE=$PIP_CERT; fi
  # a network that signs for others has its certificate in the system's store, if anywhere
  if [[ -e /etc/ssl/certs/ca-certificates.crt || -e /etc/pki/tls/certs/ca-bundle.crt ]]; then
    export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
  fi
  if [[ -z ${HOME:-} || ! -w ${HOME:-} ]]; then
    export UV_CACHE_DIR=${UV_CACHE_DIR:-$ROOT/.cache/uv} PIP_CACHE_DIR=${PIP_CACHE_DIR:-$ROOT/.cache/pip}
  fi
}

pip_settings() {  # pip's own files may add constraints and sources: only index, proxy and certificate pass
  local line key value
  while IFS= read -r line; do
    key=${line%%=*} value=${line#*=}
    value=${value#\'} value=${value%\'}
    case $key in
      global.index-url | install.index-url) export PIP_INDEX_URL=${PIP_INDEX_URL:-$value} UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$value} ;;
      global.proxy) export PIP_PROXY=${PIP_PROXY:-$value} HTTPS_PROXY=${HTTPS_PROXY:-$value} ;;
      global.cert) export PIP_CERT=${PIP_CERT:-$value} SSL_CERT_FILE=${SSL_CERT_FILE:-$value} ;;
      global.trusted-host) export PIP_TRUSTED_HOST=${PIP_TRUSTED_HOST:-$value} ;;
    esac
  done < <("$1" -m pip config list 2>/dev/null)
  export PIP_CONFIG_FILE=/dev/null
}

make_tools() {  # .tools: uv for the wheels, py-rattler for the conda packages
  make_small "$1" "$TOOLS" TOOLS tools "uv and py-rattler"
}

make_docs() {  # .docs-env: MkDocs and its theme
  make_small "" "$ROOT/.docs-env" "" docs "MkDocs and its theme"
}

make_small() {  # make_small STEP FOLDER VARIABLE NAME TEXT: a venv from locks/NAME.lock alone, by pip alone
  local step=$1 folder=$2 variable=$3 name=$4 text=$5 lock=$ROOT/locks/$4.lock hash
  hash=$(hash_of "$lock") || exit 2
  if marker_read "$folder" && marker_is state ready && marker_is lock "$hash" && [[ -x $folder/bin/python ]]; then
    return
  fi
  choose_tools_python
  stage "$step$name" "$text into ${folder#"$ROOT"/}"
  UNFINISHED=$folder
  owned_or_new "$folder" "$variable"
  mkdir -p "$folder"
  marker_write "$folder" state=building way="$name" lock="$hash"
  empty_dir "$folder"
  run_step "cannot make ${folder#"$ROOT"/}" "$PY_PATH" -I -m venv "$folder"
  pip_settings "$folder/bin/python"
  run_step "cannot install the $name" "$folder/bin/python" -m pip install --require-hashes --no-deps \
    --only-binary :all: -r "$lock"
  marker_write "$folder" state=ready way="$name" lock="$hash" python="$PY_VERSION"
  UNFINISHED=""
  stage_done
}

link_mode() {  # hard links need one file system; said beforehand, uv has nothing to warn of
  local cache
  cache=$("$TOOLS/bin/uv" cache dir 2>/dev/null) || return 0
  mkdir -p "$cache" 2>/dev/null || return 0
  if [[ $(stat -c %d "$cache") == $(stat -c %d "$VENV") ]]; then
    export UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
  else
    export UV_LINK_MODE=${UV_LINK_MODE:-copy}
    enough_space "$cache"
  fi
}

enough_space() {  # refuse early: a disk that fills up after ten minutes helps nobody
  local free
  free=$(df -Pk -- "$1" | awk 'NR == 2 {print int($4 / 1000000)}')
  ((free >= NEED_GB)) ||
    die "not enough space on the disk of $1: the environment takes about $NEED_GB GB, $free GB are free;" \
      "free some, put it elsewhere with VENV=DIR, or set NEED_GB=0 to try all the same"
}

install_wheels() {  # install_wheels build|update: exactly what the lock says, nothing else stays
  link_mode
  if [[ $1 == build ]]; then
    stage "2/4 python" "$BASE_VERSION from $BASE_PYTHON"
    run_step "cannot make the environment" "$TOOLS/bin/uv" venv --quiet --allow-existing --prompt wellfed \
      --python "$BASE_PYTHON" "$VENV"
    stage_done
  fi
  stage "3/4 packages" "of ${PIP_FILE#"$ROOT"/}"
  # the lock as build constraint: a package that comes as source is built with the locked setuptools
  long_step "cannot install the packages" "$TOOLS/bin/uv" pip sync --python "$VENV/bin/python" \
    --require-hashes --build-constraints "$PIP_FILE" "$PIP_FILE"
  stage_done
}

install_conda() {
  stage "2/4 conda" "of ${CONDA_FILE#"$ROOT"/}"
  long_step "cannot install the conda packages" "$TOOLS/bin/python" "$ROOT/scripts/conda_install.py" \
    --lock "$CONDA_FILE" --prefix "$VENV"
  stage_done
  stage "3/4 wheels" "of ${PIP_FILE#"$ROOT"/}"
  pip_settings "$TOOLS/bin/python"
  long_step "cannot install the wheels" "$VENV/bin/python" -m pip install --require-hashes --no-deps \
    --no-build-isolation --root-user-action ignore -r "$PIP_FILE"
  stage_done
}

install_checkout() {  # the package is run from the checkout: a path file and a command, nothing is copied
  local site
  site=$("$VENV/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return 1
  printf '%s\n' "$ROOT" >"$site/wellfed.pth" || return 1
  # found by its own folder, so neither blanks in the path nor a long path matter
  cat >"$VENV/bin/train" <<'SCRIPT' || return 1
#!/bin/sh
'''exec' "$(dirname -- "$(readlink -f -- "$0")")/python" "$0" "$@"
' '''
import sys

from train.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
SCRIPT
  chmod +x "$VENV/bin/train"
}

check_whole() {  # the last stage: torch imports and is the build the lock names; sets VERSIONS
  stage "4/4 check" "import torch"
  run_step "the environment does not work" "$VENV/bin/python" -I "$ROOT/scripts/env/check.py" \
    "$VENV/wellfed.versions" "$PIP_FILE" "$CONDA_FILE"
  mapfile -t VERSIONS <"$VENV/wellfed.versions"
  rm -f "$VENV/wellfed.versions"
  stage_done "torch ${VERSIONS[1]#torch=}"
}

compile_kernels() {  # so that no first batch waits for it; the environment is whole without
  compgen -G "$VENV/lib/python3*/site-packages/numba" >/dev/null || return 0
  stage "kernels" "compiled for this CPU"
  printf '\n$ %s\n' "python -m train.data.compile_kernels" >>"$LOG"
  if in_background logged "$VENV/bin/python" -m train.data.compile_kernels; then
    stage_done
  else
    stage_done "left to the first run, see ${LOG#"$ROOT"/}"
  fi
}
