#!/usr/bin/env python3
"""slift's UNet in PyTorch: the rollout and training times that `slift bench` is compared with.

    bench/peers/unet_peer.py --what rollout --mode compile --batch 64
    bench/peers/unet_peer.py --what train --mode eager --size 64 --channels 1 --label-dimension 64

Options and JSON fields are those of `slift bench rollout` and `slift bench train`. bf16 is autocast
over float32 weights in training, and bf16 weights in rollout. All on channels-last memory.
"""
import math
import os
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from common import (GROUPS, LABEL_WIDTH, MEMBERS, STATES, WARMUPS, check_parameters, median_ms,
                    parse_arguments, print_result)


def act(x):
    return F.gelu(x, approximate="tanh")


class Block(nn.Module):
    """shortcut(x) + conv2(act(film(norm2(conv1(act(norm1(x)))))))"""

    def __init__(self, inputs, outputs, conv):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(GROUPS, inputs), conv(inputs, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(GROUPS, outputs), conv(outputs, outputs)
        self.film = nn.Linear(LABEL_WIDTH, 2 * outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, e):
        alpha, beta = self.film(e)[:, :, None, None].chunk(2, 1)
        h = self.conv1(act(self.norm1(x)))
        h = torch.addcmul(beta, self.norm2(h), 1 + alpha)
        return self.shortcut(x) + self.conv2(act(h))


class Unet(nn.Module):
    """window [B, m C, H, W], label [B, d] -> [B, C, H, W]; parameters are named as slift's are."""

    def __init__(self, inputs, outputs, widths, label_dimension, padding):
        super().__init__()

        def conv(cin, cout, stride=1):
            return nn.Conv2d(cin, cout, 3, stride, padding=1, padding_mode=padding)

        self.levels = len(widths)
        self.label1 = nn.Linear(label_dimension, LABEL_WIDTH)
        self.label2 = nn.Linear(LABEL_WIDTH, LABEL_WIDTH)
        self.stem = conv(inputs, widths[0])
        for i, width in enumerate(widths):
            for n in 1, 2:
                self.add_module(f"down{i}_block{n}", Block(width, width, conv))
                self.add_module(f"up{i}_block{n}", Block(2 * width, width, conv))
            if i + 1 < self.levels:
                self.add_module(f"shrink{i}", conv(width, widths[i + 1], stride=2))
                self.add_module(f"grow{i}", conv(widths[i + 1], width))
        self.middle_block1 = Block(widths[-1], widths[-1], conv)
        self.middle_block2 = Block(widths[-1], widths[-1], conv)
        self.smooth = conv(widths[0], widths[0])
        self.merge = Block(2 * widths[0], widths[0], conv)
        self.head_norm, self.head = nn.GroupNorm(GROUPS, widths[0]), conv(widths[0], outputs)

    def forward(self, window, label):
        def part(name):
            return getattr(self, name)

        e = act(self.label2(act(self.label1(label))))
        x = stem = self.stem(window)
        skips = []
        for i in range(self.levels):
            for n in 1, 2:
                x = part(f"down{i}_block{n}")(x, e)
                skips.append(x)
            if i + 1 < self.levels:
                x = part(f"shrink{i}")(x)
        x = self.middle_block2(self.middle_block1(x, e), e)
        for i in reversed(range(self.levels)):
            for n in 1, 2:
                x = part(f"up{i}_block{n}")(torch.cat([x, skips.pop()], 1), e)
            if i > 0:
                x = part(f"grow{i - 1}")(F.interpolate(x, scale_factor=2))
        x = self.merge(torch.cat([self.smooth(x), stem], 1), e)
        return self.head(act(self.head_norm(x)))


def rollout_step(net, options):
    """One step for all members: fresh labels, one evaluation, the window moves on."""
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    net = net.to(dtype).eval()
    if options.mode == "compile":
        net = torch.compile(net, mode="reduce-overhead")
    window = torch.randn(options.batch, options.window, options.channels, options.size,
                         options.size, device=options.device)

    @torch.inference_mode()
    def step():
        nonlocal window
        label = torch.randn(options.batch, options.label_dimension, device=options.device)
        inputs = window.flatten(1, 2).to(dtype).contiguous(memory_format=torch.channels_last)
        output = net(inputs, label.to(dtype)).float()
        next_state = window[:, -1] + 0.01 * output
        window = torch.cat([window[:, 1:], next_state[:, None]], 1)

    return step


class Update:
    """A step of AdamW with clipping, warm-up, cosine schedule and EMA, as slift's training has it."""

    def __init__(self, net):
        self.params = list(net.parameters())
        self.ema = [p.detach().clone() for p in self.params]
        kind = "fused" if self.params[0].is_cuda else "foreach"
        self.optimizer = torch.optim.AdamW(self.params, lr=1e-3, weight_decay=1e-4, **{kind: True})
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda i: min(1, (i + 1) / 200) * 0.5 * (1 + math.cos(math.pi * i / 2**20)))

    def __call__(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimizer.step()
        self.schedule.step()
        with torch.no_grad():
            torch._foreach_mul_(self.ema, 0.999)
            torch._foreach_add_(self.ema, self.params, alpha=0.001)


class Training:
    """slift's training loop: shuffled transitions with fixed labels, AdamW, clipping, EMA."""

    def __init__(self, net, options):
        self.options = options
        device, shape = options.device, (options.channels, options.size, options.size)
        self.states = torch.randn(MEMBERS * STATES, *shape, device=device)
        transitions = MEMBERS * (STATES - options.window)
        self.labels = torch.randn(transitions, options.label_dimension, device=device)
        self.order, self.position = torch.randperm(transitions, device=device), 0
        self.update = Update(net)
        self.net = torch.compile(net) if options.mode == "compile" else net

    def batch(self):
        if self.position + self.options.batch > len(self.order):
            self.order, self.position = torch.randperm(len(self.labels), device=self.order.device), 0
        pick = self.order[self.position:self.position + self.options.batch]
        self.position += self.options.batch
        per_member = STATES - self.options.window
        start = pick // per_member * STATES + pick % per_member
        steps = torch.arange(self.options.window + 1, device=pick.device)
        frames = self.states[start[:, None] + steps]
        window = frames[:, :-1].flatten(1, 2).contiguous(memory_format=torch.channels_last)
        return window, frames[:, -1] - frames[:, -2], self.labels[pick]

    def step(self):
        window, target, label = self.batch()
        with torch.autocast(self.options.device, torch.bfloat16,
                            enabled=self.options.precision == "bf16"):
            output = self.net(window, label)
        loss = F.mse_loss(output.float(), target)
        self.update(loss)
        return loss


def main():
    options = parse_arguments(__doc__, ["eager", "compile"], ["bf16", "tf32", "fp32"])
    torch.manual_seed(0)
    if options.device == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
        wait = torch.cuda.synchronize
    else:
        def wait():
            pass
    start = time.perf_counter()
    shape = (options.window * options.channels, options.channels, options.widths,
             options.label_dimension)
    net = Unet(*shape, options.padding)
    check_parameters(sum(p.numel() for p in net.parameters()), *shape)
    net = net.to(options.device, memory_format=torch.channels_last)
    step = rollout_step(net, options) if options.what == "rollout" else Training(net, options).step
    step()
    wait()
    startup = time.perf_counter() - start
    for _ in range(WARMUPS):
        step()
    ms = median_ms(step, options.count, options.repeats, wait)
    memory = torch.cuda.max_memory_reserved() / 2**20 if options.device == "cuda" else None
    print_result(options, ms, peer=f"PyTorch {torch.__version__} {options.mode}",
                 startup_seconds=startup, peak_memory_mb=memory)


if __name__ == "__main__":
    main()
