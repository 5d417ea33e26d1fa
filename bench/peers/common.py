"""What the peers share: options and JSON fields, which are those of `slift bench`, and the clock."""
import argparse
import json
import statistics
import time

LABEL_WIDTH, GROUPS = 512, 8
FRAMES_PER_VIDEO = 500
MEMBERS, STATES = 32, 17  # of the training data
WARMUPS = 5

# (window x channels, channels, widths, label dimension) -> parameters of slift's network.
PARAMETERS = {
    (3, 1, (128, 256, 512), 64): 50_546_433,
    (9, 3, (128, 256, 512), 256): 50_653_955,
    (3, 1, (64, 128, 256), 64): 14_083_457,
    (3, 1, (32, 64, 128), 64): 4_355_265,
}


def check_parameters(count, inputs, outputs, widths, label_dimension):
    known = PARAMETERS.get((inputs, outputs, tuple(widths), label_dimension), count)
    if count != known:
        raise SystemExit(f"the peer has {count} parameters, slift's network {known}")


def parse_arguments(description, modes, precisions):
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--what", choices=["rollout", "train"], default="rollout")
    if modes:
        add("--mode", choices=modes, default=modes[0])
    add("--precision", choices=precisions, default="bf16")
    add("--device", choices=["cpu", "cuda"], default="cuda")
    add("--size", type=int, default=128)
    add("--channels", type=int, default=3)
    add("--widths", type=lambda text: [int(w) for w in text.split(",")], default=[128, 256, 512])
    add("--window", type=int, default=3)
    add("--label-dimension", type=int, default=256)
    add("--padding", choices=["zeros", "circular"], default="zeros")
    add("--batch", type=int, default=64)
    add("--count", type=int, default=20, help="steps or iterations timed together")
    add("--repeats", type=int, default=5)
    return parser.parse_args()


def median_ms(step, count, repeats, wait):
    """Milliseconds of one of `count` calls in a row, between moments at which nothing is to do."""
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        times.append(1000 * (time.perf_counter() - start) / count)
    return statistics.median(times)


def print_result(options, ms, **others):
    fields = {name: getattr(options, name) for name in (
        "what", "precision", "size", "channels", "widths", "window", "label_dimension", "padding",
        "batch")}
    if options.what == "rollout":
        fields["ms_per_step"] = ms
        fields["seconds_per_video"] = ms * FRAMES_PER_VIDEO / options.batch / 1000
    else:
        fields["ms_per_iteration"] = ms
    print(json.dumps({**fields, **others}), flush=True)
