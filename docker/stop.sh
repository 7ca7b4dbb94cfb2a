# shellcheck shell=bash
# The end of the container: every process in it is asked to end, and gets time for it. Sourced by start.sh.
#
# First those that work: a training run that came by docker exec, ssh or a Jupyter terminal gets SIGTERM, once, and saves.
# Only then what carries them: services, ssh sessions, shells. A terminal that goes away first would end its run with SIGHUP.
# When the first process ends, the kernel ends the rest.

SERVICE_GRACE=5 # seconds for the second round

declare -A PARENT=() NAME=() BORN=() TERMINAL=() CHILDREN=()

whole_container() { # is each process that we see one of this container?
  (($$ == 1)) || { ((PPID == 1)) && [[ $(</proc/1/comm) == @(tini|docker-init|catatonit) ]]; }
}

look() { # fills the tables from /proc; the dead that nobody has waited for are left out
  local file text pid name
  local -a field
  PARENT=() NAME=() BORN=() TERMINAL=() CHILDREN=()
  for file in /proc/[0-9]*/stat; do
    IFS= read -r -d '' text 2>/dev/null <"$file" || true
    [[ -n ${text:-} ]] || continue
    pid=${text%% *} name=${text#*(}
    name=${name%)*} # a name may hold blanks and brackets
    read -ra field <<<"${text##*) }"
    [[ ${field[0]} != [ZX] ]] || continue
    NAME[$pid]=$name PARENT[$pid]=${field[1]} TERMINAL[$pid]=${field[4]} BORN[$pid]=${field[19]}
    CHILDREN[${field[1]}]+=" $pid"
    text=""
  done 2>/dev/null
}

ours() { # sets OURS: the processes to end; all of the container, or else what comes from us
  local pid root=$$ i
  local -a more
  OURS=()
  if whole_container; then
    for pid in "${!NAME[@]}"; do OURS+=("$pid"); done
  else
    [[ ${NAME[$PPID]:-} != tini ]] || root=$PPID # it takes in what others leave behind
    read -ra OURS <<<"${CHILDREN[$root]:-}"
    for ((i = 0; i < ${#OURS[@]}; i++)); do
      read -ra more <<<"${CHILDREN[${OURS[i]}]:-}"
      OURS+=(${more[@]+"${more[@]}"})
    done
  fi
}

left_alone() { # ourselves, process 1, and those who write the log
  local other
  (($1 == 1 || $1 == $$ || $1 == PPID)) && return 0
  for other in "${LOGGERS[@]}"; do
    (($1 != other)) || return 0
  done
  [[ ${PARENT[$1]} == "$$" && ${NAME[$1]} == start.sh ]]
}

carries() { # does this process hold the terminal or the pipe of another?
  local service
  [[ $1 != "$COMMAND_PID" ]] || return 1
  for service in "${PID[@]}"; do
    (($1 != service)) || return 0
  done
  case ${NAME[$1]} in
    sshd* | tmux* | screen | SCREEN | su | sudo | script) return 0 ;;
    *) is_shell "$1" && { [[ -n ${CHILDREN[$1]:-} ]] || ((TERMINAL[$1] != 0)); } ;;
  esac
}

is_shell() {
  [[ ${NAME[$1]} == @(sh|bash|dash|zsh|ksh|fish) ]]
}

ignores_term() {
  local key value
  while read -r key value; do
    if [[ $key == SigIgn: ]]; then
      (((16#${value: -8} >> 14) & 1)) && return 0
      return 1
    fi
  done 2>/dev/null <"/proc/$1/status"
  return 0 # it is gone
}

ask() { # ask SIGNAL... PID: each process is asked once; a second SIGTERM would cut its saving short
  local pid=${*: -1} signal key
  key=$pid.${BORN[$pid]}
  [[ ! -v ASKED[$key] ]] || return 0
  ASKED[$key]=1
  for signal in "${@:1:$#-1}"; do
    kill -"$signal" "$pid" 2>/dev/null || return 0
  done
  ignores_term "$pid" || WAITED[$key]=${NAME[$pid]}
}

wait_for() { # wait_for SECONDS: for those who were asked
  local end=$((SECONDS + $1)) key pid
  while :; do
    look
    for key in "${!WAITED[@]}"; do
      pid=${key%.*}
      [[ ${BORN[$pid]:-} == "${key#*.}" ]] || unset "WAITED[$key]"
    done
    ((${#WAITED[@]})) || break
    [[ -z $HURRY ]] || { say "asked to hurry: not waiting any longer" && break; }
    ((SECONDS < end)) || break
    pause 0.1
  done
}

names_of_waited() {
  local key text=""
  for key in "${!WAITED[@]}"; do text+=", ${WAITED[$key]} (${key%.*})"; done
  printf '%s' "${text#, }"
}

stop_everything() {
  local pid
  local -A ASKED=() WAITED=()
  look
  ours
  for pid in "${OURS[@]}"; do
    left_alone "$pid" || carries "$pid" || ask TERM CONT "$pid" # CONT: a stopped one would not hear it
  done
  wait_for 1
  if ((${#WAITED[@]} && STOP_GRACE > 1)); then
    say "stopping: waiting up to $STOP_GRACE s for $(names_of_waited)"
    wait_for $((STOP_GRACE - 1))
  fi
  ((${#WAITED[@]} == 0)) || say "note: not ended in time: $(names_of_waited)"
  WAITED=()
  look
  ours
  for pid in "${OURS[@]}"; do
    if left_alone "$pid"; then continue; fi
    if is_shell "$pid"; then
      ask TERM HUP CONT "$pid" # at a prompt they do not heed SIGTERM
    else
      ask TERM CONT "$pid"
    fi
  done
  wait_for "$SERVICE_GRACE"
}
