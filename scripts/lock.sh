#!/usr/bin/env bash
# Solve the locks again (make lock): scripts/lock.sh [all|conda|wheels|pip]
#
#   conda   conda-lock.yml and environments/pytorch-channel/conda-lock.yml, then pip
#   pip     the two conda-pip.lock, and the pip sections of the two environment.yml
#   wheels  locks/requirements.lock, floor.lock, current.lock, tools.lock, lock-tools.lock, docs.lock, interfaces.lock
#   all     all of these (the default)
#
# Everything is made in a copy and checked there (lock_check.py); only then do files here change.
# TOOLS names the folder with uv and py-rattler (default .tools, made by `scripts/env.sh tools`).
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
TOOLS=$(cd -- "${TOOLS:-$ROOT/.tools}" 2>/dev/null && pwd -P) || TOOLS=$ROOT/.tools
WHAT=${1:-all}
CHANNELS=environments/pytorch-channel
# for the solve alone, where no conda or mamba is on PATH
MICROMAMBA_VERSION=2.8.1-0
MICROMAMBA_SHA256=9689782d863c05a1bf5d2d371ba527104e7a4eb4310c1637d8653b751aed9c82
MICROMAMBA_URL=https://github.com/mamba-org/micromamba-releases/releases/download/$MICROMAMBA_VERSION/micromamba-linux-64
PROBE=${LOCK_PROBE:-https://conda.anaconda.org/conda-forge/noarch/repodata.json.zst}

die() {
  printf 'error: %s; the locks are as they were\n' "$*" >&2
  exit 2
}

fetch() {  # fetch URL SHA256 FILE: into FILE only when the hash is the expected one
  "$TOOLS/bin/python" -I - "$@" <<'PYTHON'
import hashlib, os, sys, urllib.request

url, expected, target = sys.argv[1:]
try:
    with urllib.request.urlopen(url, timeout=60) as answer:
        data = answer.read()
except OSError as error:
    sys.exit(f"cannot fetch {url}: {error}")
got = hashlib.sha256(data).hexdigest()
if got != expected:
    sys.exit(f"wrong hash: {url} has {got}, expected {expected}")
with open(target + ".new", "wb") as file:
    file.write(data)
os.chmod(target + ".new", 0o755)
os.replace(target + ".new", target)
PYTHON
}

can_reach() {
  "$TOOLS/bin/python" -I - "$1" <<'PYTHON'
import sys, urllib.request

try:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], method="HEAD"), timeout=10).close()
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error}")
PYTHON
}

compile_wheels() {  # compile_wheels NAME PYTHON [OPTION...]: locks/NAME.in of the copy -> locks/NAME.lock
  local name=$1 oldest=$2
  shift 2
  echo "locks/$name.lock"
  (cd "$WORK/locks" && rm -f "$name.lock" && "$TOOLS/bin/uv" pip compile --quiet --no-config \
    --no-header --no-python-downloads --python "$TOOLS/bin/python" --universal --python-version "$oldest" \
    --fork-strategy fewest --generate-hashes "$@" "$name.in" --output-file "$name.lock") ||
    die "cannot compile locks/$name.in"
}

