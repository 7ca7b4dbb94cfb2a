# shellcheck shell=bash
# The container's environment as a file, for those who come in without it: ssh sessions and login shells (profile.sh).
# Sourced by start.sh. The file is plain sh: any value survives, also with quotes, $, # and newlines.

never_passed() { # never_passed NAME VALUE: secrets, and what each session sets for itself
  case ${1^^} in
    *_KEY | KEY | *_KEYS | *_KEY_ID | *APIKEY | *_TOKEN | TOKEN | *_TOKENS | *SECRET* | *PASSWORD* | *PASSWD* | *PASSPHRASE*)
      return 0 ;;
  esac
  case $1 in
    HOME | USER | LOGNAME | SHELL | PWD | OLDPWD | SHLVL | _ | TERM | MAIL | HOSTNAME | PATH) return 0 ;;
    SSH_* | BASH* | SHELLOPTS | ENV | IFS | PS[0-4] | PROMPT_COMMAND | LD_PRELOAD | WELLFED_*) return 0 ;;
    JUPYTER_TOKEN*) return 0 ;;
  esac
  # an address with a password in it, such as a proxy's
  [[ $2 =~ ://[^/@[:space:]]*:[^/@[:space:]]+@ ]]
}

quote() { # quote TEXT: sets QUOTED to it as one word for sh
  local mark="'" escaped="'\\''"
  QUOTED="'${1//"$mark"/"$escaped"}'" # no subshell: it would eat newlines at the end
}

write_environment() { # write_environment FILE
  local pair name
  {
    echo '# Made at the start of the container: what a session does not have yet. Secrets are left out.'
    quote "$PATH"
    # shellcheck disable=SC2016  # these lines are for the shell that reads the file
    printf 'case ":$PATH:" in *:%s:*) ;; *) PATH=%s; export PATH ;; esac\n' "$PREFIX/bin" "$QUOTED"
    while IFS= read -r -d '' pair; do
      name=${pair%%=*}
      [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
      ! never_passed "$name" "${pair#*=}" || continue
      quote "${pair#*=}"
      # shellcheck disable=SC2016
      printf '[ -n "${%s+x}" ] || { %s=%s; export %s; }\n' "$name" "$name" "$QUOTED" "$name"
    done < <(env -0)
  } >"$1.new"
  chmod 600 -- "$1.new"
  mv -f -- "$1.new" "$1"
}
