#!/usr/bin/env python3
"""How slift holds beside other work: training, rollout and evaluation beside busy processes.

    bench/busy_machine.py build/release/slift [OLDER_SLIFT]

In each round every program does each kind of work on a quiet machine, beside one busy process less
than there are cores and beside as many as there are cores. `share` is the rate beside them over the
quiet rate of the same round, `against_older` the quiet rate over that of the older program in the
same round; both are medians over the rounds. Prints a JSON line for each program and kind of work.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
CORES = len(os.sched_getaffinity(0))
BESIDE = (0, max(1, CORES - 1), max(2, CORES))
SECONDS = 9
CONFIG = pathlib.Path(__file__).resolve().parent.parent / "configs" / "duffing-small.toml"


def slift(program, *arguments):
    result = subprocess.run([program, *map(str, arguments), "--json", "--quiet"],
                            stdout=subprocess.PIPE, text=True)  # errors go to the terminal
    if result.returncode != 0:
        sys.exit(f"{program} {arguments[0]} failed")
    return json.loads(result.stdout)


def train(program, folder):
    result = slift(program, "train", CONFIG, "--data", folder / "train.h5", "--out", folder / "run",
                   "--minutes", SECONDS / 60, "--overwrite")
    return result["iterations"] / result["seconds"]


def seconds_of(program, *arguments):
    start = time.perf_counter()
    slift(program, *arguments)
    return time.perf_counter() - start


def rollout(program, folder):
    return 1 / seconds_of(program, "rollout", folder / "model.safetensors", "--init",
                          folder / "test.h5", "--members", 30000, "--out", folder / "many.h5")


def evaluate(program, folder):
    return 1 / seconds_of(program, "evaluate", folder / "few.h5", "--truth", folder / "test.h5",
                          "--out", folder / "evaluation.json")


WORK = {"train": train, "rollout": rollout, "evaluate": evaluate}


def rate_beside(processes, work, program, folder):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        return work(program, folder)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main():
    programs = sys.argv[1:]
    if len(programs) not in (1, 2):
        sys.exit(__doc__)
    rates = {(p, name, n): [] for p in programs for name in WORK for n in BESIDE}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        slift(programs[0], "simulate", "duffing", "--members", 1024, "--seed", 1, "--out",
              folder / "train.h5")
        slift(programs[0], "simulate", "duffing", "--members", 8192, "--seed", 2, "--out",
              folder / "test.h5")
        # By the older program: a newer one reads its model, not the other way round.
        train(programs[-1], folder)
        (folder / "run" / "model.safetensors").rename(folder / "model.safetensors")
        slift(programs[-1], "rollout", folder / "model.safetensors", "--init", folder / "test.h5",
              "--members", 4096, "--out", folder / "few.h5")
        for _ in range(ROUNDS):
            for work in WORK:
                for n in BESIDE:
                    for program in programs:
                        rates[program, work, n].append(
                            rate_beside(n, WORK[work], program, folder))
    for program in programs:
        for work in WORK:
            quiet = rates[program, work, 0]
            line = {"bench": "busy_machine", "program": program, "work": work, "cores": CORES,
                    "quiet_rate": round(statistics.median(quiet), 3)}
            line["share"] = {str(n): round(statistics.median(
                busy / alone for busy, alone in zip(rates[program, work, n], quiet)), 3)
                for n in BESIDE[1:]}
            if len(programs) == 2:
                line["against_older"] = round(statistics.median(
                    a / b for a, b in zip(quiet, rates[programs[1], work, 0])), 3)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
