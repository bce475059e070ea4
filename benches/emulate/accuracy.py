"""Emulated devices: how exact, how fast, and what they cost. Prints tables for RESULTS.md.

Run from the repository as root, on a machine with nothing else to do:

    PYTHONPATH=python python benches/emulate/accuracy.py [--runs 3] [--seconds 8] [MODEL…]
    PYTHONPATH=python python benches/emulate/accuracy.py --cost

* accuracy: random 4 KiB reads by schedlab's engine, one or 32 in flight, scheduler none. What the
  program measured is compared with what the model computed for the same requests. A run that the
  gates fail (the device's, and those for other programs and the hypervisor) is repeated. The
  status is 1 when a run that passed is more than 2 % (mean) or 5 % (99th percentile) off;
* cost: a device without a model, one and 32 in flight: the way and the highest rate; then the CPU
  time of an idle server.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import _core
from schedlab.host.emulated.emulated import Emulated, Emulation
from schedlab.host.emulated.emulated_calibration import predict
from schedlab.host.emulated.emulated_facts import MEAN_LIMIT, P99_LIMIT
from schedlab.host.safety.control import Control
from schedlab.run import gates

# model, and the dilation with which a small host can emulate it
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("disk7200", {}),
    ("disk5400", {}),
    ("sd-card", {"dilate": 20.0}),
    ("ncq2014", {"dilate": 500.0, "service": "serial"}),
    ("sata-ssd", {"dilate": 1000.0}),
)
HEADER = (
    "| model | in flight | IOPS | modelled mean | error of the mean | error of the p99 "
    "| late p50 / p99 µs | server's CPU | passed the gates |\n" + "|---" * 9 + "|"
)
INSTANT = "model = 'fixed'\nservice = '0'\nservers = 1\nsize = '64m'\n"


@dataclass(frozen=True)
class Run:
    """One measurement; times in ns."""

    rate_per_s: float
    mean_ns: float
    p99_ns: float
    account: dict[str, Any]
    cpu: float
    findings: tuple[str, ...]

    @property
    def errors(self) -> tuple[float, float]:
        """Of the mean and of the 99th percentile, against the model."""
        modelled = self.account["modelled"]
        return self.mean_ns / modelled["mean_ns"] - 1, self.p99_ns / modelled["p99_ns"] - 1

    def is_within(self) -> bool:
        mean, p99 = map(abs, self.errors)
        return mean <= MEAN_LIMIT and p99 <= P99_LIMIT


def reads(path: str, depth: int, span: int, **limit: float) -> tuple[float, float, float]:
    """Rate, mean and 99th percentile of the response (ns) of random 4 KiB reads."""
    workload = {
        "pattern": {"kind": "random", "replacement": True},
        "direction": {"kind": "read"},
        "record": 4096,
        "span": span,
        "arrivals": {"kind": "closed", "depth": depth},
        "seed": time.monotonic_ns() % (1 << 31),
    }
    group = {"name": "r", "path": path, "workers": 1, "engine": "io_uring", "workload": workload}
    group |= {"direct": True, "clock": "completion", "requests": limit.get("requests")}
    job = {"seconds": limit.get("seconds", 300.0), "ramp_seconds": 0.0, "groups": [group]}
    result = json.loads(_core.run_io_job(json.dumps(job)))["groups"][0]
    latency = result["reads"]["latency"]
    left, p99_ns = latency["count"] * 0.99, 0.0
    for low, high, count in latency["bins"]:
        left -= count
        if left <= 0:
            p99_ns = (low + high) / 2
            break
    return latency["count"] * 1e9 / result["elapsed_ns"], latency["mean"], p99_ns


def cpu_s(process: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(device: Emulated, depth: int, requests: int) -> Run:
    assert device.server
    device.reset()
    before_s, start_s = cpu_s(device.server.process_id), time.monotonic()
    before = gates.snapshot(None)
    device.mark()
    rate, mean_ns, p99_ns = reads(device.path, depth, device.size_bytes, requests=requests)
    account, after = device.account(), gates.snapshot(None)
    cpu = (cpu_s(device.server.process_id) - before_s) / (time.monotonic() - start_s)
    findings = (*device.gate_findings(account), *gates.neighbour_findings(before, after))
    return Run(rate, mean_ns, p99_ns, account, cpu, tuple(each.detail for each in findings))


def accuracy(
    control: Control, name: str, changes: dict[str, Any], wanted: int, seconds: float
) -> bool:
    """Print the rows of a model; whether every run that passed the gate is within the limits."""
    emulation = Emulation(name, size_bytes=1 << 30, **changes)
    device = control.emulated(emulation)
    control.set_scheduler(device.path, "none")
    is_good = True
    for depth in (1, min(32, device.facts["tags"])):
        rate = predict(emulation, depth)["iops"] / emulation.dilate
        requests = max(round(rate * seconds), 100)
        runs: list[Run] = []
        while sum(not run.findings for run in runs) < wanted and len(runs) < 3 * wanted:
            runs.append(measured(device, depth, requests))
            print(row(name, device, depth, runs[-1:]), *runs[-1].findings, file=sys.stderr)
        passed = [run for run in runs if not run.findings]
        is_good &= all(run.is_within() for run in passed)
        print(
            row(name, device, depth, passed or runs), f"{len(passed)} of {len(runs)} |", flush=True
        )
    return is_good


def row(name: str, device: Emulated, depth: int, runs: list[Run]) -> str:
    def median(of: Any) -> float:
        return float(statistics.median(of(run) for run in runs))

    def errors(which: int) -> str:
        values = [run.errors[which] for run in runs]
        return f"{statistics.median(values):+.2%} ({min(values):+.2%} to {max(values):+.2%})"

    dilated = "" if device.facts["dilate"] == 1 else f" ×{device.facts['dilate']:g}"
    late = [median(lambda r, k=k: r.account["lateness"][k] / 1e3) for k in ("p50_ns", "p99_ns")]
    cells = (
        f"{name}{dilated}", depth, f"{median(lambda r: r.rate_per_s):.1f}",
        f"{median(lambda r: r.account['modelled']['mean_ns'] / 1e6):.3g} ms", errors(0), errors(1),
        f"{late[0]:.0f} / {late[1]:.0f}", f"{median(lambda r: r.cpu):.1%}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def cost(control: Control, directory: Path) -> None:
    model = directory / "instant.toml"
    model.write_text(INSTANT)
    print("\n| readers | in flight | requests/s | mean | p99 |\n|---|---|---|---|---|")
    for readers in (1, 2):
        device = control.emulated(Emulation(str(model), size_bytes=None, readers=readers))
        assert device.server
        device.server.ask("bypass", on=True)
        control.set_scheduler(device.path, "none")
        for depth in (1, 32):
            samples = [reads(device.path, depth, device.size_bytes, seconds=1.0) for _ in range(5)]
            rate, mean, p99 = (statistics.median(each) for each in zip(*samples, strict=True))
            print(
                f"| {readers} | {depth} | {rate:,.0f} | {mean / 1e3:.1f} µs | {p99 / 1e3:.1f} µs |"
            )
    device = control.emulated(Emulation("disk7200", size_bytes=1 << 30))
    assert device.server
    before_s = cpu_s(device.server.process_id)
    time.sleep(10)
    share = (cpu_s(device.server.process_id) - before_s) / 10
    status = Path(f"/proc/{device.server.process_id}/status").read_text()
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    print(f"\nIdle: {share:.2%} of a CPU, {rss_kib >> 10} MiB resident.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each run")
    parser.add_argument("--runs", type=int, default=3, help="that pass the gate, per row")
    parser.add_argument("--cost", action="store_true", help="the way and the idle server instead")
    parser.add_argument("models", nargs="*", help="only these")
    options = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory() as directory, Control() as control:
        if options.cost:
            cost(control, Path(directory))
            return 0
        print(HEADER)
        for name, changes in MODELS:
            if not options.models or name in options.models:
                is_good &= accuracy(control, name, changes, options.runs, options.seconds)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
