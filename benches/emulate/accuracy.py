"""Emulated devices: how exact, how fast, and what they cost. Writes RESULTS.md.

Run from the repository as root, on a machine with nothing else to do:

    PYTHONPATH=python python benches/emulate/accuracy.py

* accuracy: random 4 KiB reads by schedlab's engine, one or 32 in flight, scheduler none. What the
  program measures is compared with what the model computed for the same requests;
* path: a device without service time, one and 32 in flight: overhead and highest rate;
* cost: CPU time of the server, idle and at work.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from schedlab import _core
from schedlab.host.control import Control
from schedlab.host.emulated import Emulated, Emulation

RESULTS = Path(__file__).with_name("RESULTS.md")
# model, changes that keep it within what a small host can emulate
MODELS = (
    ("disk7200", {}),
    ("disk5400", {}),
    ("sd-card", {"dilate": 5.0}),
    ("sata-ssd", {"dilate": 100.0}),
    ("ncq2014", {"dilate": 200.0, "service": "serial"}),
    ("nvme-slow", {"dilate": 100.0}),
)
RAMP_S = 2.0
INSTANT = "model = 'fixed'\nservice = '0'\nservers = 1\nsize = '64m'\n"


def reads(path: str, depth: int, seconds: float, span: int) -> tuple[float, float, float]:
    """IOPS, mean and 99th percentile of the response in us of random 4 KiB reads."""
    workload = {
        "pattern": {"kind": "random", "replacement": True},
        "direction": {"kind": "read"},
        "record": 4096,
        "span": span,
        "arrivals": {"kind": "closed", "depth": depth},
        "seed": int(time.time()),
    }
    group = {"name": "r", "path": path, "workers": 1, "engine": "io_uring", "workload": workload}
    group |= {"direct": True, "clock": "completion"}
    job = {"seconds": seconds, "ramp_seconds": RAMP_S, "groups": [group]}
    result = json.loads(_core.run_io_job(json.dumps(job)))["groups"][0]
    latency = result["reads"]["latency"]
    left, p99_ns = latency["count"] * 0.99, 0
    for low, high, count in latency["bins"]:
        left -= count
        if left <= 0:
            p99_ns = (low + high) // 2
            break
    rate = latency["count"] * 1e9 / result["elapsed_ns"]
    return rate, latency["mean"] / 1e3, p99_ns / 1e3


def cpu_s(process: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def accuracy(control: Control, names: list[str], seconds: float, wait_s: float) -> list[str]:
    lines = [
        "| model | in flight | IOPS | program, mean | model, mean | error | program, p99 "
        "| model, p99 | error | late p50 / p99 µs | server's CPU | gate |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, changes in MODELS:
        if names and model not in names:
            continue
        device = control.emulated(Emulation(model, size_bytes=4 << 30, **changes))
        control.set_scheduler(device.path, "none")
        for depth in (1, min(32, device.facts["tags"])):
            lines.append(accuracy_line(model, device, depth, seconds, wait_s))
            print(lines[-1], flush=True)
    return lines


def wait_until_idle(seconds: float) -> None:
    """Until the CPUs were idle for nine tenths of two seconds, at most so long."""

    def times() -> tuple[int, int]:
        numbers = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return numbers[3], sum(numbers)

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        idle, total = times()
        time.sleep(2)
        now_idle, now_total = times()
        if now_idle - idle > 0.9 * (now_total - total):
            return


def accuracy_line(model: str, device: Emulated, depth: int, seconds: float, wait_s: float) -> str:
    wait_until_idle(wait_s)
    device.reset()
    assert device.server
    before_s, start_s = cpu_s(device.server.process_id), time.monotonic()
    # The model's window inside the program's: after the ramp, before the queue runs empty.
    begin = threading.Timer(RAMP_S + 0.5, device.mark)
    accounts: list[dict[str, Any]] = []
    end = threading.Timer(RAMP_S + seconds - 0.5, lambda: accounts.append(device.account()))
    begin.start()
    end.start()
    rate, mean_us, p99_us = reads(device.path, depth, seconds, device.size_bytes)
    end.join()
    account = accounts[0]
    cpu = (cpu_s(device.server.process_id) - before_s) / (time.monotonic() - start_s)
    modelled, late = account["modelled"], account["lateness"]
    gates = [finding.gate for finding in device.gate_findings(account)]
    dilated = "" if device.facts["dilate"] == 1 else f" ×{device.facts['dilate']:g}"
    cells = (
        f"{model}{dilated}", depth, f"{rate:.1f}",
        f"{mean_us:,.0f} µs", f"{modelled['mean_ns'] / 1e3:,.0f} µs",
        f"{mean_us * 1e3 / modelled['mean_ns'] - 1:+.2%}",
        f"{p99_us:,.0f} µs", f"{modelled['p99_ns'] / 1e3:,.0f} µs",
        f"{p99_us * 1e3 / modelled['p99_ns'] - 1:+.2%}",
        f"{late['p50_ns'] / 1e3:.0f} / {late['p99_ns'] / 1e3:.0f}",
        f"{cpu:.1%}", "late" if gates else "passed",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def path(control: Control, directory: Path) -> list[str]:
    model = directory / "instant.toml"
    model.write_text(INSTANT)
    lines = ["| readers | in flight | IOPS | mean | p99 |", "|---|---|---|---|---|"]
    for readers in (1, 2):
        device = control.emulated(Emulation(str(model), size_bytes=None, readers=readers))
        assert device.server
        device.server.ask("bypass", on=True)
        control.set_scheduler(device.path, "none")
        for depth in (1, 32):
            rate, mean_us, p99_us = reads(device.path, depth, 3.0, device.size_bytes)
            lines.append(
                f"| {readers} | {depth} | {rate:,.0f} | {mean_us:.1f} µs | {p99_us:.1f} µs |"
            )
    return lines


def idle(control: Control) -> str:
    device = control.emulated(Emulation("disk7200", size_bytes=1 << 30))
    assert device.server
    before_s = cpu_s(device.server.process_id)
    time.sleep(10)
    share = (cpu_s(device.server.process_id) - before_s) / 10
    status = Path(f"/proc/{device.server.process_id}/status").read_text()
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    return f"Idle: {share:.2%} of a CPU, {rss_kib >> 10} MiB resident."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement")
    parser.add_argument("--wait", type=float, default=120.0, help="for an idle host, s a line")
    parser.add_argument("models", nargs="*", help="only these; writes no file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Control() as control:
        table = accuracy(control, options.models, options.seconds, options.wait)
        if options.models:
            return
        way = path(control, Path(directory))
        idle_line = idle(control)
    text = [
        "# Emulated devices: measured",
        "",
        f"`benches/emulate/accuracy.py --seconds {options.seconds:g}`, {os.cpu_count()} CPUs, "
        f"Linux {os.uname().release}. Random 4 KiB reads, scheduler none.",
        "",
        *table,
        "",
        "The way without a model:",
        "",
        *way,
        "",
        idle_line,
        "",
    ]
    RESULTS.write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
