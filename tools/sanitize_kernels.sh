#!/usr/bin/env bash
# The kernels' tests under one of compute-sanitizer's tools, after tools/build_cuda.sh.
#
#   tools/sanitize_kernels.sh memcheck|racecheck [TEST]
#
# Every test that uses a GPU is run by itself, several at once. What it printed is kept in
# build/cuda/TOOL, and with the same build a test that has passed is not run again: a run that was
# interrupted goes on. Run the tests themselves before: they tune convolutions, which takes long under
# these tools. Programs take turns on a GPU, unless its MPS is running (nvidia-cuda-mps-control -d).
set -uo pipefail
cd "$(dirname "$0")/.."
tool=${1:-}
tests=build/cuda/src/kernels/kernels_tests
kept=build/cuda/$tool
cpu='[/_]cpu[0-9]*$'
case $tool in
  memcheck)
    # Every tensor gets memory of its own, so that none hides behind another; this cannot be recorded.
    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    left_out="$cpu|Recorded"
    options=(--kernel-name kernel_substring=slift --error-exitcode 1)
    at_once=$(nproc)
    ;;
  racecheck)
    # Of all kernels: told to leave some alone, this tool breaks them. It finds a hazard in one of
    # cuBLAS's, so that only those that name ours count. It has threads of its own. Chains of large
    # fields do not end within minutes; small ones run the same kernels.
    left_out="$cpu|AChain.*cuda64$"
    options=(--racecheck-num-workers 2 --print-limit 10000)
    at_once=$((($(nproc) + 1) / 2))
    ;;
  *)
    echo "usage: $0 memcheck|racecheck [TEST]" >&2
    exit 2
    ;;
esac
if [[ ! -x $tests ]]; then
  echo "$tests: not there; run tools/build_cuda.sh" >&2
  exit 1
fi

if (($# > 1)); then
  test=$2
  passed=$kept/${test//\//.}
  [[ $passed -nt $tests ]] && exit
  if compute-sanitizer --tool "$tool" --require-cuda-init no "${options[@]}" "$tests" \
    --gtest_brief=1 --gtest_filter="$test" >"$passed.unfinished" 2>&1 &&
    grep -q "PASSED.* 1 test" "$passed.unfinished" && grep -q "SUMMARY" "$passed.unfinished" &&
    ! grep -q "access at .*slift" "$passed.unfinished"; then
    echo "$SECONDS s" >>"$passed.unfinished"
    mv "$passed.unfinished" "$passed"
  else
    tail -n 40 "$passed.unfinished"
    echo "$tool: $test FAILED after $SECONDS s"
    exit 1
  fi
else
  mkdir -p "$kept"
  all=$("$tests" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' |
    grep -vE "$left_out")
  xargs -P "$at_once" -n 1 tools/sanitize_kernels.sh "$tool" <<<"$all" || exit
  echo "$tool: $(wc -l <<<"$all") tests of the kernels passed"
fi
