#!/usr/bin/env python3
"""UNet training: slift against the same loop in PyTorch, alternating in one run.

    bench/unet_training.py build/release/bench/bench_unet_training

Both train the net of configs/wave-small.toml on fields of 32 x 32 points with AdamW, gradient
clipping, warm-up and cosine schedule, EMA and shuffled batches with one fixed label each. First the
peer takes slift's weights and must give slift's output. It runs in both memory formats. Prints a JSON
line; `ratio` is the median of the rounds' slift / PyTorch speeds, in the format that is faster.
"""
import json
import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

from peers.common import check_parameters
from peers.unet_peer import Unet, Update

WIDTHS, LABEL, WINDOW, SIZE = [32, 64, 128], 64, 3, 32
BATCH, ITERATIONS, ROUNDS = 16, 15, 5
MEMBERS, STEPS = 256, 17
SHAPE = (WINDOW, 1, WIDTHS, LABEL)


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        content = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(content, dtype=torch.float32, offset=entry["data_offsets"][0],
                                   count=math.prod(entry["shape"])).view(entry["shape"])
            for name, entry in header.items()}


def check_same_function(program):
    """Largest difference of the nets' outputs for the same weights; fails if it is not small."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.safetensors")
        subprocess.run([program, str(BATCH), "1", path], check=True, capture_output=True)
        sample = read_safetensors(path)
    window, label, output = (sample.pop(name) for name in ("window", "label", "output"))
    net = Unet(*SHAPE, "circular")
    net.load_state_dict({name.replace("scale", "weight").replace("shift", "bias"): value
                         for name, value in sample.items()})
    check_parameters(sum(p.numel() for p in net.parameters()), *SHAPE)
    with torch.no_grad():
        difference = (net(window.flatten(1, 2), label) - output).abs().max().item()
    if difference > 1e-4:
        raise SystemExit(f"the peer computes another function: difference {difference}")
    return difference


class Peer:
    def __init__(self, memory_format):
        torch.manual_seed(0)
        self.memory_format = memory_format
        self.states = torch.randn(MEMBERS, STEPS, SIZE, SIZE)
        self.labels = torch.randn(MEMBERS * (STEPS - WINDOW), LABEL)
        self.net = Unet(*SHAPE, "circular").to(memory_format=memory_format)
        self.update = Update(self.net)
        self.order, self.position = torch.randperm(len(self.labels)), 0
        self.rate(3)

    def step(self):
        if self.position + BATCH > len(self.order):
            self.order, self.position = torch.randperm(len(self.labels)), 0
        pick = self.order[self.position:self.position + BATCH]
        self.position += BATCH
        member, first = pick // (STEPS - WINDOW), pick % (STEPS - WINDOW)
        frames = self.states[member[:, None], first[:, None] + torch.arange(WINDOW + 1)]
        window = frames[:, :WINDOW].contiguous(memory_format=self.memory_format)
        target = frames[:, WINDOW:] - frames[:, WINDOW - 1:WINDOW]
        loss = F.mse_loss(self.net(window, self.labels[pick]), target)
        self.update(loss)
        return loss.item()

    def rate(self, iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            self.step()
        return iterations / (time.perf_counter() - start)


def slift_rate(program):
    output = subprocess.run([program, str(BATCH), str(ITERATIONS)], check=True, capture_output=True)
    return json.loads(output.stdout)["iterations_per_second"]


def main():
    # PyTorch guesses from the processor's topology and may leave cores idle: both get all.
    torch.set_num_threads(os.cpu_count())
    difference = check_same_function(sys.argv[1])
    peers = {"contiguous": Peer(torch.contiguous_format),
             "channels_last": Peer(torch.channels_last)}
    ours, rates = [], {name: [] for name in peers}
    for _ in range(ROUNDS):
        ours.append(slift_rate(sys.argv[1]))
        for name, peer in peers.items():
            rates[name].append(peer.rate(ITERATIONS))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    fastest = max(medians, key=medians.get)
    print(json.dumps({
        "bench": "unet_training",
        "widths": WIDTHS, "size": SIZE, "label_dimension": LABEL, "batch": BATCH,
        "output_difference": difference,
        "slift_iterations_per_second": round(statistics.median(ours), 2),
        "pytorch_iterations_per_second": {name: round(m, 2) for name, m in medians.items()},
        "pytorch": torch.__version__,
        "threads": torch.get_num_threads(),
        "ratio": round(statistics.median(a / b for a, b in zip(ours, rates[fastest])), 3),
    }), flush=True)


if __name__ == "__main__":
    main()
