#!/usr/bin/env bash
# Solve the peers' locks again: benchmarks/peers/lock.sh [PEER...]
#
# Peers on Python 3.9 (those that our own versions are compared with) and all others from 3.11 on.
# FFCV comes as source: its lock needs what its build needs (libopencv-dev, libturbojpeg0-dev).
# TOOLS names the folder with uv (default .tools, made by scripts/env.sh tools).
set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd -- "$HERE/../.." && pwd)
UV=${TOOLS:-$ROOT/.tools}/bin/uv
# shellcheck source=scripts/env/ways.sh
. "$ROOT/scripts/env/ways.sh"

clean_settings
pip_settings "${UV%/uv}/python"
cd -- "$HERE"
peers=("$@")
((${#peers[@]})) || peers=(*/)
for peer in "${peers[@]%/}"; do
  case $peer in
    torchvision | ffcv) python=3.9 ;;
    *) python=3.11 ;;
  esac
  echo "$peer, Python $python and newer"
  "$UV" pip compile --quiet --no-config --no-header --no-annotate --no-python-downloads --upgrade \
    --universal --python-version "$python" --fork-strategy fewest --generate-hashes \
    "$peer/requirements.in" --output-file "$peer/requirements.lock"
done
