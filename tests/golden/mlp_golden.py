#!/usr/bin/env python3
"""Golden values of the MLP, in float64 by plain loops; independent of slift and of LibTorch.

    /usr/bin/python3 tests/golden/mlp_golden.py > tests/golden/mlp_golden.h

A net with states of 3 components, window 2, label dimension 2, two hidden layers of 5 units. Its
parameters, in the order weight0, bias0, weight1, bias1, weight2, bias2, each row-major [out, in],
are numbered k = 1, 2, ... across all of them and have the value sin(k). The inputs are numbered
k = 0, 1, ... across the array: window[k] = cos(0.3 k) of [2, 2, 3], label[k] = sin(0.7 (k + 1)) of
[2, 2]. The network's input is the window, oldest state first, then the label.
"""
import math

BATCH, WINDOW, STATE, LABEL, WIDTH, LAYERS = 2, 2, 3, 2, 5, 2


def gelu(x):  # tanh form
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + math.exp(-x))


def network(x, activation):
    k = 0
    for layer in range(LAYERS + 1):
        outputs = WIDTH if layer < LAYERS else STATE
        weight = [[math.sin(k + o * len(x) + i + 1) for i in range(len(x))] for o in range(outputs)]
        k += outputs * len(x)
        bias = [math.sin(k + o + 1) for o in range(outputs)]
        k += outputs
        x = [b + sum(w * v for w, v in zip(row, x)) for row, b in zip(weight, bias)]
        if layer < LAYERS:
            x = [activation(v) for v in x]
    return x


def main():
    print("// Float64 outputs [batch, state] of a small MLP; what it is stands in mlp_golden.py.")
    print("// Generated: /usr/bin/python3 tests/golden/mlp_golden.py > tests/golden/mlp_golden.h")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace slift::golden {\n")
    for name, value in [("Batch", BATCH), ("Window", WINDOW), ("State", STATE), ("Label", LABEL),
                        ("Width", WIDTH), ("Layers", LAYERS)]:
        print(f"inline constexpr std::int64_t kMlp{name} = {value};")
    size = WINDOW * STATE
    for name, activation in [("Gelu", gelu), ("Silu", silu)]:
        print(f"inline constexpr double kMlp{name}[{BATCH}][{STATE}] = {{")
        for b in range(BATCH):
            window = [math.cos(0.3 * (b * size + i)) for i in range(size)]
            label = [math.sin(0.7 * (b * LABEL + i + 1)) for i in range(LABEL)]
            values = ", ".join(repr(v) for v in network(window + label, activation))
            print(f"    {{{values}}},")
        print("};")
    print("\n}  // namespace slift::golden")


if __name__ == "__main__":
    main()
