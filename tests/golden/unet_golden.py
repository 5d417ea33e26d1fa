#!/usr/bin/env python3
"""Golden values of the UNet, in float64 by NumPy; independent of slift and of LibTorch.

    /usr/bin/python3 tests/golden/unet_golden.py > tests/golden/unet_golden.json

Written from the description of the net alone (src/nets/unet.h). Parameters are numbered k = 1, 2,
... across all of them, in the order in which the code below asks for them, each row-major. With
u(k) = 2 frac(2654435761 k / 2^32) - 1 a weight [out, in, ...] is u sqrt(3 / fan_in), a scale
1 + u / 4, a bias or shift u / 4. Inputs are numbered k = 0, 1, ... across the array: window[k] =
cos(0.3 k), label[k] = sin(0.7 (k + 1)).

Given are every third output, row-major, and derivatives of sum_k cos(0.2 k) output[k]: for each
parameter at one element, and at some elements of the inputs. They come from complex steps, d f(x)
/ dx = Im f(x + ih) / h with h = 1e-30, which are exact to rounding.
"""
import json

import numpy as np

CASES = [
    dict(activation="gelu", padding="zeros", batch=3, window=3, state=[1, 8, 8], label=4,
         widths=[16, 32], label_width=8),
    dict(activation="silu", padding="circular", batch=1, window=1, state=[3, 8, 4], label=2,
         widths=[16, 32], label_width=8),
    dict(activation="gelu", padding="circular", batch=3, window=2, state=[1, 4, 8], label=0,
         widths=[8, 16, 24], label_width=8),
    dict(activation="silu", padding="zeros", batch=1, window=2, state=[2, 3, 5], label=3,
         widths=[8], label_width=5),
]
STEP = 1e-30


def pseudo_random(k):
    return 2 * ((2654435761 * k) % 2**32 / 2**32) - 1


class Parameters:
    """Names, shapes and values in the order of first use; `bumped` = (name, index) has + ih."""

    def __init__(self, bumped=None):
        self.sizes, self.bumped, self.next = {}, bumped, 1

    def get(self, name, shape):
        size = int(np.prod(shape))
        values = pseudo_random(np.arange(self.next, self.next + size, dtype=np.int64))
        self.next += size
        self.sizes[name] = size
        if len(shape) > 1:
            values = values * np.sqrt(3 * shape[0] / size)
        else:
            values = values / 4 + (1 if name.endswith("scale") else 0)
        values = values.astype(complex)
        if self.bumped and self.bumped[0] == name:
            values[self.bumped[1]] += 1j * STEP
        return values.reshape(shape)


class Part:
    """A named part of the net; the layers below take their parameters from it."""

    def __init__(self, params, case, name=""):
        self.params, self.case, self.name = params, case, name

    def __getitem__(self, name):
        return Part(self.params, self.case, self.name + "." + name if self.name else name)

    def get(self, name, shape):
        return self.params.get(self.name + "." + name, shape)


def act(case, x):
    if case["activation"] == "silu":
        return x / (1 + np.exp(-x))
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def linear(part, inputs, outputs):
    weight, bias = part.get("weight", (outputs, inputs)), part.get("bias", (outputs,))
    return lambda x: x @ weight.T + bias


def conv(part, inputs, outputs, kernel=3, stride=1):
    weight = part.get("weight", (outputs, inputs, kernel, kernel))
    bias = part.get("bias", (outputs,))

    def apply(x):
        height, width = x.shape[2:]
        total = 0
        for i in range(kernel):
            for j in range(kernel):
                rows = np.arange(0, height, stride) + i - kernel // 2
                columns = np.arange(0, width, stride) + j - kernel // 2
                seen = x[:, :, rows % height][:, :, :, columns % width]
                if part.case["padding"] == "zeros":
                    inside = ((rows >= 0) & (rows < height))[:, None] & (
                        (columns >= 0) & (columns < width))
                    seen = seen * inside
                total = total + np.einsum("oi,bihw->bohw", weight[:, :, i, j], seen)
        return total + bias[:, None, None]

    return apply


def norm(part, channels):
    scale, shift = part.get("scale", (channels,)), part.get("shift", (channels,))

    def apply(x):
        groups = x.reshape(x.shape[0], 8, -1)
        centred = groups - groups.mean(2, keepdims=True)
        variance = (centred * centred).mean(2, keepdims=True)
        unit = (centred / np.sqrt(variance + 1e-5)).reshape(x.shape)
        return unit * scale[:, None, None] + shift[:, None, None]

    return apply


