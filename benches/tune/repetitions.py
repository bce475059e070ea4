"""Does `tune` find what matters, and say so where nothing does? Repetitions on emulated devices.

    sudo python benches/tune/repetitions.py injected --repetitions 5
    sudo python benches/tune/repetitions.py null --repetitions 20

The device takes 12 ms for every request, one at a time, so that a busy host disturbs it little.

* injected: a new process that reads beside a writer, under mq-deadline. The kernel serves up to
  `fifo_batch` writes before it looks at reads again; with its 16 the reader waits several times as
  long as with 1. A repetition is right if the fresh verdict confirms that a setting with a smaller
  `fifo_batch` is better than the kernel's default.
* null: one process with one direct read in flight. Nothing waits, so no tunable can matter. A
  repetition is right if no setting is recommended, and the sentence says by how much one may be
  better at most.

All tunables of mq-deadline are searched in `null`, those named below in `injected`. Every
repetition has a seed of its own, and `--wrapper` is a command that is put before each, such as a
lock. Prints a table; RESULTS.md holds what it showed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from schedlab.app.compare.comparison import Place, comparison
from schedlab.app.tune import tune
from schedlab.app.tune import view as tune_view
from schedlab.app.tune.question import TuneOptions, question_of
from schedlab.design.io_families import Load
from schedlab.nouns import Experiment, Workload
from schedlab.run.admitted import Permission

DEVICE = "model = 'fixed'\nservice = '12ms'\nservers = 1\nsize = '16m'\n"
SIZE_BYTES = 16 << 20
SCHEDULER, BATCH_USUAL = "mq-deadline", 16
BUDGET_S = {"injected": 180.0, "null": 36.0}
TUNABLES = {"injected": ("fifo_batch", "writes_starved", "write_expire"), "null": ()}
WORKLOADS = {
    "injected": Workload(
        "newcomer",
        "newcomer",
        "newcomer_latency_ns_mean",
        parameters={
            "requests": 5, "writers": 1, "writer_depth": 40, "writer_record_bytes": 4096,
            "lead_seconds": 0.3, "limit_seconds": 20.0,
        },
    ),
    "null": Workload(
        "one process",
        "file-test",
        "throughput_bytes_per_s",
        parameters={"test": "random-read", "record_bytes": 4096, "seconds": 0.5},
    ),
}  # fmt: skip


def search(what: str, seed: int, out: Path) -> dict[str, Any]:
    """One search with its fresh verdict, as `schedlab tune --json` prints it."""
    model = out.parent / "device.toml"
    model.write_text(DEVICE)
    place = Place(scratch_bytes=SIZE_BYTES, model=str(model), queue_depth=1)

    def make(default: str) -> Experiment:
        experiment = comparison(
            place, Load(), families=("one-process",), schedulers=default, aa_arm=False, seed=seed
        )
        return Experiment(**{**vars(experiment), "workloads": (WORKLOADS[what],)})

    options = TuneOptions(
        schedulers=SCHEDULER,
        minimise="newcomer_latency_ns_mean" if what == "injected" else None,
        budget_s=BUDGET_S[what],
        tunables=TUNABLES[what],
    )
    base, asked = question_of(place, make, options)
    tuning, admitted = tune.start(base, asked, out, Permission())
    tune.run(tuning, admitted, tune.Watcher())
    return tune_view.as_json(tuning, tune_view.view(tuning), {})


def repeat(what: str, seed: int, wrapper: list[str]) -> list[str]:
    """A row of the table: one search in a process of its own, and whether what it says is right."""
    command = [*wrapper, sys.executable, __file__, what, "--one", str(seed)]
    process = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        return [str(seed), "", "", "", "NO", f"exit status {process.returncode}"]
    result = json.loads(process.stdout)
    winner, lines = result["winner"] or {}, result["lines"]
    if what == "injected":
        is_right = int(winner.get("fifo_batch", BATCH_USUAL)) < BATCH_USUAL
    else:
        is_right = not winner and lines[0].startswith("No setting beat")
    settings = ", ".join(f"{k}={v}" for k, v in winner.items() if k != "scheduler")
    sentence = f"{settings}: {lines[-1]}" if winner else lines[0]
    shown = (seed, f"{result['elapsed_s']:.0f}", result["blocks"], len(result["trials"]) - 1)
    return [*map(str, shown), "yes" if is_right else "NO", sentence]


def one(what: str, seed: int) -> None:
    """Print one result as JSON."""
    with tempfile.TemporaryDirectory() as home:
        began = time.monotonic()
        result = search(what, seed, Path(home) / "tune")
        print(json.dumps({**result, "elapsed_s": time.monotonic() - began}))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=sorted(WORKLOADS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--wrapper", type=shlex.split, default=[])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        one(options.what, options.one)
        return
    print("| seed | seconds | blocks | settings | right | said |\n|---|---|---|---|---|---|")
    right = 0
    for seed in range(options.first_seed, options.first_seed + options.repetitions):
        row = repeat(options.what, seed, options.wrapper)
        right += row[4] == "yes"
        print("|", " | ".join(row), "|", flush=True)
    print(f"\n{time.strftime('%Y-%m-%d')}: {right} of {options.repetitions} right")


if __name__ == "__main__":
    main()
