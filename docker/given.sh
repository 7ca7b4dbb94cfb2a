# shellcheck shell=bash
# Keys and token that were given as files, of any owner and mode. Sourced by entrypoint.sh, which is root where it can be.
# They go on as text through a pipe, so no copy lies on a disk. A line "#from FILE" says where the next lines come from,
# "#error TEXT" that a file can't be read.

give_file() { # give_file FILE
  local content
  if [[ -d $1 ]]; then
    printf '#error %s is a folder: the file that was to be mounted there does not exist on the host\n' "$1"
  elif content=$(cat -- "$1" 2>/dev/null | tr -d '\0'); then
    printf '#from %s\n%s\n' "$1" "$content"
  else
    printf '#error %s cannot be read by user %s (owner and mode: %s)\n' "$1" "$EUID" "$(stat -Lc '%u, %a' -- "$1")"
  fi
}

given_keys() {
  local file
  for file in "${SSH_AUTHORIZED_KEYS_FILE:-}" "$SECRETS/authorized_keys" "$ETC/wellfed/authorized_keys"; do
    if [[ -n $file && -e $file ]]; then
      give_file "$file"
    elif [[ -n $file && $file == "${SSH_AUTHORIZED_KEYS_FILE:-}" ]]; then
      printf '#error SSH_AUTHORIZED_KEYS_FILE=%s does not exist\n' "$file"
    fi
  done
}

given_token() {
  if [[ -n ${JUPYTER_TOKEN_FILE:-} ]]; then
    if [[ ! -e $JUPYTER_TOKEN_FILE ]]; then
      printf '#error JUPYTER_TOKEN_FILE=%s does not exist\n' "$JUPYTER_TOKEN_FILE"
    else
      give_file "$JUPYTER_TOKEN_FILE"
    fi
  elif [[ -e $SECRETS/jupyter_token ]]; then
    give_file "$SECRETS/jupyter_token"
  fi
}
