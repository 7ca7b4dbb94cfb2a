# shellcheck shell=bash disable=SC2034  # scripts/env.sh reads the variables
# The marker wellfed.json says who made a folder, from which lock, and whether it is whole.
# Sourced by scripts/env.sh.

marker_escape() {
  local text=${1//\\/\\\\}
  printf '%s' "${text//\"/\\\"}"
}

marker_write() {  # marker_write DIR key=value...: written beside and renamed; an empty value becomes null
  local dir=$1 pair value text='{"format": 1'
  shift
  for pair in "$@"; do
    value="\"$(marker_escape "${pair#*=}")\""
    [[ -n ${pair#*=} ]] || value=null
    text+=$',\n '"\"${pair%%=*}\": $value"
  done
  if ! { printf '%s}\n' "$text" >"$dir/wellfed.json.new" && mv -f "$dir/wellfed.json.new" "$dir/wellfed.json"; } 2>/dev/null; then
    die "cannot write $dir/wellfed.json; check the disk and the folder's owner"
  fi
}

marker_read() {  # sets MARKER to the text; fails where there is none of ours
  MARKER=""
  [[ -f $1/wellfed.json ]] || return 1
  MARKER=$(<"$1/wellfed.json")
  [[ $MARKER == '{"format": 1,'* ]]
}

marker_get() {  # from MARKER; for values without quotes in them
  local regex="\"$1\": \"([^\"]*)\""
  if [[ $MARKER =~ $regex ]]; then printf '%s' "${BASH_REMATCH[1]}"; fi
}

marker_is() {  # marker_is key value
  [[ $MARKER == *"\"$1\": \"$(marker_escape "$2")\""* ]]
}

hash_of() {  # one sha256 over the contents of the files
  local file sum
  for file in "$@"; do
    [[ -r $file ]] || die "cannot read the lock ${file#"$ROOT"/}; it belongs to the repository: git checkout it, or make lock"
  done
  sum=$(cat -- "$@" | sha256sum)
  printf '%s' "${sum%% *}"
}

owned_or_new() {  # owned_or_new DIR [VARIABLE]: refuses a folder that holds something and isn't ours
  local other=${2:+, or choose another with $2=DIR}
  if [[ -e $1 && ! -d $1 ]]; then
    die "$1 is not a folder; move it away$other"
  fi
  if [[ -d $1 ]] && ! marker_read "$1" && [[ -n $(ls -A "$1") ]]; then
    die "$1 was not made by make env (it has no wellfed.json), so it is left alone; remove or rename it$other"
  fi
}

empty_dir() {  # all but the marker goes, so a stopped deletion is still known as ours
  find "$1" -mindepth 1 -maxdepth 1 ! -name wellfed.json -exec rm -rf -- {} +
}

remove_marked() {  # remove_marked PATH: PATH may be a link; then its folder is emptied and the link stays
  local dir
  dir=$(readlink -m -- "$1")
  marker_read "$dir" || return 1
  empty_dir "$dir"
  rm -f -- "$dir/wellfed.json"
  [[ -L $1 ]] || rmdir -- "$dir"
}
