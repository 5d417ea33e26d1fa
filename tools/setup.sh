#!/usr/bin/env bash
# Installs from Debian what building and testing slift needs and is missing. Safe to run again.
#   tools/setup.sh          libraries and tools for `make demo` and `make test`
#   tools/setup.sh bench    also Python's PyTorch, the peer of bench/
#   tools/setup.sh ci       also clang-tidy, and the clang whose compile commands it reads
# LibTorch takes its GEMM from whatever provides libblas.so.3. OpenBLAS (the OpenMP build, which obeys
# LibTorch's thread count) must stand beside it: the reference BLAS is some 35 times slower.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git clang-format pkg-config
  libtorch-dev libgloo-dev libopenblas0-openmp
  libhdf5-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
  libpng-dev libfftw3-dev libeigen3-dev libgtest-dev libbenchmark-dev libjs-chart.js python3
)
if [[ "${1:-}" == bench ]]; then packages+=(python3-torch python3-numpy); fi
if [[ "${1:-}" == ci ]]; then packages+=(clang clang-tidy libomp-dev); fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ "$state" == "install ok installed" ]] || missing+=("$package")
done

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

if ((${#missing[@]})); then
  if ! command -v apt-get >/dev/null; then
    echo "setup: not a Debian system; install by hand: ${missing[*]}" >&2
    exit 2
  fi
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    echo "setup: root or sudo is needed to install: ${missing[*]}" >&2
    exit 2
  fi
  echo "setup: installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
fi

# Several BLAS packages can be installed side by side; pick the OpenMP OpenBLAS.
arch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
for library in libblas.so.3 liblapack.so.3 libopenblas.so.0; do
  wanted=/usr/lib/$arch/openblas-openmp/$library
  current=$(readlink -f "/etc/alternatives/$library-$arch" 2>/dev/null || true)
  if [[ -e $wanted && "$current" != "$(readlink -f "$wanted")" ]]; then
    as_root update-alternatives --quiet --set "$library-$arch" "$wanted"
  fi
done
