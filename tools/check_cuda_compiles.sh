#!/usr/bin/env bash
# Compiles what needs CUDA, on a machine without a GPU: the kernels, and the C++ that is there with
# CUDA alone. Says what it left out where there is no CUDA compiler or no cuDNN.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v nvcc >/dev/null; then
  echo "nvcc: not on this machine, what needs CUDA was not compiled"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Four sources at a time, as the preset `cuda` joins them.
for folder in src/*/cuda; do
  printf '#include "%s"\n' "$folder"/*.cu | split -l 4 --additional-suffix .cu - \
    "$work/$(basename "$(dirname "$folder")")-"
done
printf '%s\n' "$work"/*.cu | xargs -P 2 -I{} sh -c \
  'nvcc -std=c++20 -gencode arch=compute_90a,code=sm_90a -I. -Isrc -Werror all-warnings -c {} -o /dev/null && cat {}'

# LibTorch for the CPU has its CUDA headers but the one that says how it was built. nvcc may be a
# script elsewhere: it knows best where its toolkit is.
mkdir -p "$work/c10/cuda/impl"
touch "$work/c10/cuda/impl/cuda_cmake_macros.h"
toolkit=$(nvcc --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
read_only=(g++ -std=c++20 -fsyntax-only -isystem "$work" -isystem "$toolkit/include"
  -isystem /usr/include/torch/csrc/api/include)
printf '#include <%s>\n' ATen/cuda/CUDAContext.h cudnn_graph.h >"$work/headers.cc"
if ! "${read_only[@]}" "$work/headers.cc" 2>"$work/missing"; then
  head -n 3 "$work/missing"
  echo "headers of CUDA's libraries: not all on this machine, the C++ that needs them was not read"
  exit
fi
{ grep -rl SLIFT_WITH_CUD src --include '*.cc'; ls src/*/cuda/*.cc; } | sort -u >"$work/sources"
xargs -P 2 -n 1 "${read_only[@]}" -fopenmp -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion \
  -Werror -DSLIFT_WITH_CUDA -DSLIFT_WITH_CUDNN '-DSLIFT_VERSION=""' -Isrc \
  -isystem /usr/include/eigen3 -isystem /usr/include/hdf5/serial <"$work/sources"
echo "C++ that needs CUDA: $(wc -l <"$work/sources") files read"
