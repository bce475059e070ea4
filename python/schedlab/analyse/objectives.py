"""Goals: which metric decides when throughput, latency, fairness or responsiveness is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from schedlab.nouns import Flag, Objective, Samples

#: How the names of metrics of readers begin.
READERS = ("reader_", "read_", "startup_", "newcomer_")
#: Per goal the metrics that decide, the first that a workload reports.
DECIDING: dict[Objective, tuple[str, ...]] = {
    "throughput": (
        "throughput_bytes_per_s",
        "iops",
        "write_bytes_per_s",
        "read_bytes_per_s",
        "calculations_per_cpu_s",
        "elapsed_s",
    ),
    "latency": (
        "newcomer_latency_ns_p90",
        "reader_latency_ns_p99",
        "reader_latency_ns_p90",
        "commit_latency_ns_p99",
        "latency_ns_p99",
        "reader_latency_ns_mean",
        "commit_latency_ns_mean",
        "latency_ns_mean",
        "response_ns_p99",
        "lateness_ns_p99",
        "mean_read_ms",
        "mean_write_ms",
        "newcomer_latency_ns_mean",
        "response_ns_mean",
        "lateness_ns_mean",
    ),
    "fairness": ("fairness_jain", "weighted_jain", "read_bytes_per_s"),
    "responsiveness": (
        "startup_s",
        "newcomer_latency_ns_mean",
        "reader_latency_ns_mean",
        "commit_latency_ns_mean",
        "latency_ns_p99_9",
        "latency_ns_p99",
        "latency_ns_mean",
        "max_read_ms",
    ),
}


def actor_of(metric: str, primary: str = "") -> str:
    """Whose figure a further metric is, beside the `primary` one: "writers", "readers" or ""."""
    reads, writes = primary.startswith(READERS), primary.startswith("write")
    if reads and metric.startswith("write"):
        return "writers"
    return "readers" if writes and metric.startswith(READERS) else ""


def choose(
    samples: Sequence[Samples], secondary: Sequence[Samples], goal: Objective, *, frozen: bool
) -> tuple[list[Samples], list[Samples], list[Flag]]:
    """(primary, secondary, flags) with the metric of each workload that `goal` asks for.

    A workload that reports none of them keeps its own, which a flag says (`apart_from_goal` names
    them); so does a flag where the metric is another than the one frozen before the first run. If
    that one was `frozen` for this very goal, it stays.
    """
    primary, others, flags = [], [], []
    lacking: list[Samples] = []
    for own in samples:
        reported = {s.metric.name: s for s in (own, *secondary) if s.workload == own.workload}
        offered = (own.metric.name,) if frozen else tuple(reported)
        wanted = next((name for name in DECIDING[goal] if name in offered), None)
        chosen = reported[wanted] if wanted else own
        primary.append(chosen)
        others += [sample for sample in reported.values() if sample is not chosen]
        if wanted is None:
            lacking.append(own)
        elif chosen is not own:
            values = {"goal": goal, "metric": wanted, "frozen_metric": own.metric.name}
            flags.append(Flag("goal", own.workload, values=values))
    apart = len(lacking) < len(primary)
    return primary, others, [*flags, *(_not_measured(own, goal, apart) for own in lacking)]


def _not_measured(own: Samples, goal: Objective, apart: bool) -> Flag:
    """A workload without a metric of the goal; `apart`: others have one, so it does not count."""
    values = {"goal": goal, "metric": own.metric.name, "apart": apart}
    return Flag("goal-not-measured", own.workload, values=values)


def apart_from_goal(flags: Sequence[Flag]) -> set[str]:
    """The workloads that do not count for the overall verdict, from the flags of `choose`."""
    return {flag.workload for flag in flags if flag.values.get("apart")}
