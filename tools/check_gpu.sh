#!/usr/bin/env bash
# What only a machine with a GPU can show, after tools/build_cuda.sh. About half an hour; prints a
# line per check and fails if one does.
#
#   tools/check_gpu.sh [PART ...]
#
#   tests       all unit tests, those of CUDA included
#   memcheck    the kernels' tests under compute-sanitizer's memcheck
#   racecheck   and under its racecheck (tools/sanitize_kernels.sh: both after `tests`)
#   repeat      training and rollout twice with one seed, training also twice at the same time with
#               nothing tuned before: the same bytes
#   graph       500 steps of rollout as a CUDA graph and call by call: the same bytes
#   loss        2000 iterations as a graph against fp32 call by call: losses within 5 %, in fp32 as
#               means of 50 iterations, in bf16 of 200
#   precision   500 steps in bf16 and fp8 beside fp32: a table of what slift compare says, no check
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/cuda
slift=$build/slift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
parts=${*:-tests memcheck racecheck repeat graph loss precision}

wanted() { [[ " $parts " == *" $1 "* ]]; }

# report WHAT COMMAND...: runs the command, whose output is shown if it fails.
report() {
  local what=$1
  shift
  if "$@" >"$work/output" 2>&1; then
    echo "passed: $what"
  else
    tail -n 40 "$work/output"
    echo "FAILED: $what"
    failed=1
  fi
}

waves() {
  [[ -f $work/wave.h5 ]] && return
  $slift simulate wave --set grid=64 --set stored_grid=32 --set stored=17 --set inner_dt=0.016 \
    --members 256 --seed 1 --out "$work/wave.h5" --quiet >"$work/output"
}

# train NAME SETTING...: configs/wave-tiny.toml on these waves, with widths that all kernels take.
train() {
  local name=$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  $slift train configs/wave-tiny.toml --device cuda --quiet --out "$work/$name" \
    --set "data.path=$work/wave.h5" --set validation.every=0 --set net.widths=[64,128] --set score.from=1 \
    "${settings[@]}"
}

# roll MODEL OUT PRECISION OPTION...
roll() {
  $slift rollout "$work/$1" --init "$work/wave.h5" --members 256 --device cuda --quiet \
    --out "$work/$2" --precision "$3" "${@:4}"
}

# Configs name their own run: the weights alone must agree.
equal_weights() {
  python3 - "$work/$1/model.safetensors" "$work/$2/model.safetensors" <<'PYTHON'
import struct, sys
def weights(path):
    data = open(path, "rb").read()
    return data[8 + struct.unpack("<Q", data[:8])[0]:]
sys.exit(weights(sys.argv[1]) != weights(sys.argv[2]))
PYTHON
}

# close_losses ONE OTHER N: of runs, as means of N lines of metrics.jsonl, each a mean itself. By how
# much they differ at most is left in the file `apart`.
close_losses() {
  python3 - "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" "$3" <<'PYTHON' | tee "$work/apart"
import json, sys
*paths, together = sys.argv[1:]
def means(path):
    lines = [json.loads(line)["loss"] for line in open(path)]
    n = int(together)
    return [sum(lines[i:i + n]) / n for i in range(0, len(lines), n)]
apart = [abs(x / y - 1) for x, y in zip(*map(means, paths), strict=True)]
worst = max(apart)
print(f"largest relative difference {worst:.4f}, in mean {apart.index(worst)} of {len(apart)}")
sys.exit(worst > 0.05)
PYTHON
}

if wanted tests; then
  for program in "$build"/src/*/*_tests; do
    report "$(basename "$program")" "$program" --gtest_brief=1
  done
fi

for tool in memcheck racecheck; do
  if wanted $tool; then report "kernels under $tool" tools/sanitize_kernels.sh $tool; fi
done

if wanted repeat || wanted graph; then
  waves
  report "training" train first train.precision=bf16 train.iterations=200
fi

if wanted repeat; then
  report "the same training again" train second train.precision=bf16 train.iterations=200
  report "equal weights" equal_weights first second
  train_both() {
    local XDG_CACHE_HOME=$work/cache
    export XDG_CACHE_HOME
    train third train.precision=bf16 train.iterations=200 &
    train fourth train.precision=bf16 train.iterations=200 && wait $!
  }
  report "two trainings at the same time" train_both
  report "equal weights of these" equal_weights third fourth
  report "rollout" roll first a.h5 bf16 --steps 100
  report "the same rollout again" roll first b.h5 bf16 --steps 100
  report "equal rollouts" cmp "$work/a.h5" "$work/b.h5"
fi

if wanted graph; then
  report "rollout as a graph, checked" roll first graph.h5 bf16 --steps 500 --check
  report "rollout call by call" roll first calls.h5 bf16 --steps 500 --no-graph
  report "equal rollouts of 500 steps" cmp "$work/graph.h5" "$work/calls.h5"
fi

if wanted loss; then
  waves
  report "bf16 as a graph" train graph train.precision=bf16 train.iterations=2000
  report "fp32 call by call" train calls train.precision=fp32 train.graph=false \
    train.iterations=2000
  report "fp32 as a graph" train graph32 train.precision=fp32 train.iterations=2000
  report "losses of fp32 within 5 %" close_losses graph32 calls 1
  cat "$work/apart"
  report "losses of bf16 within 5 %" close_losses graph calls 4
  cat "$work/apart"
fi

if wanted precision; then
  waves
  [[ -d $work/graph ]] || report "training" train graph train.precision=bf16 train.iterations=2000
  long=(--steps 500 --every 10)
  report "truth: fp32, other labels" roll graph truth.h5 fp32 "${long[@]}" --seed 1
  for precision in fp32 bf16 fp8; do
    report "$precision" roll graph "$precision.h5" "$precision" "${long[@]}"
  done
  $slift compare "$work"/{fp32,bf16,fp8}.h5 --truth "$work/truth.h5" --out "$work/compare" \
    --quiet || failed=1
fi
exit $failed