lock_wheels() {
  local name beside=()
  compile_wheels requirements 3.9
  # lies beside the environment, so it must hold nothing that is there
  while read -r name; do beside+=(--no-emit-package "$name"); done \
    < <(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/\1/p' "$WORK/locks/requirements.lock" | sort -u)
  compile_wheels interfaces 3.9 "${beside[@]}"
  compile_wheels floor 3.9 --resolution lowest-direct
  compile_wheels current 3.12
  compile_wheels tools 3.9
  compile_wheels lock-tools 3.9
  compile_wheels docs 3.9
}

lock_pip() {
  local folder environment
  for folder in locks "$CHANNELS"; do
    environment=$folder
    [[ $folder == locks ]] && environment=.
    (cd "$WORK" && "$TOOLS/bin/python" "$ROOT/scripts/lock_pip.py" \
      --conda "$environment/conda-lock.yml" --environment "$environment/environment.yml" \
      --ask "$folder/conda-pip.in" --lock "$folder/conda-pip.lock") || die "cannot make $folder/conda-pip.lock"
  done
}

find_solver() {  # sets SOLVER: what is on PATH, else the pinned micromamba
  local name
  for name in micromamba mamba conda; do
    if SOLVER=$(command -v "$name"); then
      echo "solver: $SOLVER, $("$SOLVER" --version | head -n 1)"
      return
    fi
  done
  SOLVER=$ROOT/.cache/micromamba-$MICROMAMBA_VERSION/micromamba
  mkdir -p "${SOLVER%/*}"
  if [[ ! -x $SOLVER ]]; then
    fetch "$MICROMAMBA_URL" "$MICROMAMBA_SHA256" "$SOLVER" || die "no conda, mamba or micromamba to solve with"
  fi
  echo "solver: micromamba $MICROMAMBA_VERSION"
}

make_conda_lock_tool() {  # a venv with conda-lock, from lock-tools.lock alone
  CONDA_LOCK_TOOL=$ROOT/.cache/lock-tools
  [[ -x $CONDA_LOCK_TOOL/bin/python ]] || "$TOOLS/bin/python" -m venv "$CONDA_LOCK_TOOL"
  "$TOOLS/bin/uv" pip sync --quiet --no-config --python "$CONDA_LOCK_TOOL/bin/python" \
    --require-hashes --only-binary :all: "$ROOT/locks/lock-tools.lock" || die "cannot install conda-lock"
}

lock_conda() {
  local folder
  find_solver
  make_conda_lock_tool
  export CONDA_CHANNEL_PRIORITY=strict MAMBA_CHANNEL_PRIORITY=strict
  for folder in "$WORK/." "$WORK/$CHANNELS"; do
    echo "solving ${folder#"$WORK/"}/environment.yml"
    mkdir "$folder/solve"
    # without the pip section: that part is lock_pip.py's
    sed '/^- pip:/,$d' "$folder/environment.yml" >"$folder/solve/environment.yml"
    (cd "$folder/solve" && "$CONDA_LOCK_TOOL/bin/conda-lock" lock --conda "$SOLVER" \
      --platform linux-64 --file environment.yml --lockfile conda-lock.yml \
      --virtual-package-spec "$WORK/virtual-packages.yml") || die "conda-lock found no solution for $folder"
    mv "$folder/solve/conda-lock.yml" "$folder/conda-lock.yml"
    rm -r "$folder/solve"
  done
}

[[ $# -le 1 ]] || die "expected one of all, conda, wheels, pip, got $*"
[[ -x $TOOLS/bin/uv ]] || die "$TOOLS has no uv; run scripts/env.sh tools first"
case $WHAT in
  all | conda)
    can_reach "$PROBE" || die "the conda channels can't be reached; scripts/lock.sh wheels and scripts/lock.sh pip need PyPI alone"
    ;;
  wheels | pip) ;;
  *) die "expected one of all, conda, wheels, pip, got $WHAT" ;;
esac

FILES=(environment.yml conda-lock.yml virtual-packages.yml "$CHANNELS"/{environment.yml,conda-lock.yml}
  "$CHANNELS"/conda-pip.{in,lock} locks/{conda-pip,requirements,floor,current,tools,lock-tools,docs,interfaces}.{in,lock})
WORK=$(mktemp -d "${TMPDIR:-/tmp}/lock.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/locks" "$WORK/$CHANNELS"
for file in "${FILES[@]}"; do cp "$ROOT/$file" "$WORK/$file"; done

case $WHAT in all | wheels) lock_wheels ;; esac
case $WHAT in all | conda) lock_conda ;; esac
case $WHAT in all | conda | pip) lock_pip ;; esac
"$TOOLS/bin/python" "$ROOT/scripts/lock_check.py" --root "$WORK" || die "the new locks are not sound"

for file in "${FILES[@]}"; do
  if ! cmp -s "$WORK/$file" "$ROOT/$file"; then
    cp "$WORK/$file" "$ROOT/$file.new"
    mv "$ROOT/$file.new" "$ROOT/$file"
    echo "changed: $file"
  fi
done
