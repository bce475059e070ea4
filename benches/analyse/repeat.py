"""Does the same comparison give the same answer again, and a true one? Prints a table.

Run from the repository as root, on a machine with nothing else to do (20 runs and the long one
take about an hour):

    PYTHONPATH=python python benches/analyse/repeat.py [--runs 20] [--blocks 40] DIRECTORY

`schedlab compare --scratch 1G --quick` so many times, then once the workloads of the first with so
many blocks. Counted are what was taken, the cells that a short run proves to be behind where the
long run has them ahead of that, and the short intervals that hold the loss of the long run. The
folders stay in DIRECTORY; those that are there are not run again. The status is 1 if a proven loss
is contradicted, or more than one run in 20 takes another candidate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

Cells = dict[tuple[str, str], dict[str, Any]]


def compare(out: Path, *words: str) -> dict[str, Any]:
    """The answer of a comparison in a folder, made if it is not there."""
    if not (out / "verdict.json").exists():
        command = [sys.executable, "-m", "schedlab", "compare", "--scratch", "1G"]
        subprocess.run([*command, *words, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    answer: dict[str, Any] = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    return answer


def cells(answer: dict[str, Any]) -> Cells:
    """Every candidate on every row that the answer speaks of."""
    return {(row, name): cell for row in answer["counted"]
            for name, cell in answer["cells"][row].items()}  # fmt: skip


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
    long = cells(compare(asked.directory / "long", *words))
    taken = Counter(f"{answer['take']} ({answer['code']})" for answer in short)
    pairs = [(cell, long[key]) for answer in short for key, cell in cells(answer).items()
             if key in long]  # fmt: skip
    proven = [(cell, loss) for cell, loss in pairs if cell["low"] > 0]
    contradicted = [cell for cell, loss in proven if loss["up"] is not None
                    and loss["up"] < cell["low"]]  # fmt: skip
    held = sum(cell["low"] <= loss["loss"] and (cell["up"] is None or loss["loss"] <= cell["up"])
               for cell, loss in pairs)  # fmt: skip
    flags = Counter(flag["kind"] for answer in short for flag in answer["flags"])
    print(f"taken: {dict(taken)}")
    print(f"proven behind: {len(proven)}, contradicted by the long run: {len(contradicted)}")
    print(f"intervals that hold the loss of the long run: {held} of {len(pairs)}")
    print(f"flags: {dict(flags)}")
    names = Counter(answer["take"] for answer in short)
    return int(bool(contradicted) or 20 * max(names.values()) < 19 * asked.runs)


if __name__ == "__main__":
    sys.exit(main())
