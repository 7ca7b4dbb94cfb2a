# shellcheck shell=bash
# The end of the container: every process in it is asked to end, and gets time for it. Sourced by start.sh.
#
# First those that work, whoever started them: docker exec, ssh, a Jupyter terminal, a notebook. Each gets SIGTERM once:
#   - A program's own children are its affair (a loader's workers; what make or torchrun pass on): a second SIGTERM would cut
#     saving short. If it dies and leaves them behind, or does nothing for long, they are asked too.
#   - Shells, terminals and readers of a pipe carry others: a terminal that goes away ends its run with SIGHUP, and
#     `train | tee log` dies of a tee that is gone. They come second, with the services and ssh sessions.
# When the first process ends, the kernel ends the rest.

SERVICE_GRACE=5 # seconds for the second round

declare -A PARENT=() NAME=() BORN=() SESSION=() TERMINAL=() CHILDREN=()

look() { # fills the tables from /proc; the dead that nobody has waited for are left out
  local file text pid name
  local -a field
  PARENT=() NAME=() BORN=() SESSION=() TERMINAL=() CHILDREN=()
  for file in /proc/[0-9]*/stat; do
    text=""
    IFS= read -r -d '' text 2>/dev/null <"$file" || true
    [[ -n $text ]] || continue # it ended meanwhile
    pid=${text%% *} name=${text#*(}
    name=${name%)*} # a name may hold blanks and brackets
    read -ra field <<<"${text##*) }"
    [[ ${field[0]} != [ZX] ]] || continue
    PARENT[$pid]=${field[1]} SESSION[$pid]=${field[3]} TERMINAL[$pid]=${field[4]} BORN[$pid]=${field[19]} NAME[$pid]=$name
    CHILDREN[${field[1]}]+=" $pid"
  done 2>/dev/null
}

whole_container() { # is each process that we see one of this container?
  (($$ == 1)) || { ((PPID == 1)) && [[ $(</proc/1/comm) == @(tini|docker-init|catatonit) ]]; }
}

ours() { # sets OURS: the processes to end; all of the container, or else what comes from us
  local root=$$ i
  local -a more
  if whole_container; then
    OURS=("${!NAME[@]}")
    return
  fi
  [[ ${NAME[$PPID]:-} != tini ]] || root=$PPID # it takes in what others leave behind
  read -ra OURS <<<"${CHILDREN[$root]:-}"
  for ((i = 0; i < ${#OURS[@]}; i++)); do
    read -ra more <<<"${CHILDREN[${OURS[i]}]:-}"
    OURS+=(${more[@]+"${more[@]}"})
  done
}

left_alone() { # ourselves, process 1, and those who write the log
  local other
  (($1 == 1 || $1 == $$ || $1 == PPID)) && return 0
  for other in "${LOGGERS[@]}"; do
    (($1 != other)) || return 0
  done
  [[ ${PARENT[$1]} == "$$" && ${NAME[$1]} == start.sh ]]
}

is_shell() {
  [[ ${NAME[$1]} == @(sh|bash|dash|zsh|ksh|fish) ]]
}

carries() { # does this process hold the terminal or the pipe of others?
  local other
  [[ $1 != "$COMMAND_PID" ]] || return 1
  for other in "${PID[@]}"; do
    (($1 != other)) || return 0
  done
  case ${NAME[$1]} in
    sshd* | tmux* | screen | SCREEN | su | sudo) return 0 ;;
    tee | cat | grep | sed | awk | mawk | gawk | head | tail | less | more | sort | ts | pv) return 0 ;;
  esac
  if is_shell "$1"; then
    [[ -n ${CHILDREN[$1]:-} ]] || ((TERMINAL[$1] != 0))
    return
  fi
  for other in ${CHILDREN[$1]:-}; do # a child with a terminal and a session of its own: we are that terminal
    ((SESSION[$other] != other || TERMINAL[$other] == 0)) || return 0
  done
  return 1
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

has_a_parent_to_tell_it() {
  local above=${PARENT[$1]:-0}
  while ((above > 1)) && [[ -v NAME[$above] ]] && ! left_alone "$above"; do
    if is_shell "$above" || carries "$above"; then return 1; fi
    ignores_term "$above" || return 0
    above=${PARENT[$above]}
  done
  return 1
}

ask() { # ask PID SIGNAL...: a second call does nothing. What may not be asked isn't waited for
  local pid=$1 key=$1.${BORN[$1]} signal
  [[ ! -v ASKED[$key] ]] || return 0
  ASKED[$key]=1
  for signal in "${@:2}" CONT; do # CONT: a stopped one (Ctrl-Z) would not hear it
    kill -"$signal" "$pid" 2>/dev/null || { ASKED[$key]=refused && return 0; }
  done
}

ask_workers() { # ask_workers LATE: asks whose turn it is; sets WAITED to those who are still there
  local key pid
  WAITED=()
  look
  for key in "${!SEEN[@]}"; do
    pid=${key%.*}
    if [[ ${BORN[$pid]:-} != "${key#*.}" ]]; then
      unset "SEEN[$key]"
    elif [[ ${ASKED[$key]:-} != refused ]] && ! carries "$pid" && ! ignores_term "$pid"; then
      WAITED+=("${NAME[$pid]} ($pid)")
      if (($1)) || ! has_a_parent_to_tell_it "$pid"; then ask "$pid" TERM; fi
    fi
  done
}

ask_carriers() { # sets WAITED to those of all who are still there
  local pid
  WAITED=()
  look
  ours
  for pid in "${OURS[@]}"; do
    if left_alone "$pid"; then continue; fi
    [[ ${ASKED[$pid.${BORN[$pid]}]:-} == refused ]] || ignores_term "$pid" || WAITED+=("${NAME[$pid]} ($pid)")
    if is_shell "$pid"; then
      ask "$pid" TERM HUP # at a prompt they do not heed SIGTERM
    else
      ask "$pid" TERM
    fi
  done
}

repeat() { # repeat SECONDS ask_...: until nobody is left or time is up
  local begin=$SECONDS said="" late=0
  while "$2" "$late" && ((${#WAITED[@]})); do
    [[ -z $HURRY ]] || { say "asked to hurry: not waiting any longer" && return; }
    ((SECONDS - begin < $1)) || return 0
    if [[ -z $said && $1 -eq $STOP_GRACE ]] && ((SECONDS - begin >= 1)); then
      said=1
      say "stopping: waiting up to $STOP_GRACE s for $(listed "${WAITED[@]}")"
    fi
    ((SECONDS - begin < $1 / 4 + 2)) || late=1
    pause 0.1
  done
}

listed() {
  local text
  printf -v text ', %s' "$@"
  printf '%s' "${text#, }"
}

stop_everything() {
  local pid key
  local -a WAITED
  local -A ASKED=() SEEN=()
  look
  ours
  for pid in "${OURS[@]}"; do # what starts from now on, such as a kernel that Jupyter restarts, waits for the second round
    left_alone "$pid" || SEEN[$pid.${BORN[$pid]}]=1
  done
  repeat "$STOP_GRACE" ask_workers
  ((${#WAITED[@]} == 0)) || say "note: not ended in time: $(listed "${WAITED[@]}")"
  for key in "${!ASKED[@]}"; do ASKED[$key]=refused; done
  repeat "$SERVICE_GRACE" ask_carriers
}
