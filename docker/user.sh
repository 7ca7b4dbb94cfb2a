# shellcheck shell=bash disable=SC2034
# Who the container's user is, as numbers; the name stays "user". Sourced by entrypoint.sh, as root.

a_number() { # a_number NAME
  local value=${!1:-}
  if [[ ! $value =~ ^[0-9]{0,10}$ ]] || ((10#0$value >= 4294967295)); then
    die "$1 must be a user's or group's number, got '$value'"
  fi
  printf '%s' "${value:+$((10#$value))}"
}

rootless() { # is root in here an ordinary user out there?
  local inside outside count
  read -r inside outside count <"$UID_MAP" && [[ $outside != 0 ]]
}

allow_root() {
  rootless || die "RUN_AS_ROOT=1 is for rootless Docker alone; here root is the machine's root;" \
    "leave it out, and the container takes the owner of $WORKSPACE"
}

choose_user() { # sets TARGET_UID and TARGET_GID
  local owner=0 group=0
  TARGET_UID=$(a_number HOST_UID) || exit 2
  TARGET_GID=$(a_number HOST_GID) || exit 2
  if [[ -d $WORKSPACE ]]; then
    read -r owner group < <(stat -c '%u %g' -- "$WORKSPACE")
  fi
  if [[ -z $TARGET_UID ]]; then
    TARGET_UID=$owner
    [[ -n $TARGET_GID ]] || TARGET_GID=$group
  elif [[ -z $TARGET_GID ]]; then
    TARGET_GID=$TARGET_UID
    ((TARGET_UID != owner)) || TARGET_GID=$group
  fi
  if ((TARGET_UID == 0)); then
    TARGET_UID=1000 TARGET_GID=1000
    ((owner != 0)) || say_owner_root
  fi
  ((TARGET_GID != 0)) || TARGET_GID=$TARGET_UID
}

say_owner_root() {
  if rootless; then
    say "note: Docker is rootless here: $WORKSPACE is yours, but you are root in the container." \
      "Add -e RUN_AS_ROOT=1 to write there; until then this runs as user 1000"
  else
    say "note: $WORKSPACE belongs to root, so this runs as user 1000 and can't write there." \
      "Give the folder to a user (on the host: sudo chown -R \"\$(id -u):\$(id -g)\" FOLDER), then start again"
  fi
}

map_user() { # the name "user" gets the numbers
  local uid gid
  read -r uid gid < <(awk -F: -v name="$USER_NAME" '$1 == name {print $3, $4}' "$ETC/passwd") ||
    die "$ETC/passwd has no user '$USER_NAME'; expected the one of the image"
  if ((uid != TARGET_UID || gid != TARGET_GID)); then
    if [[ -w $ETC/passwd && -w $ETC/group ]]; then
      renumber "$ETC/passwd" 3="$TARGET_UID" 4="$TARGET_GID"
      renumber "$ETC/group" 3="$TARGET_GID"
    else
      say "note: $ETC/passwd is read-only, so user $TARGET_UID has no name here"
    fi
  fi
  give_home
}

renumber() { # renumber FILE FIELD=VALUE...: our line comes first, so it is the name that its number has
  local text
  text=$(awk -F: -v name="$USER_NAME" -v changes="${*:2}" '
    $1 != name {rest = rest $0 "\n"; next}
    {
      count = split(changes, change, " ")
      OFS = ":"
      for (i = 1; i <= count; i++) {split(change[i], part, "="); $part[1] = part[2]}
      ours = $0
    }
    END {printf "%s\n%s", ours, rest}' "$1")
  printf '%s\n' "$text" >"$1" # into the same file: it may be a mount
}

give_home() { # the home, what the image laid into it, and our state; never the data of a person, however large
  local state=$HOME_DIR/.state
  [[ -d $HOME_DIR ]] || mkdir -p "$HOME_DIR" 2>/dev/null || return 0
  mkdir -p "$state" 2>/dev/null || true
  chown -h "$TARGET_UID:$TARGET_GID" "$HOME_DIR" "$HOME_DIR"/.[!.]* 2>/dev/null || true
  if [[ -d $state && ! -L $state ]]; then
    find "$state" -xdev ! -uid "$TARGET_UID" -exec chown -h "$TARGET_UID:$TARGET_GID" {} + 2>/dev/null || true
  fi
}

may() { # may BIT...: do we have these capabilities?
  local caps bit
  caps=$(awk '$1 == "CapEff:" {print $2}' /proc/self/status)
  for bit; do
    (((16#${caps: -8} >> bit) & 1)) || return 1
  done
}

find_become() { # sets BECOME: the command that turns root into the user
  local groups kill=-all
  may 6 7 || die "the container starts as root but may not become user $TARGET_UID (its capabilities SETUID and SETGID" \
    "were dropped); start it with --user $TARGET_UID:$TARGET_GID"
  # KILL, and for the supervisor alone: `docker exec` starts processes as root, and they too are asked to end
  ! may 5 || kill=-all,+kill
  groups=$(id -G | tr ' ' '\n' | grep -vx 0 | paste -sd, || true) # --group-add
  BECOME=(setpriv --reuid "$TARGET_UID" --regid "$TARGET_GID" "--inh-caps=$kill" "--ambient-caps=$kill")
  if [[ -n $groups ]]; then
    BECOME+=(--groups "$groups")
  else
    BECOME+=(--clear-groups)
  fi
}
