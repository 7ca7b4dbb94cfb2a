#!/usr/bin/env bash
# Every SSH session starts here: a shell, a command, scp, rsync, sftp, an editor's server.
# It gets the container's environment, and stands in the workspace as all other ways in do.
#
#   ssh_session.sh ENVIRONMENT WORKSPACE
ENVIRONMENT=$1 WORKSPACE=$2
shell=${SHELL:-/bin/bash}
# shellcheck source=/dev/null
[[ ! -r $ENVIRONMENT ]] || . "$ENVIRONMENT"
cd -- "$WORKSPACE" 2>/dev/null || true
if [[ -v SSH_ORIGINAL_COMMAND ]]; then
  command=$SSH_ORIGINAL_COMMAND
  unset SSH_ORIGINAL_COMMAND
  exec "$shell" -c "$command"
fi
exec -l "$shell"
