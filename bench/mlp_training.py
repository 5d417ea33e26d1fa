#!/usr/bin/env python3
"""MLP training: slift against the same loop in PyTorch, alternating in one run.

    bench/mlp_training.py build/release/bench/bench_mlp_training

Both train the same network on the same number of Duffing-sized transitions with AdamW, gradient
clipping, warm-up and cosine schedule, EMA and shuffled batches with one fixed label each. Prints a
JSON line per setting; `ratio` is the median of the rounds' slift / PyTorch speeds.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

SETTINGS = [  # width, layers, label dimension, batch, iterations of a round
    (256, 3, 32, 1024, 300),
    (512, 4, 128, 2048, 40),
]
ROUNDS = 5
TRANSITIONS = 1024 * 70


def pytorch_rate(width, layers, label_dimension, batch, timed):
    torch.manual_seed(0)
    states = torch.randn(TRANSITIONS, 2)
    target = torch.randn(TRANSITIONS, 2)
    labels = torch.randn(TRANSITIONS, label_dimension)
    parts, inputs = [], 2 + label_dimension
    for _ in range(layers):
        parts += [torch.nn.Linear(inputs, width), torch.nn.GELU(approximate="tanh")]
        inputs = width
    net = torch.nn.Sequential(*parts, torch.nn.Linear(inputs, 2))
    params = list(net.parameters())
    ema = [p.detach().clone() for p in params]
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 200) * 0.5 * (1 + math.cos(math.pi * i / 2**20)))
    order, position = torch.randperm(TRANSITIONS), 0

    def step():
        nonlocal order, position
        if position + batch > TRANSITIONS:
            order, position = torch.randperm(TRANSITIONS), 0
        pick = order[position:position + batch]
        position += batch
        output = net(torch.cat([states[pick], labels[pick]], 1))
        loss = torch.nn.functional.mse_loss(output, target[pick])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_mul_(ema, 0.999)
            torch._foreach_add_(ema, params, alpha=0.001)
        return loss.item()

    for _ in range(10):
        step()
    start = time.perf_counter()
    for _ in range(timed):
        step()
    return timed / (time.perf_counter() - start)


def slift_rate(program, *setting):
    output = subprocess.run([program, *map(str, setting)], check=True, capture_output=True)
    return json.loads(output.stdout)["iterations_per_second"]


def main():
    # PyTorch guesses from the processor's topology and may leave cores idle; give it what slift has.
    torch.set_num_threads(os.cpu_count())
    for setting in SETTINGS:
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(slift_rate(sys.argv[1], *setting))
            theirs.append(pytorch_rate(*setting))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(json.dumps({
            "bench": "mlp_training",
            "width": setting[0], "layers": setting[1],
            "label_dimension": setting[2], "batch": setting[3],
            "slift_iterations_per_second": round(statistics.median(ours), 2),
            "pytorch_iterations_per_second": round(statistics.median(theirs), 2),
            "pytorch": torch.__version__,
            "threads": torch.get_num_threads(),
            "ratio": round(ratio, 3),
        }), flush=True)


if __name__ == "__main__":
    main()
