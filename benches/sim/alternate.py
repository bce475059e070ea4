"""The speed of the SSD simulator now and at an older commit, alternated: CPU time, without set-up.

python benches/sim/alternate.py COMMIT [--rounds 7] [CASE …]

The older commit must know `schedlab_sim::Job`: it gets the cases of today.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = Path("benches/sim/ssd.rs")


def built(root: Path, target: Path) -> Path:
    """The benchmark of the sources in `root`."""
    command = ["cargo", "bench", "--package", "schedlab-sim", "--bench", "ssd", "--no-run"]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        stderr=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    (program,) = re.findall(r"\((.*ssd-[0-9a-f]+)\)", done.stderr)
    return root / program


def old_sources(commit: str, root: Path) -> None:
    """The sources of a commit with the cases of today."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "x"], cwd=root, input=archive.stdout, check=True)
    (root / BENCH).write_bytes((ROOT / BENCH).read_bytes())


def rate(program: Path, case: str) -> float:
    """M requests per s of CPU time."""
    env = {**os.environ, "RATE": case}
    return float(subprocess.run([program], env=env, capture_output=True, check=True).stdout)


def main() -> None:
    """Alternate, then print the medians and the median of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    names = re.findall(r'name: "(4 KiB.*|32 pages.*)",', (ROOT / BENCH).read_text())
    with tempfile.TemporaryDirectory() as folder:
        old_sources(arguments.commit, Path(folder))
        old = built(Path(folder), Path(folder) / "target")
        new = built(ROOT, ROOT / "target")
        for case in arguments.cases or names:
            pairs = [(rate(old, case), rate(new, case)) for _ in range(arguments.rounds)]
            medians = [statistics.median(one) for one in zip(*pairs, strict=True)]
            ratios = sorted(now / before for before, now in pairs)
            print(
                f"{case}: {medians[0]:.2f} and {medians[1]:.2f} M/s, ratio "
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
