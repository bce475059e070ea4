"""What to say of an emulated device: its gate, its lines in reports, lists and doctor."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.spec import GateFinding

if TYPE_CHECKING:
    from schedlab.host.doctor import Fact

SENTENCE = (
    "A model of a device: it shows what the kernel does on such a device, not how fast a real one "
    "is."
)
WAY_MAX_NS = 60_000
"""A longer way to the model and back is that of a busy host, and counts as waiting."""


def describe(facts: Mapping[str, Any]) -> str:
    """A device in a few words: `disk7200, 8 GiB, 32 tags, emulated`."""
    size = facts["size_bytes"]
    size_text = f"{size / (1 << 30):.4g} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.4g} MiB"
    parts = [facts["model"], size_text, f"{facts['tags']} tags"]
    if facts["served_in_order"]:
        parts.append("served in order")
    if facts["dilate"] != 1:
        parts.append(f"dilated ×{facts['dilate']:g}")
    return ", ".join([*parts, "emulated"])


def rows(
    facts: Mapping[str, Any], account: Mapping[str, Any] | None = None
) -> list[tuple[str, str]]:
    """Name and value of each line of the box that a report shows beside an emulated device."""
    kind = " ".join(filter(None, [facts["kind"], facts["service"]]))
    order = f"{facts['tags']} in the driver, {facts['queue_depth']} ordered by the device"
    if facts["served_in_order"]:
        order = f"{facts['tags']} in the driver, served in order"
    lines = [
        ("device", "emulated: a model, no hardware"),
        ("model", f"{facts['model']} ({kind})"),
        ("model file, SHA-256", facts["sha256"]),
        ("size", f"{facts['size_bytes']:,} bytes"),
        ("commands", order),
        ("order in the device", facts["policy"]),
        ("rotational", "yes" if facts["rotational"] else "no"),
        ("data", facts["data"]),
    ]
    if facts["dilate"] != 1:
        lines.append(("time dilation", f"×{facts['dilate']:g}: modelled time passes slower"))
    if "overhead_ns" in facts:
        lines.append(("way to the model and back", f"{facts['overhead_ns'] / 1e3:.0f} µs"))
        lines.append(("replies sent early by", f"{facts['lead_ns'] / 1e3:.0f} µs"))
    if account:
        late = account["lateness"]
        lines += [
            ("lateness p50 / p99", f"{late['p50_ns'] / 1e3:.0f} / {late['p99_ns'] / 1e3:.0f} µs"),
            ("late replies", f"{account['late_share']:.2%}"),
            ("hidden from the model", f"{account['hidden_share']:.1%} of those in flight"),
        ]
    return lines


def doctor_facts() -> list[Fact]:
    """What `schedlab doctor` says about emulated devices; read only."""
    from schedlab.host.doctor import Fact
    from schedlab.host.owned import LOOP_CONTROL

    missing = []
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        missing.append(("/dev/fuse", "modprobe fuse; in a container: --device /dev/fuse"))
    if not LOOP_CONTROL.exists():
        missing.append(("loop", "modprobe loop"))
    if os.geteuid() != 0:
        missing.append(("root", "sudo schedlab ..."))
    topic = "emulated device"
    if missing:
        found = f"no: {', '.join(name for name, _ in missing)} missing"
        return [Fact(topic, found, "only real devices and the simulator", missing[0][1])]
    lines = [Fact(topic, "yes (fuse, loop, root)", "`schedlab device models` lists the models")]
    if not _has_capability(24):
        lines.append(
            Fact(
                topic,
                "CAP_SYS_RESOURCE is missing, so the server may wait for memory",
                "leave memory free while a file system is on an emulated device",
                "in a container: --cap-add SYS_RESOURCE",
            )
        )
    ublk = Path("/dev/ublk-control").exists()
    if not ublk:
        lines.append(Fact("ublk", "no", "emulated devices use FUSE and loop; nothing is lost"))
    return lines


def _has_capability(number: int) -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff"))
    return bool(int(effective, 16) >> number & 1)


def findings(account: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[GateFinding, ...]:
    """Why a window's figures are not those of the model; empty when they are.

    The limits are on what is reported: means within 2 % of the model, 99th percentiles within
    5 %, at most 0.1 % of requests out of order, no more requests in the model than tags, nothing
    refused. No more than 2 % of the requests in flight may wait where the model does not see them,
    beyond those on their way to it and back; twice the error of the sampling is granted.
    """
    found = []

    def late(detail: str) -> None:
        hint = "use a slower model, fewer requests at a time, or --dilate K; leave the host idle"
        found.append(GateFinding("model-on-time", f"{detail}; {hint}"))

    requests = account["reads"] + account["writes"]
    if requests == 0:
        return ()
    for name, key, limit in (("mean", "mean_ns", 0.02), ("99th percentile", "p99_ns", 0.05)):
        modelled, replied = account["modelled"][key], account["replied"][key]
        error = (replied - modelled) / max(modelled, 1)
        if error > limit:
            late(f"replies were late: {name} {error:.1%} above the model's (limit {limit:.0%})")
    hidden, limit = _hidden_share(account, facts)
    if hidden > limit:
        late(f"{hidden:.1%} of the requests waited outside the model (limit {limit:.1%})")
    if account["reordered_share"] > 0.001:
        late(f"{account['reordered_share']:.2%} of the requests came in out of order (limit 0.1 %)")
    if account["errors"]:
        detail = f"{account['errors']} requests failed: no memory for the data"
        found.append(GateFinding("device-alive", detail))
    if account["depth_max"] > facts["tags"]:
        detail = f"{account['depth_max']} commands were in the device, which has {facts['tags']}"
        found.append(GateFinding("device-tags", detail))
    return tuple(found)


def _hidden_share(account: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[float, float]:
    """Share of the requests in flight that wait outside the model, and its limit."""
    rate_per_s = (account["reads"] + account["writes"]) / account["elapsed_s"]
    way_ns = min(facts.get("overhead_ns", 0), WAY_MAX_NS)
    on_the_way = rate_per_s * way_ns / 1e9 / max(account["in_flight_mean"], 1e-9)
    limit, samples = 0.02, max(account["samples"], 1)
    return account["hidden_share"] - on_the_way, limit + 2 * math.sqrt(limit / samples)
