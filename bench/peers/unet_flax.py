#!/usr/bin/env python3
"""slift's UNet in JAX and Flax: the rollout and training times that `slift bench` is compared with.

    bench/peers/unet_flax.py --what rollout --batch 64
    bench/peers/unet_flax.py --what train --size 64 --channels 1 --label-dimension 64

Options and JSON fields are those of `slift bench`. A rollout is one jitted scan over all steps, a
training iteration one jitted function. bf16 is the type of activations; weights are float32 in
training and bf16 in rollout. fp32 is what XLA makes of it: on NVIDIA GPUs products in TF32.
"""
import functools
import os
import sys
import time
from typing import Any, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from common import (GROUPS, LABEL_WIDTH, MEMBERS, STATES, WARMUPS, check_parameters, median_ms,
                    parse_arguments, print_result)

tree_map = jax.tree_util.tree_map


def act(x):
    return nn.gelu(x, approximate=True)


def conv(outputs, padding, dtype, stride=1):
    border = "CIRCULAR" if padding == "circular" else ((1, 1), (1, 1))
    return nn.Conv(outputs, (3, 3), strides=(stride, stride), padding=border, dtype=dtype)


def norm(dtype):
    return nn.GroupNorm(num_groups=GROUPS, epsilon=1e-5, dtype=dtype)


class Block(nn.Module):
    outputs: int
    padding: str
    dtype: Any

    @nn.compact
    def __call__(self, x, e):
        film = nn.Dense(2 * self.outputs, dtype=self.dtype)(e)[:, None, None, :]
        alpha, beta = jnp.split(film, 2, axis=-1)
        h = conv(self.outputs, self.padding, self.dtype)(act(norm(self.dtype)(x)))
        h = norm(self.dtype)(h) * (1 + alpha) + beta
        h = conv(self.outputs, self.padding, self.dtype)(act(h))
        if x.shape[-1] != self.outputs:
            x = nn.Conv(self.outputs, (1, 1), dtype=self.dtype)(x)
        return x + h


class Unet(nn.Module):
    """window [B, H, W, m C], label [B, d] -> [B, H, W, C]"""
    outputs: int
    widths: Sequence[int]
    padding: str
    dtype: Any

    @nn.compact
    def __call__(self, window, label):
        def convolution(x, outputs, stride=1):
            return conv(outputs, self.padding, self.dtype, stride)(x)

        def block(x, width):
            return Block(width, self.padding, self.dtype)(x, e)

        def doubled(x):
            return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)

        e = label.astype(self.dtype)
        for _ in range(2):
            e = act(nn.Dense(LABEL_WIDTH, dtype=self.dtype)(e))
        x = stem = convolution(window.astype(self.dtype), self.widths[0])
        skips = []
        for i, width in enumerate(self.widths):
            for _ in range(2):
                x = block(x, width)
                skips.append(x)
            if i + 1 < len(self.widths):
                x = convolution(x, self.widths[i + 1], stride=2)
        for _ in range(2):
            x = block(x, self.widths[-1])
        for i in reversed(range(len(self.widths))):
            for _ in range(2):
                x = block(jnp.concatenate([x, skips.pop()], -1), self.widths[i])
            if i > 0:
                x = convolution(doubled(x), self.widths[i - 1])
        x = convolution(x, self.widths[0])
        x = block(jnp.concatenate([x, stem], -1), self.widths[0])
        return convolution(act(norm(self.dtype)(x)), self.outputs)


def bench_rollout(net, params, options):
    """Milliseconds per step, and seconds until the first scan has run."""
    params = tree_map(lambda p: p.astype(net.dtype), params)
    channels = options.channels
    window = jax.random.normal(
        jax.random.PRNGKey(1),
        (options.batch, options.size, options.size, options.window * channels))

    @jax.jit
    def roll_out(weights, first_window, first_key):
        def step(carry, _):
            states, key = carry
            key, drawn = jax.random.split(key)
            label = jax.random.normal(drawn, (options.batch, options.label_dimension))
            output = net.apply(weights, states, label).astype(jnp.float32)
            next_state = states[..., -channels:] + 0.01 * output
            return (jnp.concatenate([states[..., channels:], next_state], -1), key), None

        carry, _ = jax.lax.scan(step, (first_window, first_key), None, length=options.count)
        return carry

    carry = window, jax.random.PRNGKey(2)

    def run():
        nonlocal carry
        carry = roll_out(params, *carry)

    start = time.perf_counter()
    run()
    jax.block_until_ready(carry)
    startup = time.perf_counter() - start
    ms = median_ms(run, 1, options.repeats, lambda: jax.block_until_ready(carry))
    return ms / options.count, startup


