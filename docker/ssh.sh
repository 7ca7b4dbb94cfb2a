# shellcheck shell=bash disable=SC2034
# SSH: who may log in, the server's own key, how it is started. Sourced by start.sh.

keys_given() {
  [[ $KEYS_GIVEN =~ (^|$'\n')[[:space:]]*([^#[:space:]]|'#error ') ]]
}

keygen() { # it too refuses a number without a name
  ${NAMED[@]+"${NAMED[@]}"} ssh-keygen "$@"
}

write_keys() { # write_keys FILE: anew from what was given, so a key that is gone can't log in; says what it refuses
  local line source=nowhere number=0 bad=0 seen=$'\n'
  KEY_COUNT=0
  : >"$1"
  while IFS= read -r line || [[ -n $line ]]; do
    line=${line%$'\r'}
    case $line in
      '#error '*) die "${line#'#error '}" ;;
      '#from '*)
        source=${line#'#from '} number=0
        continue
        ;;
    esac
    number=$((number + 1))
    line=$(trim "$line")
    [[ -n $line && $line != '#'* && $seen != *$'\n'"$line"$'\n'* ]] || continue
    seen+=$line$'\n'
    if [[ $line == *'PRIVATE KEY---'* ]]; then
      die "$source holds a private key; give the public one, the file that ends in .pub, and keep the private one to yourself"
    elif keygen -l -f /dev/stdin <<<"$line" >/dev/null 2>&1; then
      printf '%s\n' "$line" >>"$1"
      KEY_COUNT=$((KEY_COUNT + 1))
    else
      bad=$((bad + 1))
      say "note: line $number of $source is no public key and is left out: '${line:0:40}'; expected 'ssh-ed25519 AAAA... name'"
    fi
  done <<<"$KEYS_GIVEN"
  ((KEY_COUNT)) || die "no key that was given can be used ($bad refused, see above); expected lines such as 'ssh-ed25519 AAAA... name'"
}

settle_host_key() { # sets HOST_KEY: made at the first start, kept in the state volume
  HOST_KEY=$STATE/ssh/ssh_host_ed25519_key
  if ! { mkdir -p -- "$STATE/ssh" && chmod 700 -- "$STATE/ssh"; } 2>/dev/null; then
    die "cannot write $STATE/ssh; check the owner of the state volume"
  fi
  if [[ ! -e $HOST_KEY ]]; then
    rm -f -- "$HOST_KEY.new" "$HOST_KEY.new.pub"
    keygen -q -t ed25519 -N '' -C "$(uname -n)" -f "$HOST_KEY.new" ||
      die "cannot make SSH's host key in $STATE/ssh; check the disk"
    mv -f -- "$HOST_KEY.new.pub" "$HOST_KEY.pub"
    mv -f -- "$HOST_KEY.new" "$HOST_KEY" # last: where it stands, it is whole
  fi
  chmod 600 -- "$HOST_KEY" 2>/dev/null || true
  keygen -y -P '' -f "$HOST_KEY" >"$HOST_KEY.pub" 2>/dev/null ||
    die "$HOST_KEY is damaged or cannot be read by user $EUID alone; remove it, and a new one is made"
}

name_for_sshd() { # sets NAMED: sshd wants a name for our number; with --user there may be none, so it is shown a list with one
  local library
  NAMED=()
  if [[ -n $LOGIN_NAME && $(getent passwd "$EUID") != *[/]@(nologin|false) ]]; then return; fi
  library=$(compgen -G "/usr/lib/*/libnss_wrapper.so" | head -n 1) || library=""
  [[ -n $library ]] || die "SSH needs a user with a name, and number $EUID has none in this image;" \
    "start without --user and with -e HOST_UID=$EUID -e HOST_GID=$(id -g)"
  LOGIN_NAME=$USER_NAME
  {
    printf '%s:x:%s:%s::%s:/bin/bash\n' "$LOGIN_NAME" "$EUID" "$(id -g)" "$HOME"
    grep -v "^$LOGIN_NAME:" /etc/passwd
  } >"$RUN/ssh/passwd"
  {
    printf '%s:x:%s:\n' "$LOGIN_NAME" "$(id -g)"
    grep -v "^$LOGIN_NAME:" /etc/group
  } >"$RUN/ssh/group"
  NAMED=(env LD_PRELOAD="$library" NSS_WRAPPER_PASSWD="$RUN/ssh/passwd" NSS_WRAPPER_GROUP="$RUN/ssh/group")
}

prepare_ssh() {
  local port sshd check
  sshd=$(PATH=$PATH:/usr/sbin type -P sshd) || die "there is no sshd in this image; expected the package openssh-server"
  mkdir -m 700 -- "$RUN/ssh"
  name_for_sshd
  write_keys "$RUN/ssh/authorized_keys"
  settle_host_key
  PORT_ssh=$(a_port SSH_PORT 2222) || exit 2
  port=$(a_port SSH_PORT_HOST "$PORT_ssh") || exit 2
  START_ssh=(${NAMED[@]+"${NAMED[@]}"} "$sshd" -D -e -f "$HERE/sshd_config"
    -o Port="$PORT_ssh" -o ListenAddress="$ADDRESS" -o AllowUsers="$LOGIN_NAME"
    -o HostKey="$HOST_KEY" -o AuthorizedKeysFile="$RUN/ssh/authorized_keys" -o PidFile="$RUN/ssh/sshd.pid"
    -o ForceCommand="$HERE/ssh_session.sh $RUN/env.sh $WORKSPACE")
  if ((EUID == 0)); then # rootless Docker: root in here is an ordinary user out there
    mkdir -p /run/sshd
    START_ssh+=(-o PermitRootLogin=prohibit-password)
  fi
  check=$("${START_ssh[@]}" -t 2>&1) || die "sshd refuses its settings: ${check//$'\n'/; }"
  say "SSH:         ssh -p $port $LOGIN_NAME@127.0.0.1 ($KEY_COUNT key(s) may log in)"
  say "             its host key: $(keygen -l -f "$HOST_KEY.pub" | cut -d' ' -f2,4)"
}
