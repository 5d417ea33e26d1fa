#!/usr/bin/env bash
# Two builds on one GPU: do they give the same bytes, and is the newer one as fast?
#
#   bench/gpu_against_older.sh SLIFT OLDER_SLIFT [ROUNDS, default 3]
#
# Trains 200 iterations on small waves (bf16, graph) and rolls the older build's model out for 100
# steps in bf16 and fp8, with one folder of tuning choices, and says for each whether the bytes are
# equal. Then times both in alternating rounds: a line for each work, with the medians and the median
# of the rounds' ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
new=$1 old=$2 rounds=${3:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

"$old" simulate wave --set grid=64 --set stored_grid=32 --set stored=17 --set inner_dt=0.016 \
  --members 256 --seed 1 --out "$work/wave.h5" --quiet >"$work/output"

cat >"$work/waves.toml" <<'TOML'
[lifting]
dimension = 16

[net]
kind = "unet"
window = 3
widths = [64, 128]
padding = "circular"
label_width = 64

[train]
batch = 32
checkpoint_every = 500
TOML

train() {  # NAME PROGRAM
  "$2" train "$work/waves.toml" --device cuda --quiet --out "$work/$1" \
    --set "data.path=$work/wave.h5" --set train.precision=bf16 --set train.iterations=200 >"$work/output"
}
train old "$old"
train new "$new"
python3 - "$work"/{old,new}/model.safetensors <<'PYTHON'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    entries = {n: e for n, e in json.loads(data[8:8 + size]).items() if n != "__metadata__"}
    return {n: data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]]
            for n, e in entries.items()}
old, new = map(tensors, sys.argv[1:])
differing = sum(old[n] != new.get(n) for n in old)
print(f"training, 200 iterations: {differing} of {len(old)} tensors differ")
PYTHON
for precision in bf16 fp8; do
  for build in old new; do
    "${!build}" rollout "$work/old" --init "$work/wave.h5" --members 256 --steps 100 --device cuda \
      --quiet --precision $precision --out "$work/$build-$precision.h5" >"$work/output"
  done
  if cmp -s "$work"/{old,new}-$precision.h5; then same="the same bytes"; else same="DIFFERENT"; fi
  echo "rollout of 100 steps, $precision: $same"
done

python3 - "$new" "$old" "$rounds" <<'PYTHON'
import json, statistics, subprocess, sys
new, old, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
rollout = ["rollout", "--device", "cuda", "--size", "128"]
train = ["train", "--device", "cuda", "--size", "64", "--padding", "circular", "--batch", "64"]
WORK = {
    "rollout, batch 66, s a video": (rollout + ["--batch", "66"], "seconds_per_video"),
    "rollout, fp8, batch 64, s a video":
        (rollout + ["--batch", "64", "--precision", "fp8"], "seconds_per_video"),
    "rollout, batch 1, ms a step": (rollout + ["--batch", "1"], "ms_per_step"),
    "training, ms an iteration": (train, "ms_per_iteration"),
    "training, widths 64, 128, 256, ms an iteration":
        (train + ["--widths", "64,128,256"], "ms_per_iteration"),
}
for name, (words, key) in WORK.items():
    times = {new: [], old: []}
    for _ in range(rounds):
        for program in (old, new):
            output = subprocess.run([program, "bench", *words, "--json", "--quiet"], check=True,
                                    capture_output=True, text=True).stdout
            times[program].append(json.loads(output)[key])
    ratio = statistics.median(a / b for a, b in zip(times[new], times[old]))
    print(json.dumps({"work": name, "new": statistics.median(times[new]),
                      "old": statistics.median(times[old]), "ratio": round(ratio, 4)}), flush=True)
PYTHON
