#!/usr/bin/env bash
# Runs a command as on another processor: with the BLAS kernels that OpenBLAS has for it, and with
# LibTorch and oneDNN held to its vectors. Exits 77 if this processor lacks the instructions.
#
#   tools/as_processor.sh PROCESSOR COMMAND...     PROCESSOR: Nehalem, Haswell, Zen or SkylakeX
#   tools/as_processor.sh --all FOLDER             all test programs of a build, as each of them
set -euo pipefail

has() {
  local flag
  for flag in "$@"; do grep -qw "$flag" /proc/cpuinfo || return 1; done
}

# Exports the settings of a processor.
become() {
  case $1 in
    Nehalem) aten=default onednn=SSE41 needed=(sse4_2) ;;
    Haswell | Zen) aten=avx2 onednn=AVX2 needed=(avx2 fma) ;;
    SkylakeX) aten=avx512 onednn=AVX512_CORE needed=(avx512f avx512dq avx512bw avx512vl) ;;
    *) echo "as_processor: no such processor: $1" >&2; exit 2 ;;
  esac
  if ! has "${needed[@]}"; then
    echo "as_processor: this processor cannot run as $1, it lacks one of: ${needed[*]}"
    exit 77
  fi
  export OPENBLAS_CORETYPE=$1 ATEN_CPU_CAPABILITY=$aten
  export ONEDNN_MAX_CPU_ISA=$onednn DNNL_MAX_CPU_ISA=$onednn
}

if [[ ${1:-} != --all ]]; then
  become "${1:?}"
  shift
  exec "$@"
fi

programs=$(find "${2:?}" -name '*_tests' -type f -perm -u+x | sort)
failed=0
for processor in Nehalem Haswell Zen SkylakeX; do
  (
    become $processor
    # shellcheck disable=SC2016
    xargs -P 2 -I{} bash -c '
      log=$("$1" --gtest_brief=1 2>&1) && tail -n 2 <<<"$log" | tr "\n" " " &&
        echo "$(basename "$1") as $OPENBLAS_CORETYPE" ||
        { echo "$log" | tail -n 60; echo "$1 FAILED as $OPENBLAS_CORETYPE"; exit 1; }
    ' - {} <<<"$programs"
  ) || { [[ $? == 77 ]] || failed=1; }
done
exit $failed
