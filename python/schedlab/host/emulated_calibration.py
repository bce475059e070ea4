"""How long the way to a model and back is, and whether this host can emulate it at all.

The way is measured twice. Without the model, 32 requests at a time, it gives the highest rate.
With the model, one request at a time, it gives what a program measures beyond the modelled time:
each CPU that takes part has slept meanwhile, as it will in the measurement. Replies are then sent
that much early. Data are copied on the way, so that it is measured with long requests, too.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schedlab.errors import HostError

if TYPE_CHECKING:
    from schedlab.host.emulated import Emulation, Server

CEILING_S = 0.2
WAY_BATCHES, WAY_S, WAY_REQUESTS_MAX = 9, 0.7, 100
SHORT_BYTES, LONG_BYTES = 4096, 256 << 10
LEAD_MAX_NS = 500_000
LEAD_PER_MIB_MAX_NS = 5_000_000
"""A longer way is that of a busy host: the gate finds it."""


def calibrate(
    path: str, server: Server, emulation: Emulation, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Measure the way, set the lead; HostError for a model that is too fast for this host.

    Keys: overhead_ns (the way of 4 KiB, depth 1), overhead_per_mib_ns (what each MiB more takes),
    ceiling_per_s (without a model), predicted_per_s (of the model, all tags in use), lead_ns and
    lead_per_mib_ns.
    """
    server.ask("bypass", on=True)
    ceiling_per_s, _ = reads(path, 32, seconds=CEILING_S)
    server.ask("bypass", on=False)
    predicted = predict(emulation, facts["tags"])["iops"] / emulation.dilate
    if predicted > ceiling_per_s / 2 and facts["shortest_ns"] > 0:
        raise HostError(
            f"{facts['model']} would serve {predicted:,.0f} requests per second, this host can "
            f"emulate {ceiling_per_s / 2:,.0f}",
            f"--dilate {math.ceil(2 * predicted * emulation.dilate / ceiling_per_s)}",
        )
    way_ns = measured_way_ns(path, server, emulation, SHORT_BYTES)
    long_ns = max(way_ns, measured_way_ns(path, server, emulation, LONG_BYTES))
    per_mib_ns = round((long_ns - way_ns) * (1 << 20) / (LONG_BYTES - SHORT_BYTES))
    lead_ns, lead_per_mib_ns = round((emulation.lead_us or 0) * 1000), 0
    if emulation.lead_us is None:
        if 3 * way_ns * predicted < 1e9:
            lead_ns = min(way_ns, LEAD_MAX_NS)
        long_per_s = predict(emulation, facts["tags"], LONG_BYTES)["iops"] / emulation.dilate
        if 3 * long_ns * long_per_s < 1e9:
            lead_per_mib_ns = min(per_mib_ns, LEAD_PER_MIB_MAX_NS)
    server.ask("lead", ns=lead_ns, per_mib_ns=lead_per_mib_ns)
    return {
        "overhead_ns": way_ns,
        "overhead_per_mib_ns": per_mib_ns,
        "ceiling_per_s": round(ceiling_per_s),
        "predicted_per_s": round(predicted, 1),
        "lead_ns": lead_ns,
        "lead_per_mib_ns": lead_per_mib_ns,
    }


def predict(emulation: Emulation, depth: int, record_bytes: int = SHORT_BYTES) -> dict[str, float]:
    """The model's time of random reads without a kernel."""
    from schedlab import _core

    job = {"requests": 2000, "depth": depth, "record_bytes": record_bytes}
    config = json.dumps(emulation.device_config())
    prediction: dict[str, float] = json.loads(_core.emulated_prediction(config, json.dumps(job)))
    return prediction


def measured_way_ns(path: str, server: Server, emulation: Emulation, record_bytes: int) -> int:
    """The measured excess over the modelled time, one request at a time; the median of some
    batches, so that a moment in which the host was busy does not count."""
    alone_s = predict(emulation, 1, record_bytes)["mean_ns"] * emulation.dilate / 1e9
    requests = min(max(1, int(WAY_S / WAY_BATCHES / max(alone_s, 1e-6))), WAY_REQUESTS_MAX)
    ways = []
    for _ in range(WAY_BATCHES):
        server.ask("mark")
        _, mean_ns = reads(path, 1, record_bytes, requests=requests)
        ways.append(mean_ns - float(server.ask("read")["modelled"]["mean_ns"]))
    return max(0, round(statistics.median(ways)))


def reads(
    path: str,
    depth: int,
    record_bytes: int = SHORT_BYTES,
    *,
    seconds: float = 30.0,
    requests: int | None = None,
) -> tuple[float, float]:
    """Rate and mean response, ns, of random reads of the device's first 16 MiB."""
    from schedlab import _core

    workload = {
        "pattern": {"kind": "random", "replacement": True},
        "direction": {"kind": "read"},
        "record": record_bytes,
        "span": 16 << 20,
        "arrivals": {"kind": "closed", "depth": depth},
        "seed": 1,
    }
    group = {"name": "calibration", "path": path, "workers": 1, "engine": "io_uring"}
    group |= {"workload": workload, "direct": True, "allow_fallback": True, "requests": requests}
    job = {"seconds": seconds, "ramp_seconds": 0.0, "groups": [group]}
    result = json.loads(_core.run_io_job(json.dumps(job)))["groups"][0]
    latency = result["reads"]["latency"]
    return latency["count"] * 1e9 / max(result["elapsed_ns"], 1), latency["mean"]
