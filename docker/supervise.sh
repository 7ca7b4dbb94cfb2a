# shellcheck shell=bash
# Starts services and command, watches them, and ends when one of them does or a signal comes. Sourced by start.sh.
# bash and /proc alone: it lives as long as the container, and should need nothing that could break.

# shellcheck disable=SC2034  # stop.sh reads them
declare -A PID=()     # service -> its process
LOGGERS=()            # the processes that put a name before a service's lines
COMMAND_PID="" STOP="" HURRY=""

# The supervisor may end every process of the container (user.sh, CAP_KILL); what it starts may not.
plainly() { # plainly COMMAND...: with default signals and no capability, in this process
  local -a bare=()
  ((EUID == 0)) || bare=(setpriv --inh-caps=-all --ambient-caps=-all)
  exec {NEVER}<&-
  exec env --default-signal=HUP,INT,QUIT,TERM,USR1,USR2,CHLD ${bare[@]+"${bare[@]}"} "$@"
}

watch_signals() {
  trap 'on_stop TERM' TERM
  trap 'on_stop INT' INT
  trap 'on_stop HUP' HUP
}

on_stop() { # the second one asks to hurry
  # Ctrl-C on a terminal has reached the command already, and what comes of it is the command's affair
  if [[ $1 == INT && -n $COMMAND_PID && -z $STOP && -t 0 ]]; then return; fi
  [[ -z $STOP ]] || HURRY=1
  STOP=${STOP:-$1}
}

forward() { # forward SIGNAL: some programs take these as orders
  trap '[[ -z $COMMAND_PID ]] || kill -'"$1"' "$COMMAND_PID" 2>/dev/null' "$1"
}

is_noise() { # is_noise LINE: the healthcheck asks sshd each time; and only root's sshd keeps login records
  [[ $1 =~ (kex_exchange_identification|banner exchange|Connection (closed|reset) by).*(127\.0\.0\.1|closed by remote) ||
    $1 == *'write login records'* ]]
}

log_lines() { # log_lines NAME: to the container's log, the last thousands to a file
  local line count=0 file=$RUN/logs/$1
  trap '' INT TERM HUP
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $1 != ssh ]] || ! is_noise "$line" || continue
    printf '%s | %s\n' "$1" "$line" >&2 || true
    printf '%s\n' "$line" >>"$file" || true
    count=$((count + 1))
    ((count % 5000)) || mv -f -- "$file" "$file.old"
  done
}

start_service() { # start_service NAME COMMAND...
  local name=$1 out
  shift
  exec {out}> >(log_lines "$name")
  LOGGERS+=("$!")
  # a session of its own: Ctrl-C on the container's terminal is ours to pass on
  plainly setsid "$@" </dev/null >&"$out" 2>&1 &
  PID[$name]=$!
  exec {out}>&-
}

pause() { # pause SECONDS: a sleep that starts no process
  read -rt "$1" -u "$NEVER" _ || true
}

is_running() { # a process that has ended is gone for bash as soon as it was waited for
  kill -0 "$1" 2>/dev/null
}

start_prepared() { # start_prepared NAME: as its prepare_NAME says
  local -n words=START_$1 number=PORT_$1
  start_service "$1" "${words[@]}"
  announce "$1" "$number" "${PID[$1]}"
}

compile_kernels() { # while nobody waits yet, so that a notebook's first batch doesn't; at once where that was done before
  [[ -x $PREFIX/bin/python ]] || return 0
  plainly setsid nice -n 19 "$PREFIX/bin/python" -m train.data.compile_kernels </dev/null >"$RUN/logs/kernels" 2>&1 &
}

start_all() {
  local name
  : >"$RUN/services"
  for name in "${SERVICE_LIST[@]}"; do start_prepared "$name"; done
  if ((!$#)); then
    compile_kernels
  else
    forward USR1
    forward USR2
    forward QUIT
    plainly "$@" <&0 &
    COMMAND_PID=$!
  fi
}

watch() { # until the command ends, a service dies or a signal comes; sets CODE, and DEAD to the service
  local name code
  CODE=0 DEAD=""
  while [[ -z $STOP ]]; do
    for name in "${!PID[@]}"; do
      if ! is_running "${PID[$name]}"; then
        code=0
        wait "${PID[$name]}" || code=$?
        DEAD=$name CODE=1
        say "error: $name ended (exit code $code), so the container ends; its last lines:"
        return
      fi
    done
    if [[ -n $COMMAND_PID ]]; then
      if ((${#PID[@]} == 0)); then
        { wait "$COMMAND_PID" || true; } 2>/dev/null # bash would name a line of this file
      fi
      if ! is_running "$COMMAND_PID"; then
        { wait "$COMMAND_PID" || CODE=$?; } 2>/dev/null
        ((CODE != 137)) || [[ -n $STOP ]] || say_killed
        return
      fi
      ((${#PID[@]})) || continue
    fi
    pause 0.5
  done
}

say_killed() { # without a word of its own: most often for memory
  local events
  events=$(cat -- "$CGROUP/memory.events" "$CGROUP/memory/memory.oom_control" 2>/dev/null) || true
  if [[ $events =~ oom_kill\ [1-9] ]]; then
    say "error: the kernel ended a process, since the container's memory is used up;" \
      "allow it more (docker run --memory), or use smaller batches or fewer workers"
  else
    say "note: the command was ended by SIGKILL, from outside or by one of its own"
  fi
}

supervise() {
  local logger tries
  start_all "$@"
  watch
  if [[ -n $DEAD ]]; then
    pause 0.3 # its last words are still on their way
    tail -n 15 -- "$RUN/logs/$DEAD" 2>/dev/null | sed "s/^/  $DEAD | /" >&2 || true
  fi
  stop_everything
  if [[ -n $STOP && -n $COMMAND_PID ]]; then
    # one with threads counts as dead a little before it can be waited for
    for ((tries = 0; tries < 20; tries++)); do
      is_running "$COMMAND_PID" || break
      pause 0.1
    done
    if is_running "$COMMAND_PID"; then
      CODE=137
    else
      wait "$COMMAND_PID" || CODE=$?
    fi
  fi
  for logger in "${LOGGERS[@]}"; do # the last lines; not for long, since others may hold the pipe
    for ((tries = 0; tries < 10; tries++)); do
      is_running "$logger" || break
      pause 0.1
    done
  done
  exit "$CODE"
}