def block(part, inputs, outputs):
    case = part.case
    norm1 = norm(part["norm1"], inputs)
    conv1 = conv(part["conv1"], inputs, outputs)
    norm2 = norm(part["norm2"], outputs)
    if case["label"]:
        film = linear(part["film"], case["label_width"], 2 * outputs)
    conv2 = conv(part["conv2"], outputs, outputs)
    shortcut = conv(part["shortcut"], inputs, outputs, kernel=1) if inputs != outputs else None

    def apply(x, e):
        h = norm2(conv1(act(case, norm1(x))))
        if case["label"]:
            a, b = np.split(film(e)[:, :, None, None], 2, axis=1)
            h = h * (1 + a) + b
        return conv2(act(case, h)) + (shortcut(x) if shortcut else x)

    return apply


def network(params, case, window, label):
    net, widths, channels = Part(params, case), case["widths"], case["state"][0]
    levels = range(len(widths))
    if case["label"]:
        label1 = linear(net["label1"], case["label"], case["label_width"])
        label2 = linear(net["label2"], case["label_width"], case["label_width"])
    stem = conv(net["stem"], case["window"] * channels, widths[0])
    down, up, shrink, grow = [], [], [], []
    for i in levels:
        for blocks, name, inputs in (down, "down", widths[i]), (up, "up", 2 * widths[i]):
            blocks.append([block(net[f"{name}{i}_block{n}"], inputs, widths[i]) for n in (1, 2)])
        if i + 1 < len(widths):
            shrink.append(conv(net[f"shrink{i}"], widths[i], widths[i + 1], stride=2))
            grow.append(conv(net[f"grow{i}"], widths[i + 1], widths[i]))
    middle = [block(net[f"middle_block{n}"], widths[-1], widths[-1]) for n in (1, 2)]
    smooth = conv(net["smooth"], widths[0], widths[0])
    merge = block(net["merge"], 2 * widths[0], widths[0])
    head_norm = norm(net["head_norm"], widths[0])
    head = conv(net["head"], widths[0], channels)

    e = act(case, label2(act(case, label1(label)))) if case["label"] else None
    first = x = stem(window.reshape(case["batch"], -1, *case["state"][1:]))
    skips = []
    for i in levels:
        for b in down[i]:
            x = b(x, e)
            skips.append(x)
        if i + 1 < len(widths):
            x = shrink[i](x)
    for b in middle:
        x = b(x, e)
    for i in reversed(levels):
        for b in up[i]:
            x = b(np.concatenate([x, skips.pop()], axis=1), e)
        if i > 0:
            x = grow[i - 1](x.repeat(2, axis=2).repeat(2, axis=3))
    x = merge(np.concatenate([smooth(x), first], axis=1), e)
    return head(act(case, head_norm(x)))


def run(case, bumped=None):
    """Parameters and flat output; `bumped` names a parameter or an input, and an element."""
    sizes = {"window": case["batch"] * case["window"] * int(np.prod(case["state"])),
             "label": case["batch"] * case["label"]}
    window = np.cos(0.3 * np.arange(sizes["window"])).astype(complex)
    label = np.sin(0.7 * (np.arange(sizes["label"]) + 1)).astype(complex)
    if bumped and bumped[0] in sizes:
        (window if bumped[0] == "window" else label)[bumped[1]] += 1j * STEP
    params = Parameters(bumped)
    output = network(params, case, window, label.reshape(case["batch"], -1))
    return {**params.sizes, **sizes}, output.ravel()


def main():
    results = []
    for case in CASES:
        sizes, output = run(case)
        picks = [(name, (37 * j + 11) % size) for j, (name, size) in enumerate(sizes.items()) if size]
        picks += [("window", i) for i in range(5, sizes["window"], sizes["window"] // 5)]
        weights = np.cos(0.2 * np.arange(output.size))
        gradients = [{"name": name, "index": index,
                      "value": (weights @ run(case, (name, index))[1]).imag / STEP}
                     for name, index in picks]
        results.append({**case, "output": list(output.real[::3]), "gradients": gradients})
    lines = json.dumps(results).replace("{", "\n{")  # a line per derivative
    print(lines)


if __name__ == "__main__":
    main()
