# shellcheck shell=bash disable=SC2034  # scripts/env.sh reads the variables
# Removes what make env and the checks made: marked environments, the tools, caches. Never runs/ or data.
# Sourced by scripts/env.sh, which holds the lock meanwhile.

for path in "$ROOT"/.venv* "$ROOT/.tools" "$ROOT/.docs-env" "$VENV"; do
  [[ -e $path ]] || continue
  if remove_marked "$path"; then
    say "removed ${path#"$ROOT"/}"
  else
    say "left ${path#"$ROOT"/}: it has no wellfed.json, so make env did not make it"
  fi
done
for path in .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache/uv .cache/pip .cache/env.log build/site; do
  rm -rf -- "${ROOT:?}/$path"
done
for path in train scripts tests benchmarks; do
  [[ ! -d $ROOT/$path ]] || find "$ROOT/$path" -type d -name __pycache__ -prune -exec rm -rf -- {} +
done