def global_norm(tree):
    return jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree_util.tree_leaves(tree)))


def adamw(state, grads):
    """One step with clipping, warm-up, cosine schedule and EMA, as in slift's training loop."""
    step = state["step"] + 1
    scale = jnp.minimum(1.0, 1.0 / (global_norm(grads) + 1e-6))
    rate = 1e-3 * jnp.minimum(1.0, step / 200) * 0.5 * (1 + jnp.cos(jnp.pi * step / 2**20))
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * scale * g, state["first"], grads)
    second = tree_map(lambda v, g: 0.999 * v + 0.001 * jnp.square(scale * g), state["second"],
                      grads)
    unbias1, unbias2 = 1 - 0.9**step, 1 - 0.999**step
    params = tree_map(
        lambda p, m, v: p * (1 - rate * 1e-4)
        - rate * (m / unbias1) / (jnp.sqrt(v / unbias2) + 1e-8),
        state["params"], first, second)
    ema = tree_map(lambda a, p: 0.999 * a + 0.001 * p, state["ema"], params)
    return {"params": params, "first": first, "second": second, "ema": ema, "step": step}


def bench_training(net, params, options):
    """Milliseconds per iteration, and seconds until the first one is done."""
    keys = jax.random.split(jax.random.PRNGKey(1), 2)
    per_member = STATES - options.window
    states = jax.random.normal(
        keys[0], (MEMBERS * STATES, options.size, options.size, options.channels))
    labels = jax.random.normal(keys[1], (MEMBERS * per_member, options.label_dimension))
    zeros = functools.partial(tree_map, jnp.zeros_like)
    state = {"params": params, "first": zeros(params), "second": zeros(params),
             "ema": tree_map(jnp.copy, params), "step": jnp.zeros((), jnp.float32)}

    @functools.partial(jax.jit, donate_argnums=0)
    def train_step(before, trajectories, all_labels, pick):
        start = pick // per_member * STATES + pick % per_member
        frames = trajectories[start[:, None] + jnp.arange(options.window + 1)]
        window = jnp.moveaxis(frames[:, :-1], 1, 3)
        window = window.reshape(window.shape[:3] + (-1,))
        target = frames[:, -1] - frames[:, -2]

        def loss_of(weights):
            output = net.apply(weights, window, all_labels[pick]).astype(jnp.float32)
            return jnp.mean(jnp.square(output - target))

        loss, grads = jax.value_and_grad(loss_of)(before["params"])
        return adamw(before, grads), loss

    order, position = np.random.default_rng(0).permutation(MEMBERS * per_member), 0

    def step():
        nonlocal state, position
        if position + options.batch > len(order):
            position = 0
        pick = order[position:position + options.batch]
        position += options.batch
        state, _ = train_step(state, states, labels, pick)

    def wait():
        jax.block_until_ready(state)

    start = time.perf_counter()
    step()
    wait()
    startup = time.perf_counter() - start
    for _ in range(WARMUPS):
        step()
    return median_ms(step, options.count, options.repeats, wait), startup


def main():
    options = parse_arguments(__doc__, [], ["bf16", "fp32"])
    if options.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    dtype = jnp.bfloat16 if options.precision == "bf16" else jnp.float32
    net = Unet(options.channels, tuple(options.widths), options.padding, dtype)
    inputs = options.window * options.channels
    params = jax.jit(net.init)(
        jax.random.PRNGKey(0), jnp.zeros((1, options.size, options.size, inputs)),
        jnp.zeros((1, options.label_dimension)))
    count = sum(p.size for p in jax.tree_util.tree_leaves(params))
    check_parameters(count, inputs, options.channels, options.widths, options.label_dimension)
    bench = bench_rollout if options.what == "rollout" else bench_training
    ms, startup = bench(net, params, options)
    memory = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    print_result(options, ms, peer=f"JAX {jax.__version__} (Flax)", startup_seconds=startup,
                 peak_memory_mb=memory / 2**20 if memory else None)


if __name__ == "__main__":
    main()
