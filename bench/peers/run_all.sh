#!/usr/bin/env bash
# Runs `slift bench` and its peers one after the other on one GPU and prints a Markdown table.
#
#   bench/peers/run_all.sh [--slift PROGRAM] [--python PROGRAM] [--only REGEX] [--keep]
#                          [--limit SECONDS]
#
# --only picks parts by name, such as slift, rollout-64, train, 'flax-bf16|ceilings'; --list names
# them all. --keep adds to the results of earlier calls, which should be of the same machine. A part
# that takes longer than the limit (300 s, of which torch.compile needs 200 for training) is
# stopped; one that fails says so on standard error and leaves its cell empty. The JSON of every
# part goes to build/bench-results.jsonl.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
slift=build/cuda/slift python=python3 only=. limit=300 list=no keep=no results=build/bench-results.jsonl
while (($#)); do
  case $1 in
    --slift) slift=$2; shift 2 ;;
    --python) python=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    --list) list=yes; shift ;;
    *) echo "run_all.sh: unknown option $1" >&2; exit 2 ;;
  esac
done

# part NAME COMMAND...: runs the command if the part is wanted, keeps its last line, which is JSON.
part() {
  local name=$1 line
  shift
  grep -qE -- "$only" <<<"$name" || return 0
  if [[ $list == yes ]]; then echo "$name"; return; fi
  echo "running $name" >&2
  if line=$(timeout "$limit" "$@" | tail -n 1) && [[ $line == "{"* ]]; then
    echo "{\"part\": \"$name\", \"result\": $line}" >>"$results"
  else
    echo "run_all.sh: $name failed or took more than $limit s" >&2
  fi
}

# all_of WORK NAME NET...: one part for slift and one for each peer.
all_of() {
  local work=$1 name=$2 count=--steps
  shift 2
  [[ $work == train ]] && count=--iterations
  part "slift-$name" "$slift" bench "$work" --device cuda --json "$count" 20 "$@"
  for mode in eager compile; do
    part "$mode-$name" "$python" "$here/unet_peer.py" --what "$work" --mode $mode "$@"
  done
  for precision in bf16 fp32; do
    part "flax-$precision-$name" "$python" "$here/unet_flax.py" --what "$work" \
      --precision $precision "$@"
  done
}

[[ $list == yes ]] || mkdir -p "$(dirname "$results")"
[[ $list == yes || $keep == yes ]] || : >"$results"
wave=(--size 64 --channels 1 --label-dimension 64 --batch 64)
part ceilings "$slift" bench kernels --device cuda --json
all_of rollout rollout-64 --batch 64
all_of rollout rollout-1 --batch 1
all_of train train-medium "${wave[@]}"
all_of train train-small "${wave[@]}" --widths 64,128,256
[[ $list == yes ]] || "$python" "$here/table.py" "$results"
