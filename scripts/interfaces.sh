#!/usr/bin/env bash
# Installs what locks/interfaces.lock names into a folder beside the environment, and prints that
# folder: the environment itself stays what its lock says. Does nothing when it is there already.
#
# VENV is the environment whose Python it is for; TOOLS the folder with uv (scripts/env.sh tools).
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${VENV:-.venv}/bin/python
[[ $PYTHON == /* ]] || PYTHON=$ROOT/$PYTHON
UV=${TOOLS:-$ROOT/.tools}/bin/uv
LOCK=$ROOT/locks/interfaces.lock
# shellcheck source=scripts/env/ways.sh
. "$ROOT/scripts/env/ways.sh"

for program in "$PYTHON" "$UV"; do
  [[ -x $program ]] || { echo "error: there is no $program; run make test-interfaces" >&2; exit 2; }
done
tag=$("$PYTHON" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=$ROOT/build/interfaces/$tag
if ! cmp -s "$LOCK" "$folder/interfaces.lock"; then
  clean_settings
  pip_settings "${UV%/uv}/python"
  rm -rf "$folder"
  mkdir -p "$folder"
  "$UV" pip install --quiet --python "$PYTHON" --target "$folder" --no-deps --require-hashes \
    --only-binary :all: -r "$LOCK" || { echo "error: cannot install $LOCK; see above" >&2; exit 2; }
  cp "$LOCK" "$folder/interfaces.lock"
fi
echo "$folder"
