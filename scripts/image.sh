#!/usr/bin/env bash
# The image and its container.
#
#   scripts/image.sh build    build the image, name it after what is inside, say how to run it
#   scripts/image.sh env      write .env with your user's numbers, once; up does it too
#   scripts/image.sh up       start the container; with the GPU where Docker offers one
#   scripts/image.sh down     stop and remove it; its volumes stay
#   scripts/image.sh shell    a shell inside, as the user
#   scripts/image.sh ssh      log in by SSH
#   scripts/image.sh logs     what it says, as it says it
#
# Settings are environment variables; those of the container stand in .env (.env.example explains them).
#   ENV_FROM    conda | channels | wheels: where the environment comes from (auto means conda)
#   TARGET      runtime | dev: dev has compilers
#   BASE_IMAGE  another base than the Dockerfile's
#   IMAGE_NAME  pytorch-cuda
#   GPU         1 or 0: with or without, whatever is found
#   DOCKER      the client, where the one on PATH is not the right one
#   ARGS        more arguments for docker build, docker compose up or ssh
# Exit codes: 0 done, 2 a message says why not; shell, ssh: those of the command.
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/image/docker.sh
. "$ROOT/scripts/image/docker.sh"
# shellcheck source=scripts/image/build.sh
. "$ROOT/scripts/image/build.sh"
# shellcheck source=scripts/image/compose.sh
. "$ROOT/scripts/image/compose.sh"

cd -- "$ROOT"
read -ra MORE <<<"${ARGS:-}"
case ${1:-} in
  build) find_docker && build_image ;;
  env) write_dotenv ;;
  up) find_compose && start ;;
  down) find_compose && take_down ;;
  shell) find_compose && running && open_shell ;;
  ssh) find_compose && running && log_in ;;
  logs) find_compose && show_log ;;
  *) die "image.sh ${1:-without a word} is not known; expected build, env, up, down, shell, ssh or logs" ;;
esac
