#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the .cc files that changed since a revision, committed or not.
# Fails on any warning.
#
#   tools/check_tidy.sh [BASE]
#
# BASE: if it is not given, where HEAD left origin/main; where there is no such branch or HEAD is its
# end, the commit before HEAD. A file that uses LibTorch takes half a minute. What clang does not
# compile here is left out: sources of CUDA, and its emulator's, which are for GCC.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-}
if [[ -z $base ]]; then
  base=$(git merge-base origin/main HEAD 2>/dev/null || true)
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then base=HEAD~1; fi
  if ! git rev-parse --verify --quiet "$base^{commit}" >/dev/null; then
    echo "tidy: no revision here to compare with, no file looked at"
    exit
  fi
fi
if ! commit=$(git rev-parse --verify --quiet --short "$base^{commit}"); then
  echo "check_tidy: no such revision: $base" >&2
  exit 2
fi
mapfile -t changed < <({
  git diff --name-only --diff-filter=d "$commit" -- '*.cc'
  git ls-files -o --exclude-standard '*.cc'
} | sort -u)
if ((${#changed[@]} == 0)); then
  echo "tidy: no .cc file changed since $commit"
  exit
fi
for program in clang-tidy clang++; do
  if ! command -v $program >/dev/null; then
    echo "check_tidy: $program is missing, \`tools/setup.sh ci\` installs it" >&2
    exit 2
  fi
done

mkdir -p build
cmake --preset tidy >build/tidy.log 2>&1 || { tail -n 20 build/tidy.log >&2; exit 1; }
root=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/tidy/CMakeCache.txt)
known=$(sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json)
files=()
for file in "${changed[@]}"; do
  if grep -qxF "$root/$file" <<<"$known"; then
    files+=("$file")
  else
    echo "tidy: left out, not compiled by clang here: $file"
  fi
done

look() {
  local output start=$SECONDS
  if output=$(clang-tidy -p build/tidy --quiet "$1" 2>&1); then
    echo "tidy: $1, $((SECONDS - start)) s"
  else
    grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? generated\.$' <<<"$output" || true
    echo "tidy: $1 FAILED"
    return 1
  fi
}
export -f look
if ((${#files[@]})); then
  # shellcheck disable=SC2016
  printf '%s\0' "${files[@]}" | xargs -0 -P 2 -n 1 bash -c 'look "$1"' -
fi
echo "tidy: ${#files[@]} of ${#changed[@]} files changed since $commit were looked at and are clean"
