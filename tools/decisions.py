#!/usr/bin/env python3
"""Do our models of the kernel's schedulers decide as the kernel does?

usage: tools/decisions.py record KERNEL DIRECTORY            (a kernel in virtual time: no root)
       tools/decisions.py judge RELEASE DIRECTORY [--write]  (--write: the figures that are shown)

`record` writes a file SCHEDULER.CELL.txt for each cell: the requests that came, and what the
kernel decided. `judge` gives a model the same requests at the same times, and compares decision by
decision: the same request, or none. After a difference the model hands out the kernel's request, so
that each is counted once. The recordings in tests/data/decisions are some of these; `make test`
judges them.

Of a policy of the CPU it writes POLICY.CELL.txt: wake-ups, CPU time and switches. A decision is
which task runs next, where another could: the kernel switches, or the model would. After a
difference the model goes on with the kernel's task, which is owed what makes it the right one.
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
BLOCK_SH = ROOT / "tools" / "decisions.sh"
CPU_SH = ROOT / "tools" / "decisions-cpu.sh"
SCHEDLAB = ROOT / ".venv" / "bin" / "schedlab"
FIGURES = ROOT / "python" / "schedlab_sim" / "decisions.json"
TICK_NS = 4_000_000
BLOCK = ("mq-deadline", "bfq", "kyber")
EVENT = re.compile(r"(\d+) ([\d.]+) (\w+) (.*)$")
CPU_EVENT = re.compile(r"(\d+) ([\d.]+) (\w+)(?:: |\()(.*)$")
SWITCH = re.compile(
    r"prev_pid=(\d+) prev_prio=(\d+) prev_state=(\S+) ==> .* next_pid=(\d+) next_prio=(\d+)"
)
# What an event says of a task, and how a recording has it.
OF_TASK = {"sched_wakeup": "wake", "sched_wakeup_new": "new"}
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


def cpu_lines(lines: Sequence[str]) -> Iterator[str]:
    """A trace of switches as the judge reads it: ticks are at multiples of 4 ms."""
    events = [m for line in lines if (m := CPU_EVENT.match(line))]
    ticks = [nanoseconds(m[2]) for m in events if "function=tick" in m[4]]
    phase_ns = min(tick % TICK_NS for tick in ticks)
    zero_ns = (ticks[0] - phase_ns) // TICK_NS * TICK_NS + phase_ns - 1_000_000_000
    for event in events:
        at_ns, name, text = nanoseconds(event[2]) - zero_ns, event[3], event[4]
        if name == "sched_switch" and (found := SWITCH.search(text)):
            yield f"{at_ns} switch {' '.join(found.groups())}"
        elif name in OF_TASK and (found := re.search(r"pid=(\d+) prio=(\d+)", text)):
            yield f"{at_ns} {OF_TASK[name]} {found[1]} {found[2]}"
        elif name == "sched_stat_runtime" and (
            found := re.search(r"pid=(\d+) runtime=(\d+)", text)
        ):
            yield f"{at_ns} ran {found[1]} {found[2]}"
        elif name == "sys_setpriority" and (found := re.search(r"niceval: (\w+)", text)):
            # 64 bits, of which 32 have the sign.
            nice = (int(found[1], 16) + (1 << 31)) % (1 << 32) - (1 << 31)
            yield f"{at_ns} nice {event[1]} {120 + nice}"


def recorded(words: Sequence[str], script: Path, out: Path) -> Iterator[str]:
    """The output of `script` under each candidate of an experiment, in virtual time."""
    made = out / "run"
    shutil.rmtree(made, ignore_errors=True)
    line = [str(SCHEDLAB), *words, "--blocks", "1", "--no-aa", "--unconfined"]
    line += ["--metric", "elapsed", "--out", str(made), "--", "sh", str(script)]
    # A run in which tasks change their policy cannot be used, but its output can.
    subprocess.run(line, check=False)
    texts = [path.read_text(errors="replace") for path in (made / "raw" / "output").glob("*.out")]
    yield from (text for text in texts if "@@ cell" in text)


def record_cpu(kernel: str, out: Path) -> None:
    """Run the cells of the CPU under each policy."""
    policies = ["--policies", "other,rr,rr:20ms,fifo"]
    for text in recorded(["cpu", "compare", "--kernel", kernel, *policies], CPU_SH, out):
        head, *cells = re.split(r"^@@ cell ", text, flags=re.MULTILINE)
        facts = re.search(
            r"@@ ([\d.]+)\S* pid (\d+)'s .* policy: SCHED_(\w+)\b.* priority: (\d+)", head
        )
        assert facts, head
        rr_ms = re.search(r"^rr_ms (\d+)", head, flags=re.MULTILINE)
        base = re.search(r"^base_slice_ns (\d+)", head, flags=re.MULTILINE)
        assert rr_ms, head
        slice_ns, priority = int(rr_ms[1]) * 1_000_000, 99 - int(facts[4])
        policy, priorities = {"RR": "rr", "FIFO": "fcfs"}.get(facts[3]), f"{priority} {priority}"
        if policy is None:
            policy, priorities = "eevdf" if base else "cfs", "100 139"
            slice_ns = int(base[1]) if base else 750_000
        known = f"policy {policy} release {facts[1]} hz 250 slice_ns {slice_ns}"
        for cell in cells:
            name, *lines = cell.splitlines()
            suffix = "-20ms" if (policy, slice_ns) == ("rr", 20_000_000) else ""
            file = out / f"{policy}.{name.strip().replace('_', '-')}{suffix}.txt"
            # Init and this shell are in groups of their sessions, made before those were off.
            head_line = f"{known} priorities {priorities} 1 {facts[2]}"
            file.write_text("\n".join([head_line, *cpu_lines(lines), ""]))


def record(kernel: str, out: Path) -> None:
    """Run the cells under each scheduler."""
    record_cpu(kernel, out)
    words = ["compare", "--kernel", kernel, "--model", "disk7200", "--queue-depth", "4"]
    words += ["--schedulers", ",".join(BLOCK), "--fs", "none"]
    for text in recorded(words, BLOCK_SH, out):
        head = re.search(r"@@ (\d+:\d+) (\S+) (\d+) (\d)", text)
        assert head, text
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
                kernels.setdefault(release, {}).update(found)
                FIGURES.write_text(json.dumps(kernels, indent=1) + "\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
