"""Facts of an emulated device: its line in lists, and the gate of its runs."""

from __future__ import annotations

from typing import TypedDict

from schedlab.nouns import GateFinding
from schedlab.nouns.quantities import size_text

# Of a model (crates/sim/src/model).
DeviceFacts = TypedDict(
    "DeviceFacts",
    {
        "kind": str, "rotational": bool, "size_bytes": int, "queue_depth": int, "policy": str,
        "service": str, "shortest_ns": int,
    },
)  # fmt: skip


Calibrated = TypedDict(
    "Calibrated",
    {
        "overhead_ns": int, "ceiling_per_s": int, "lead_ns": int, "lead_read_per_mib_ns": int,
        "lead_write_per_mib_ns": int,
    },
    total=False,
)  # fmt: skip


class EmulatedFacts(DeviceFacts, Calibrated):
    """Those of a device; one that exists has those of emulated_calibration, too."""

    emulated: bool
    model: str
    sha256: str
    dilate: float
    data: str
    tags: int
    served_in_order: bool


Times = TypedDict("Times", {"mean_ns": float, "p50_ns": int, "p99_ns": int})
# What is used of `Report` in crates/emulate.
Account = TypedDict(
    "Account",
    {
        "elapsed_s": float, "reads": int, "writes": int, "discards": int, "read_bytes": int,
        "written_bytes": int, "modelled": Times, "replied": Times, "late_share": float,
        "reordered_share": float, "depth_max": int, "errors": int, "hidden_mean": float,
        "hidden_error": float,
    },
)  # fmt: skip
MEAN_LIMIT, P99_LIMIT, REORDERED_LIMIT = 0.02, 0.05, 0.001
# The way of a request that follows at once is shorter than that of one after a pause, which the
# calibration measures: a lead may be off by this share of itself.
LEAD_DOUBT = 1 / 3


def describe(facts: EmulatedFacts) -> str:
    """A device in a few words: `disk7200, 8 GiB, 32 tags, emulated`."""
    size = facts["size_bytes"]
    parts = [facts["model"], size_text(size, 4), f"{facts['tags']} tags"]
    if facts["served_in_order"]:
        parts.append("served in order")
    if facts["dilate"] != 1:
        parts.append(f"dilated ×{facts['dilate']:g}")
    return ", ".join([*parts, "emulated"])


def findings(account: Account, facts: EmulatedFacts) -> tuple[GateFinding, ...]:
    """Why a window's figures are not those of the model; empty when they are.

    The limits are on what a program measures: means within 2 % of the model, or within a third of
    the lead where that is more (twice the standard error of the sampling is granted), 99th
    percentiles at most 5 % above it. At most 0.1 % of the requests may come in out of order, none
    may be refused, and there may never be more of them in the model than the device has tags.
    """
    failed = []

    def late(detail: str) -> None:
        hint = "use a slower model, fewer requests at a time, or --dilate K"
        failed.append(GateFinding("model-on-time", f"{detail}; {hint}"))

    if account["errors"]:
        detail = f"{account['errors']} requests failed: no memory for the data"
        failed.append(GateFinding("device-alive", detail))
    if account["reads"] + account["writes"] == 0:
        return tuple(failed)
    error, sampling = mean_error(account)
    mean_limit = max(MEAN_LIMIT, LEAD_DOUBT * lead_share(account, facts))
    if abs(error) > mean_limit + 2 * sampling:
        limit = f"limit {mean_limit:.0%}, sampling ±{2 * sampling:.1%}"
        late(f"the mean response was {error:+.1%} off the model's ({limit})")
    modelled_ns = account["modelled"]["p99_ns"]
    error = (account["replied"]["p99_ns"] + facts.get("lead_ns", 0) - modelled_ns) / modelled_ns
    if error > P99_LIMIT:
        late(f"the 99th percentile was {error:.1%} above the model's (limit {P99_LIMIT:.0%})")
    if account["reordered_share"] > REORDERED_LIMIT:
        share = f"{account['reordered_share']:.2%} of the requests"
        late(f"{share} came in out of order (limit {REORDERED_LIMIT:.1%})")
    if account["depth_max"] > facts["tags"]:
        detail = f"{account['depth_max']} commands were in the device, which has {facts['tags']}"
        failed.append(GateFinding("device-tags", detail))
    return tuple(failed)


def lead_share(account: Account, facts: EmulatedFacts) -> float:
    """How much before their time replies were sent, as a share of the model's mean response."""
    moved_ns = (facts.get("lead_read_per_mib_ns", 0) * account["read_bytes"]
                + facts.get("lead_write_per_mib_ns", 0) * account["written_bytes"])  # fmt: skip
    requests = account["reads"] + account["writes"]
    lead_ns = facts.get("lead_ns", 0) + moved_ns / (1 << 20) / requests
    return lead_ns / max(account["modelled"]["mean_ns"], 1.0)


def mean_error(account: Account) -> tuple[float, float]:
    """How far the mean response at the block device was off the model's, and the standard error
    of the sampling, both as shares of the model's.

    By Little's law: the requests that are in flight but not in the model, over the rate, are the
    time that a request spends on its way. Replies are sent early to make up for it. Flushes are
    in neither count: the kernel has none of them in flight.
    """
    requests = account["reads"] + account["writes"] + account["discards"]
    modelled_ns = max(account["modelled"]["mean_ns"], 1.0)
    between_ns = account["elapsed_s"] * 1e9 / max(requests, 1)
    way_ns = account["hidden_mean"] * between_ns
    error = (account["replied"]["mean_ns"] + way_ns) / modelled_ns - 1
    return error, account["hidden_error"] * between_ns / modelled_ns
