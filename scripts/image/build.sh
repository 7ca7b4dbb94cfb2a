# shellcheck shell=bash
# Builds the image and names it after what is really inside. Sourced by scripts/image.sh.

build_settings() {  # sets BUILD: the arguments that say where packages come from
  BUILD=()
  [[ -z ${BASE_IMAGE:-} ]] || BUILD+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
  local name ca=${SSL_CERT_FILE:-${PIP_CERT:-}}
  # Docker knows these by itself and keeps them out of the image's history
  for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [[ -z ${!name:-} ]] || BUILD+=(--build-arg "$name")
  done
  # an index may carry a password, a certificate is the network's business: both are secrets of one step
  [[ -z $ca || ! -r $ca ]] || BUILD+=(--secret "id=ca,src=$ca")
  SETTINGS=$(mktemp)
  trap 'rm -f -- "$SETTINGS"' EXIT
  for name in PIP_INDEX_URL UV_DEFAULT_INDEX PIP_TRUSTED_HOST UV_INSECURE_HOST; do
    [[ -z ${!name:-} ]] || printf '%s=%q\n' "$name" "${!name}" >>"$SETTINGS"
  done
  BUILD+=(--secret "id=settings,src=$SETTINGS")
}

made() {  # made KEY: a line of the environment's marker inside the image
  sed -nE "s/.*\"$1\": \"([^\"]*)\".*/\1/p" <<<"$MARKER"
}

revision() {
  local rev
  rev=$(git rev-parse HEAD 2>/dev/null) || { echo unknown; return; }
  [[ -z $(git status --porcelain 2>/dev/null) ]] || rev+=-changed
  echo "$rev"
}

build_image() {
  local target=${TARGET:-runtime} way=${ENV_FROM:-conda} name=${IMAGE_NAME:-pytorch-cuda}
  local suffix="" id torch cuda python tag
  [[ $way != auto ]] || way=conda
  case $way in
    conda | channels | wheels) ;;
    *) die "ENV_FROM=$way is not known; expected conda, channels or wheels" ;;
  esac
  case $target in
    runtime) ;;
    dev) suffix=-dev ;;
    *) die "TARGET=$target is not known; expected runtime or dev" ;;
  esac
  build_settings
  BUILD+=(--target "$target" --build-arg "ENV_FROM=$way" "${MORE[@]}")
  "$DOCKER" build "${BUILD[@]}" --tag "$name:local$suffix" . ||
    die "the image was not built; the lines above say which step failed"
  # what is inside is read from the inside; the second build adds labels to the first, and nothing else
  MARKER=$("$DOCKER" run --rm --network none --entrypoint cat "$name:local$suffix" /opt/env/wellfed.json)
  torch=$(made torch) cuda=$(made cuda) python=$(made python)
  "$DOCKER" build --quiet "${BUILD[@]}" --tag "$name:local$suffix" \
    --label "org.opencontainers.image.title=$name" \
    --label "org.opencontainers.image.version=${torch%%+*}" \
    --label "org.opencontainers.image.revision=$(revision)" \
    --label "wellfed.way=$(made way)" --label "wellfed.lock=$(made lock)" \
    --label "wellfed.python=$python" --label "wellfed.torch=$torch" --label "wellfed.cuda=$cuda" . >/dev/null ||
    die "the image was built, but its labels could not be added"
  tag=$(tag_of "$torch" "$cuda" "$python")
  "$DOCKER" tag "$name:local$suffix" "$name:$tag$suffix"
  id=$name:$tag$suffix
  if [[ $way == conda ]]; then
    id=$name:${tag%%-*}$suffix
    "$DOCKER" tag "$name:local$suffix" "$id"
  fi
  say_how "$id" "$name:$tag$suffix" "$name:local$suffix"
}

tag_of() {  # 2.6.0+cu118 11.8 3.9.21 -> v2.6-cu118-py39
  local torch=${1%%+*} python=$3
  python=${python%.*}
  printf 'v%s-cu%s-py%s' "${torch%.*}" "${2//./}" "${python//./}"
}

say_how() {
  local size
  size=$("$DOCKER" image inspect --format '{{.Size}}' "$1")
  cat <<TEXT

$1 is built: Python $(made python), torch $(made torch), CUDA $(made cuda); $((size / 1000000)) MB
the same image: $2, $3

  docker run --gpus all -p 127.0.0.1:8888:8888 $1

without a GPU leave out "--gpus all"; to keep your files, add: -v "\$PWD:/workspace"
or, with all settings at hand: make up
TEXT
}
