#!/usr/bin/env bash
# The kernels' tests under one of compute-sanitizer's tools, after tools/build_cuda.sh.
#
#   tools/sanitize_kernels.sh memcheck|racecheck [SHARE]
#
# The tests are run in 60 shares, several at once. What a share printed is kept in build/cuda/TOOL when
# it has passed, and with the same build it is not run again: a run that was interrupted goes on. Run
# the tests themselves before: they tune convolutions, which takes long under these tools.
set -uo pipefail
cd "$(dirname "$0")/.."
shares=60
tool=${1:-}
tests=build/cuda/src/kernels/kernels_tests
kept=build/cuda/$tool
filter='*'
case $tool in
  memcheck)
    # Every tensor gets memory of its own, so that none hides behind another; this cannot be recorded.
    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    filter='-*Recorded*'
    options=(--kernel-name kernel_substring=slift --error-exitcode 1)
    at_once=$(nproc)
    ;;
  racecheck)
    # Of all kernels: told to leave some alone, this tool breaks them. It finds a hazard in one of
    # cuBLAS's, so that only those that name ours count. It has threads of its own.
    options=(--racecheck-num-workers 2 --print-limit 10000)
    at_once=$((($(nproc) + 2) / 3))
    ;;
  *)
    echo "usage: $0 memcheck|racecheck [SHARE]" >&2
    exit 2
    ;;
esac
if [[ ! -x $tests ]]; then
  echo "$tests: not there; run tools/build_cuda.sh" >&2
  exit 1
fi

if (($# > 1)); then
  share=$2
  [[ $kept/$share -nt $tests ]] && exit
  if GTEST_TOTAL_SHARDS=$shares GTEST_SHARD_INDEX=$share compute-sanitizer --tool "$tool" \
    --require-cuda-init no "${options[@]}" "$tests" --gtest_brief=1 --gtest_filter="$filter" \
    >"$kept/$share.unfinished" 2>&1 && grep -q "SUMMARY" "$kept/$share.unfinished" &&
    ! grep -q "access at .*slift" "$kept/$share.unfinished"; then
    mv "$kept/$share.unfinished" "$kept/$share"
  else
    tail -n 40 "$kept/$share.unfinished"
    echo "$tool: share $share of $shares FAILED"
    exit 1
  fi
else
  mkdir -p "$kept"
  seq 0 $((shares - 1)) | xargs -P "$at_once" -n 1 tools/sanitize_kernels.sh "$tool" || exit
  echo "$tool: $shares shares of the kernels' tests passed"
fi
