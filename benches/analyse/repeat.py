"""Does the same comparison give the same answer again, and a true one? Prints a table.

Run from the repository as root, on a machine with nothing else to do (20 runs and the long one
take about an hour):

    PYTHONPATH=python python benches/analyse/repeat.py [--runs 20] [--blocks 40] DIRECTORY

`schedlab compare --scratch 1G --quick` so many times, then once the workloads of the first with so
many blocks. Counted are the winners, the pairs that a short run called better or worse and the long
run sees the other way round, the short intervals that hold the long run's ratio, and the flags (a
difference between the A/A arm and its twin is one). The folders stay in DIRECTORY; those that are
there are not run again. The status is 1 if a claim is contradicted or more than one run in 20 has
another winner.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

Claims = dict[tuple[str, str, str], dict[str, Any]]


def compare(out: Path, *words: str) -> dict[str, Any]:
    """The verdict of a comparison in a folder, made if it is not there."""
    if not (out / "verdict.json").exists():
        command = [sys.executable, "-m", "schedlab", "compare", "--scratch", "1G"]
        subprocess.run([*command, *words, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    verdict: dict[str, Any] = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    return verdict


def claims(verdict: dict[str, Any]) -> Claims:
    """Every pair of every workload and of all together."""
    parts = {"all": verdict["overall"], **verdict["workloads"]}
    return {
        (name, pair["a"], pair["b"]): pair for name, part in parts.items() for pair in part["pairs"]
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--workloads", default="newcomer,steady-reader,readers")
    parser.add_argument("directory", type=Path)
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    folders = [asked.directory / f"run{number:02}" for number in range(1, asked.runs + 1)]
    short = [compare(folder, "--quick") for folder in folders]
    words = ("--workloads", asked.workloads, "--blocks", str(asked.blocks))
    long = claims(compare(asked.directory / "long", *words))
    winners = Counter(str(verdict["headline"]["values"].get("best")) for verdict in short)
    pairs = [
        (pair, long[key]["ratio"])
        for verdict in short
        for key, pair in claims(verdict).items()
        if key in long
    ]
    decided = [(pair, ratio) for pair, ratio in pairs if pair["verdict"] in ("better", "worse")]
    contradicted = [pair for pair, ratio in decided if (pair["ratio"] > 1) != (ratio > 1)]
    held = sum(pair["low"] <= ratio <= pair["high"] for pair, ratio in pairs)
    flags = Counter(flag["kind"] for verdict in short for flag in verdict["flags"])
    print(f"winners: {dict(winners)}")
    print(f"claims: {len(decided)}, contradicted by the long run: {len(contradicted)}")
    print(f"intervals that hold the ratio of the long run: {held} of {len(pairs)}")
    print(f"flags: {dict(flags)}")
    return int(bool(contradicted) or 20 * max(winners.values()) < 19 * asked.runs)


if __name__ == "__main__":
    sys.exit(main())
