#!/usr/bin/env bash
# Builds slift with CUDA against the LibTorch of the installed PyTorch, in build/cuda.
# Uses .bundle (tools/bundle.sh) for what the machine lacks, if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
bundle=()
[[ -d .bundle ]] && bundle=(-DSLIFT_BUNDLE="$PWD/.bundle")
cmake --preset cuda -DCMAKE_PREFIX_PATH="$torch" "${bundle[@]}" "$@"
cmake --build build/cuda -j "$(nproc)"
