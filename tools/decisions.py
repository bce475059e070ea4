#!/usr/bin/env python3
"""Do our models of the kernel's schedulers decide as the kernel does?

usage: tools/decisions.py record KERNEL DIRECTORY            (a kernel in virtual time: no root)
       tools/decisions.py judge RELEASE DIRECTORY [--write]  (--write: the figures that are shown)

`record` writes a file SCHEDULER.CELL.txt for each cell: the requests that came, and what the
kernel decided. `judge` gives a model the same requests at the same times, and compares decision by
decision: the same request, or none. After a difference the model hands out the kernel's request, so
that each is counted once. The recordings in tests/data/decisions are some of these; `make test`
judges them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK_SH = Path(__file__).resolve().parent / "decisions.sh"
SCHEDLAB = ROOT / ".venv" / "bin" / "schedlab"
FIGURES = ROOT / "python" / "schedlab" / "sim" / "decisions.json"
TICK_NS = 4_000_000
BLOCK = ("mq-deadline", "bfq", "kyber")
EVENT = re.compile(r"(\d+) ([\d.]+) (\w+) (.*)$")
# `[sectors] class,level` is in the events of newer kernels only.
REQUEST = re.compile(r"(\d+) \+ (\d+)(?: (\w+),\d+,(\d+))?")


def nanoseconds(seconds: str) -> int:
    """Of a time stamp, which has microseconds."""
    return int(seconds.replace(".", "")) * 1000


def phase(lines: Sequence[str]) -> int:
    """Where in 4 ms the ticks are: a timer runs out just after one."""
    times = [nanoseconds(m[2]) % TICK_NS for line in lines if (m := EVENT.match(line))]
    return min(times, key=lambda t: sorted((u - t) % TICK_NS for u in times)[len(times) * 9 // 10])


def block_lines(lines: Sequence[str], device: str, zero_ns: int) -> Iterator[str]:
    """A trace of the block layer as the judge reads it. The scheduler's own answers tell when it
    decided; they name no request, and these go out in the same order.
    """
    events = [m for line in lines if (m := EVENT.match(line))]
    of_device = [m for m in events if m[4].startswith(f"{device} ")]
    issued = [m[4] for m in of_device if m[3] == "block_rq_issue"]
    sectors = iter([s[1] for text in issued if (s := REQUEST.search(text)) and s[2] != "0"])
    for event in events:
        at_ns, name, text = nanoseconds(event[2]) - zero_ns, event[3], event[4]
        if name.startswith("dispatch_"):
            sector = "" if text.endswith("=0x0") else f" {next(sectors, '')}"
            yield f"{at_ns} dispatch{sector}".rstrip()
            continue
        request = REQUEST.search(text)
        if not text.startswith(f"{device} ") or not request or request[2] == "0":
            continue
        kind = text.split()[1]
        direction = "W" if "W" in kind else "R"
        waited_for = int(direction == "R" or "S" in kind)
        class_ = {"none": "be", None: "be"}.get(request[3], request[3])
        who = f"{event[1]} {class_} {request[4] or 4} {direction} {waited_for}"
        what = f"{request[1]} {request[2]}"
        match name:
            case "block_rq_insert":
                yield f"{at_ns} insert {who} {what}"
            case "block_bio_backmerge" | "block_bio_frontmerge":
                yield f"{at_ns} grow {who} {what}"
            case "block_rq_merge":
                yield f"{at_ns} join {what}"
            case "block_rq_complete":
                yield f"{at_ns} complete {request[1]}"


def record(kernel: str, out: Path) -> None:
    """Run the cells under each scheduler of a kernel in virtual time."""
    made = out / "run"
    shutil.rmtree(made, ignore_errors=True)
    line = [str(SCHEDLAB), "compare", "--kernel", kernel, "--model", "disk7200"]
    line += ["--queue-depth", "4", "--schedulers", ",".join(BLOCK), "--fs", "none"]
    line += ["--blocks", "1", "--no-aa", "--unconfined", "--metric", "elapsed", "--out", str(made)]
    subprocess.run([*line, "--", "sh", str(BLOCK_SH)], check=True)
    for path in (made / "raw" / "output").glob("*.out"):
        text = path.read_text(errors="replace")
        head = re.search(r"@@ (\d+:\d+) (\S+) (\d+) (\d)", text)
        assert head, path
        device, scheduler = head[1].replace(":", ","), head[2]
        _, ticks, *cells = re.split(r"^@@ (?:ticks|cell)\b", text, flags=re.MULTILINE)
        tick_ns = phase(ticks.splitlines())
        facts = f"tags 4 nr_requests {head[3]} rotational {head[4]} hz 250"
        for cell in cells:
            name, *lines = cell.splitlines()
            first = next(m for line in lines if (m := EVENT.match(line)))
            zero_ns = (nanoseconds(first[2]) - tick_ns) // TICK_NS * TICK_NS + tick_ns
            zero_ns -= 1_000_000_000
            body = block_lines(lines, device, zero_ns)
            file = out / f"{scheduler}.{name.strip()}.txt"
            file.write_text("\n".join([f"scheduler {scheduler} {facts}", *body, ""]))


def judge(directory: Path) -> dict[str, dict[str, list[int]]]:
    """For each scheduler and cell: equal decisions, and all of them."""
    line = ["cargo", "test", "--quiet", "--locked", "-p", "schedlab-sim", "--lib", "judge"]
    done = subprocess.run(
        [*line, "--", "--nocapture"], cwd=ROOT, env={**os.environ, "JUDGE": str(directory)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    figures: dict[str, dict[str, list[int]]] = {}
    for text in done.stdout.splitlines():
        if found := re.search(r"@ (\S+?)\.(\S+) (\d+) (\d+)$", text):
            figures.setdefault(found[1], {})[found[2]] = [int(found[3]), int(found[4])]
            row = f"{found[1]:12} {found[2]:20} {found[3]:>5} of {found[4]:>5}\n"
            sys.stdout.write(row)
        elif text.startswith("decision"):
            sys.stdout.write(f"    {text}\n")
    if not figures:
        sys.exit(done.stdout + done.stderr)
    return figures


def main(words: Sequence[str]) -> None:
    """Record, or judge."""
    match words:
        case ["record", kernel, directory]:
            Path(directory).mkdir(parents=True, exist_ok=True)
            record(kernel, Path(directory))
        case ["judge", release, directory, *rest] if rest in ([], ["--write"]):
            found = judge(Path(directory).resolve())
            if rest:
                kernels = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
                kernels[release] = found
                FIGURES.write_text(json.dumps(kernels, indent=1) + "\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
