# shellcheck shell=bash disable=SC2034
# JupyterLab: its token and how it is started. Sourced by start.sh.

settle_token() { # sets TOKEN and TOKEN_SOURCE: given | kept | made
  local line text="" source=""
  while IFS= read -r line; do
    case $line in
      '#error '*) die "${line#'#error '}" ;;
      '#from '*) source=${line#'#from '} ;;
      *) text+=$line$'\n' ;;
    esac
  done <<<"$TOKEN_GIVEN"
  TOKEN=$(trim "$text") TOKEN_SOURCE=given
  if [[ -n $TOKEN ]]; then
    check_token "$source"
  elif [[ -n ${JUPYTER_TOKEN_FILE:-} ]]; then
    die "JUPYTER_TOKEN_FILE=$JUPYTER_TOKEN_FILE is empty; expected a token. Without the setting one is made and kept"
  elif [[ -n ${JUPYTER_TOKEN+set} ]]; then
    TOKEN=$(trim "$JUPYTER_TOKEN")
    [[ -n $TOKEN ]] || die "JUPYTER_TOKEN is empty: JupyterLab never runs without a token; leave it out, and one is made and kept"
    check_token JUPYTER_TOKEN
  else
    keep_token
  fi
}

trim() {
  local text=$1
  text=${text#"${text%%[![:space:]]*}"}
  printf '%s' "${text%"${text##*[![:space:]]}"}"
}

check_token() { # check_token SOURCE
  local LC_ALL=C
  [[ ! $TOKEN =~ [^!-~] ]] || die "the token from $1 holds more than letters, digits and plain signs; expected one word"
  ((${#TOKEN} >= 8)) || say "note: the token from $1 has ${#TOKEN} characters; anyone who reaches the port can guess it"
}

keep_token() { # made once: an address that was saved in a browser stays good
  local file=$STATE/jupyter_token
  TOKEN_SOURCE=kept
  if [[ -s $file ]]; then
    [[ -r $file ]] || die "$file cannot be read by user $EUID; its volume belongs to another user"
    TOKEN=$(trim "$(<"$file")")
    [[ $TOKEN =~ ^[[:graph:]]{16,}$ ]] || die "$file does not hold a token; remove it, and a new one is made"
    chmod 600 -- "$file" 2>/dev/null || true
    return
  fi
  TOKEN=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
  TOKEN_SOURCE=made
  (umask 077 && printf '%s\n' "$TOKEN" >"$file.new" && mv -f -- "$file.new" "$file") ||
    die "cannot write $file; check the volume's owner and the disk"
}

url_word() { # url_word TEXT: as it may stand in an address
  local text=$1 out="" char i LC_ALL=C
  for ((i = 0; i < ${#text}; i++)); do
    char=${text:i:1}
    case $char in
      [A-Za-z0-9._~-]) out+=$char ;;
      *) printf -v char '%%%02X' "'$char" && out+=$char ;;
    esac
  done
  printf '%s' "$out"
}

prepare_jupyter() {
  local url
  settle_token
  PORT_jupyter=$(a_port JUPYTER_PORT 8888) || exit 2
  url=http://127.0.0.1:$(a_port JUPYTER_PORT_HOST "$PORT_jupyter")/lab || exit 2
  mkdir -m 700 -- "$RUN/jupyter"
  # in a file, since everybody in the container may read a process's words
  (umask 077 && printf '%s' "$TOKEN" >"$RUN/jupyter/token" && printf '%s?token=%s\n' "$url" "$(url_word "$TOKEN")" >"$RUN/urls")
  START_jupyter=(env JUPYTER_RUNTIME_DIR="$RUN/jupyter" WELLFED_TOKEN_FILE="$RUN/jupyter/token" WELLFED_BIND="$ADDRESS"
    WELLFED_PORT="$PORT_jupyter" WELLFED_WORKSPACE="$WORKSPACE" WELLFED_PREFIX="$PREFIX"
    "$PREFIX/bin/python" -m jupyterlab --config "$HERE/jupyter_server_config.py")
  if [[ $TOKEN_SOURCE == given ]]; then
    say "JupyterLab:  $url (with the token that you gave)"
  else
    say "JupyterLab:  $(<"$RUN/urls")"
  fi
}
