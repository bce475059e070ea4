"""Does `schedlab tune` find what matters, and say so where nothing does? Repetitions on devices.

    sudo python benches/tune/repetitions.py injected --repetitions 5
    sudo python benches/tune/repetitions.py null --repetitions 20

Both use an emulated device that takes the same time for every request, one at a time.

* injected (2 ms): a reader beside writers under mq-deadline. The kernel serves up to `fifo_batch`
  writes before it looks at reads again; with its 16 the reader waits several times as long as with
  1. A repetition is good if the fresh verdict confirms a setting with a smaller `fifo_batch`.
* null (10 ms): one process with one direct read in flight. Nothing waits, so no tunable can
  matter. A repetition is good if no setting is recommended, and the sentence says by how much one
  may be better at most.

Every repetition has a seed of its own. `--wrapper` is a command that is put before each, such as a
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
from dataclasses import dataclass
from pathlib import Path

DEVICE = "model = 'fixed'\nservice = '{}'\nservers = 1\nsize = '16m'\n"
SERVICE = {"injected": "2ms", "null": "10ms"}
FIFO_BATCH_USUAL = 16
COMMON = ("--queue-depth", "1", "--scheduler", "mq-deadline", "--json")
WORDS = {
    "injected": (
        "--workloads", "steady-reader", "--seconds", "700ms", "--budget", "180s",
        "--tunables", "fifo_batch,writes_starved,read_expire,write_expire",
    ),
    "null": (
        "--tests", "random-read", "--records", "4k", "--seconds", "500ms", "--budget", "35s",
        "--tunables", "fifo_batch,writes_starved,read_expire,write_expire",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Repetition:
    """What one run of `tune` said, and whether that is right."""

    seed: int
    seconds: float
    blocks: int
    settings: int
    is_good: bool
    said: str


def repeat(what: str, seed: int, wrapper: list[str], model: Path, out: Path) -> Repetition:
    """One search with its fresh verdict."""
    command = [*wrapper, sys.executable, "-m", "schedlab", "tune", "--model", str(model)]
    command += [*COMMON, *WORDS[what], "--seed", str(seed), "--out", str(out)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    seconds = measured_s(out)
    if done.returncode:
        return Repetition(seed, seconds, 0, 0, False, f"exit {done.returncode}")
    result = json.loads(done.stdout)
    winner, lines = result["winner"], result["lines"]
    if what == "injected":
        batch = int((winner or {}).get("fifo_batch", FIFO_BATCH_USUAL))
        is_good = batch < FIFO_BATCH_USUAL
    else:
        is_good = winner is None and any(line.startswith("No setting beat") for line in lines)
    found = ", ".join(f"{k}={v}" for k, v in (winner or {}).items() if k != "scheduler")
    said = f"{found}: {lines[-1]}" if winner else lines[0]
    return Repetition(seed, seconds, result["blocks"], len(result["trials"]) - 1, is_good, said)


def measured_s(out: Path) -> float:
    """From the first run to the last one, without waiting for the wrapper."""
    files = [out / part / "runs.jsonl" for part in ("search", "verdict")]
    records = [json.loads(line) for f in files if f.exists() for line in f.read_text().splitlines()]
    return sum(record["elapsed_s"] for record in records)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=sorted(WORDS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--wrapper", type=shlex.split, default=[])
    options = parser.parse_args()
    good = 0
    print(
        "| seed | seconds measured | blocks | settings | right | said |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as home:
        model = Path(home) / "device.toml"
        model.write_text(DEVICE.format(SERVICE[options.what]))
        for seed in range(options.first_seed, options.first_seed + options.repetitions):
            one = repeat(options.what, seed, options.wrapper, model, Path(home) / f"r{seed}")
            good += one.is_good
            cells = (seed, f"{one.seconds:.0f}", one.blocks, one.settings)
            print("|", *(f"{c} |" for c in cells), f"{'yes' if one.is_good else 'NO'} |", one.said,
                  "|", flush=True)  # fmt: skip
    print(f"\n{time.strftime('%Y-%m-%d')}: {good} of {options.repetitions} right")


if __name__ == "__main__":
    main()
