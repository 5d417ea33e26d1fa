#!/usr/bin/env python3
"""The results of run_all.sh as a Markdown table: `table.py build/bench-results.jsonl`."""
import json
import sys

WHO = {"slift": "slift", "compile": "torch.compile", "eager": "PyTorch eager",
       "flax-bf16": "Flax bf16", "flax-fp32": "Flax fp32"}
WHAT = {"rollout-64": ("rollout 128^2 x 3, batch 64, s per 500-frame video", "seconds_per_video"),
        "rollout-1": ("rollout 128^2 x 3, batch 1, ms per step", "ms_per_step"),
        "train-medium": ("training 64^2, batch 64, ms per iteration", "ms_per_iteration"),
        "train-small": ("the same, widths 64, 128, 256", "ms_per_iteration")}


def cell(results, who, what, field):
    result = results.get(f"{who}-{what}")
    return f"{result[field]:.3g}" if result else ""


def main():
    with open(sys.argv[1]) as file:
        results = {entry["part"]: entry["result"] for entry in map(json.loads, file)}
    ceilings = results.get("ceilings", {}).get("ceilings", {})
    if ceilings:
        print(", ".join(f"{name} {value:.4g}" for name, value in ceilings.items()) + "\n")
    print("| work | " + " | ".join(WHO.values()) + " |")
    print("|---" * (len(WHO) + 1) + "|")
    for what, (title, field) in WHAT.items():
        print(f"| {title} | " + " | ".join(cell(results, who, what, field) for who in WHO) + " |")


if __name__ == "__main__":
    main()
