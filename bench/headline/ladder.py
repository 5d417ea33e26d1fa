#!/usr/bin/env python3
"""The ladder to the sampling floor: trains arms at equal minutes and prints a line for each.

    bench/headline/ladder.py PROBLEM ARM... --minutes M [--at-once N] [--device cuda] [--final]

With --iterations N in place of --minutes arms are compared at equal iterations, on a machine that
has other work, too.

PROBLEM is wave-tiny or flow-tiny (two CPU cores) or wave or flow (a GPU). An ARM is a name, then
settings: `persistent:lifting.persistent=32,optim.lr=2e-3`. All it makes is in --folder. Data that
are there are used again; an arm that is there is continued, so a ladder can be climbed in pieces:
with --piece S no command takes longer than S seconds, and what is left over is said, to be done by
the same command again.

Every arm is rolled out with three seeds and compared with one half of unseen truths. Arms are
chosen by these; with --final they are judged by another test set and other seeds. Each line has
ratios to the floor, mean over the seeds with the mean of their 95 % intervals.
"""
import argparse
import concurrent.futures
import json
import pathlib
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WAVE_TINY = ["grid=64", "stored_grid=32", "stored=17", "inner_dt=0.016"]
FLOW_TINY = ["grid=32", "crop=0", "store_every=6", "stored=17"]
# System, its settings, training trajectories, members of an ensemble.
PROBLEMS = {"wave-tiny": ("wave", WAVE_TINY, 256, 256), "flow-tiny": ("flow", FLOW_TINY, 256, 256),
            "wave": ("wave", [], 1024, 512), "flow": ("flow", [], 1000, 512)}
TRAIN_SEED, CHOOSING_SEED, FINAL_SEED = 1, 2, 3  # of the simulations
SCORES = {"WIM": ("W2", "mean |x|"), "WCT": ("W2 of crossing times", None),
          "spectrum": ("log10 spectrum", None), "CRPS": ("fair CRPS", "mean |x|"),
          "spread-skill": ("spread-skill ratio", "mean |x|"),
          "CRPS of state": ("fair CRPS", "state")}


class OutOfTime(Exception):
    """The piece is over."""


class Ladder:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder / options.problem
        self.end = time.monotonic() + options.piece if options.piece else None
        self.system, settings, self.trained, self.members = PROBLEMS[options.problem]
        self.settings = [word for s in settings for word in ("--set", s)]

    def slift(self, *arguments, finish_by=None):
        process = subprocess.Popen([self.options.slift, *map(str, arguments), "--json", "--quiet"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            left = None if finish_by is None else max(1, finish_by - time.monotonic())
            output = process.communicate(timeout=left)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # leaves a checkpoint
            process.communicate()
            raise OutOfTime from None
        if process.returncode != 0:
            sys.exit(f"slift {' '.join(map(str, arguments))} failed")
        return json.loads(output)

    def data(self, name, members, seed):
        path = self.folder / f"{name}.h5"
        if not path.exists():
            self.slift("simulate", self.system, *self.settings, "--members", members, "--seed", seed,
                       "--device", self.options.device, "--out", path)
        return path

    def train(self, arm):
        name, _, settings = arm.partition(":")
        run = self.folder / name
        words = [w for s in filter(None, settings.split(",")) for w in ("--set", s)]
        result = self.slift(
            "train", ROOT / "configs" / f"{self.options.problem}.toml", "--device",
            self.options.device, *self.length(), "--resume", "--out", run,
            "--set", f"data.path={self.folder / 'train.h5'}",
            "--set", f"validation.path={self.folder / 'choosing.h5'}",
            "--set", "validation.every=100000000", *words, finish_by=self.end)
        (run / "trained.json").write_text(json.dumps(result))
        return name, run, result

    def length(self):
        if self.options.minutes:
            return ["--minutes", self.options.minutes]
        return ["--minutes", 0, "--set", f"train.iterations={self.options.iterations}"]

    def judge(self, name, run, trained):
        final = self.options.final
        truth = self.folder / ("final.h5" if final else "choosing.h5")
        seeds = (11, 12, 13) if final else (1, 2, 3)
        evaluations = []
        for seed in seeds:
            file = run / f"rollout-{seed}.h5"
            self.slift("rollout", run, "--init", truth, "--members", self.members, "--seed", seed,
                       "--device", self.options.device, "--out", file)
            evaluations.append(self.slift("evaluate", file, "--truth", truth, "--training",
                                          self.folder / "train.h5", "--out",
                                          run / f"evaluation-{seed}.json"))
        config = tomllib.loads((run / "config.toml").read_text())
        visits = trained["iterations"] * config["train"]["batch"] / self.transitions
        line = {"arm": name, "judged": "final" if final else "choosing",
                "minutes": round(trained["seconds"] / 60, 1), "iterations": trained["iterations"],
                "visits": round(visits), "fitted": trained["fitted_ratio"],
                "spread": trained["spread_ratio"], "residuals": trained["residual_correlation"],
                "gauge": trained["gauge"]}
        for key, (metric, score) in SCORES.items():
            line[key] = self.mean_of(evaluations, metric, score)
        near = [e["nearest"] for e in evaluations if "nearest" in e]
        if near:
            line["nearest"] = [mean(n["value"] for n in near), mean(n["floor"] for n in near)]
        return line

    @staticmethod
    def mean_of(evaluations, metric, name):
        found = [s for e in evaluations for s in e["scores"]
                 if s["metric"] == metric and (name is None or s["name"] == name)]
        if not found:
            return None
        key, interval = ("value", "interval") if metric.startswith("spread") else \
            ("ratio", "ratio_interval")
        bounds = [s.get(interval) or [float("nan")] * 2 for s in found]
        return {"mean": mean(s[key] for s in found), "low": mean(b[0] for b in bounds),
                "high": mean(b[1] for b in bounds), "seeds": [round(s[key], 3) for s in found]}

    def climb(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data("train", self.trained, TRAIN_SEED)
        self.data("choosing", 2 * self.members, CHOOSING_SEED)
        self.data("final", 2 * self.members, FINAL_SEED)
        info = self.slift("info", self.folder / "train.h5")
        self.transitions = info["members"] * (info["steps"] - 1)
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            trainings = [pool.submit(self.train, arm) for arm in self.options.arm]
            for arm, training in zip(self.options.arm, trainings):
                try:
                    print(json.dumps(self.judge(*training.result())), flush=True)
                except OutOfTime:
                    print(f"{arm}: to be continued", file=sys.stderr)


def mean(numbers):
    numbers = list(numbers)
    return round(sum(numbers) / len(numbers), 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=PROBLEMS)
    parser.add_argument("arm", nargs="+")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="of training, for each arm")
    length.add_argument("--iterations", type=int)
    parser.add_argument("--at-once", type=int, default=1, help="arms trained at the same time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--final", action="store_true", help="judge by the other test set and seeds")
    parser.add_argument("--piece", type=float, help="stop before so many seconds have passed")
    parser.add_argument("--slift", default=ROOT / "build" / "release" / "slift")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "runs" / "ladder")
    Ladder(parser.parse_args()).climb()


if __name__ == "__main__":
    main()
