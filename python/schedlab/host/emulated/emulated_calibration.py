"""How long the way to a model and back is, and whether this host can emulate it at all.

The way is measured twice. Without the model, 32 requests at a time, it gives the highest rate.
With the model, one request at a time, it gives what a program measures beyond the modelled time:
each CPU that takes part has slept meanwhile, as it will in the measurement. Replies are then sent
that much early. Data are copied on the way, so that it is measured with long requests, too.
"""

from __future__ import annotations

import fcntl
import functools
import json
import math
import os
import statistics
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import HostError
from schedlab.host.safety.consent import hold
from schedlab.package import offered

if TYPE_CHECKING:
    from schedlab.host.emulated.emulated import Emulation, Server
    from schedlab.host.emulated.emulated_facts import EmulatedFacts

CEILING_S = 0.2
WAY_BATCHES, WAY_S, WAY_REQUESTS_MAX = 9, 0.5, 100
SHORT_BYTES, LONG_BYTES, SPAN_BYTES = 4096, 256 << 10, 16 << 20
_BLKDISCARD = 0x1277  # include/uapi/linux/fs.h
LEAD_MAX_NS = 500_000
LEAD_PER_MIB_MAX_NS = 5_000_000
"""A longer way is that of a busy host: the gate finds it."""


def calibrate(
    path: str, server: Server, emulation: Emulation, facts: EmulatedFacts
) -> dict[str, object]:
    """Measure the way, set the lead; HostError for a model that is too fast for this host.

    Keys: overhead_ns (the way of 4 KiB, depth 1), overhead_read_per_mib_ns and
    overhead_write_per_mib_ns (what each MiB more takes; of writes as of reads where data stay),
    ceiling_per_s (without a model), predicted_per_s (of the model, all tags in use), and the leads
    that make up for the ways: lead_ns, lead_read_per_mib_ns, lead_write_per_mib_ns.
    """
    server.ask("bypass", on=True)
    ceiling_per_s, _ = load(path, 32, seconds=CEILING_S)
    server.ask("bypass", on=False)
    predicted = predict(emulation, facts["tags"])["iops"] / emulation.dilate
    if predicted > ceiling_per_s / 2 and facts["shortest_ns"] > 0:
        raise HostError(
            f"{facts['model']} would serve {predicted:,.0f} requests per second, this host can "
            f"emulate {ceiling_per_s / 2:,.0f}",
            f"--dilate {math.ceil(2 * predicted * emulation.dilate / ceiling_per_s)}",
        )
    way_ns = way(path, server, emulation, "read", SHORT_BYTES)
    long_ns = {"read": way(path, server, emulation, "read", LONG_BYTES)}
    long_ns["write"] = long_ns["read"]
    if emulation.data == "memory":
        with given_up(path, server) as ours:
            long_ns["write"] = way(ours, server, emulation, "write", LONG_BYTES)
    beyond = (LONG_BYTES - SHORT_BYTES) / (1 << 20)
    ways = {"ns": way_ns}
    for name, ns in long_ns.items():
        ways[f"{name}_per_mib_ns"] = round(max(0, ns - way_ns) / beyond)
    leads = dict.fromkeys(ways, 0)
    if emulation.lead_us is not None:
        leads["ns"] = round(emulation.lead_us * 1000)
    elif 3 * way_ns * predicted < 1e9:
        long_per_s = predict(emulation, facts["tags"], LONG_BYTES)["iops"] / emulation.dilate
        if 3 * max(long_ns.values()) * long_per_s < 1e9:
            leads = {name: min(ns, LEAD_PER_MIB_MAX_NS) for name, ns in ways.items()}
        leads["ns"] = min(way_ns, LEAD_MAX_NS)
    server.ask("lead", **leads)
    return {
        **{f"overhead_{name}": ns for name, ns in ways.items()},
        "ceiling_per_s": round(ceiling_per_s),
        "predicted_per_s": round(predicted, 1),
        **{f"lead_{name}": ns for name, ns in leads.items()},
    }


@functools.cache
def models() -> Any:
    """The compiled models of devices; SpecError where there are none."""
    return offered("backends", "emulated", "an emulated device")


def predict(emulation: Emulation, depth: int, record_bytes: int = SHORT_BYTES) -> dict[str, float]:
    """The model's time of random reads without a kernel."""
    job = {"requests": 2000, "depth": depth, "record_bytes": record_bytes}
    config = json.dumps(emulation.device_config())
    prediction: dict[str, float] = json.loads(models().emulated_prediction(config, json.dumps(job)))
    return prediction


def way(path: str, server: Server, emulation: Emulation, kind: str, record_bytes: int) -> int:
    """The measured excess over the modelled time, one request at a time, ns; the median of some
    batches, so that a moment in which the host was busy does not count."""
    alone_s = predict(emulation, 1, record_bytes)["mean_ns"] * emulation.dilate / 1e9
    requests = min(max(1, int(WAY_S / WAY_BATCHES / max(alone_s, 1e-6))), WAY_REQUESTS_MAX)
    ways = []
    for _ in range(WAY_BATCHES):
        server.ask("mark")
        _, mean_ns = load(path, 1, kind, record_bytes, requests=requests)
        ways.append(mean_ns - float(server.ask("read")["modelled"]["mean_ns"]))
    return max(0, round(statistics.median(ways)))


@contextmanager
def given_up(path: str, server: Server) -> Iterator[str]:
    """The device for writing; afterwards what was written reads as zeros again."""
    descriptor = hold(path)
    try:
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)
    server.ask("bypass", on=True)
    with Path(path).open("r+b") as device:
        fcntl.ioctl(device, _BLKDISCARD, struct.pack("QQ", 0, SPAN_BYTES))
    server.ask("bypass", on=False)


def load(
    path: str,
    depth: int,
    kind: str = "read",
    record_bytes: int = SHORT_BYTES,
    *,
    seconds: float = 30.0,
    requests: int | None = None,
) -> tuple[float, float]:
    """Rate and mean response, ns, of random reads or writes of the device's first 16 MiB."""
    from schedlab import _core

    workload = {
        "pattern": {"kind": "random", "replacement": True},
        "direction": {"kind": kind},
        "record": record_bytes,
        "span": SPAN_BYTES,
        "arrivals": {"kind": "closed", "depth": depth},
        "seed": 1,
    }
    engine = "io_uring" if depth > 1 else "psync"  # the shorter way above the block device
    group = {"name": "calibration", "path": path, "workers": 1, "engine": engine}
    group |= {"workload": workload, "direct": True, "allow_fallback": True, "requests": requests}
    job = {"seconds": seconds, "ramp_seconds": 0.0, "groups": [group]}
    result = json.loads(_core.run_io_job(json.dumps(job)))["groups"][0]
    latency = result[f"{kind}s"]["latency"]
    return latency["count"] * 1e9 / max(result["elapsed_ns"], 1), latency["mean"]
