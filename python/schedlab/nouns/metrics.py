"""Metrics: name, unit and which direction is better, each stated once."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass

from schedlab.errors import SpecError


@dataclass(frozen=True)
class Metric:
    """A measured quantity; its unit and direction belong to it and are typed nowhere else."""

    name: str
    unit: str
    higher_is_better: bool
    title: str = ""


def _metric_table() -> dict[str, Metric]:
    higher = (
        ("throughput_bytes_per_s", "B/s", "throughput"),
        ("read_bytes_per_s", "B/s", "read throughput"),
        ("write_bytes_per_s", "B/s", "write throughput"),
        ("iops", "1/s", "I/O operations per second"),
        ("transactions_per_s", "1/s", "transactions per second"),
        ("copy_bytes_per_s", "B/s", "copy throughput"),
        ("share_fulfilment", "", "share reached of the share requested"),
        ("fairness_jain", "", "fairness (Jain index)"),
        ("calculations_per_cpu_s", "1/s", "calculations per CPU second"),
        ("calculations_per_cpu_s_raw", "1/s", "calculations per CPU second, as counted"),
        ("calculations", "", "calculations"),
        ("requests_per_s", "1/s", "requests per second"),
        ("load_work_per_s", "1/s", "work of the load"),
        ("rounds_per_s", "1/s", "round trips per second"),
        ("children_per_s", "1/s", "children per second"),
        ("weighted_jain", "", "fairness by weight (Jain index)"),
    )
    lower = (
        ("elapsed_s", "s", "elapsed time"),
        ("seconds_per_call", "s", "time per call"),
        ("cpu_s", "s", "CPU time"),
        ("user_s", "s", "user time"),
        ("system_s", "s", "system time"),
        ("startup_s", "s", "start-up time"),
        ("elapsed_synced_s", "s", "elapsed time, written data synced"),
        ("rss_bytes", "B", "memory at its peak"),
        ("read_bytes", "B", "bytes read"),
        ("written_bytes", "B", "bytes written"),
        ("major_faults", "", "page faults from disk"),
        ("context_switches", "", "context switches"),
        ("share_error", "", "largest deviation from the share by weight"),
        *(
            (f"{what}_ns_{q}", "ns", f"{title} {q}")
            for what, title in (
                ("response", "response time"),
                ("wakeup", "wake-up latency"),
                ("lateness", "lateness"),
            )
            for q in ("mean", "p50", "p90", "p99", "p99_9", "max")
        ),
        ("cpu_per_request_ns", "ns", "CPU time per request"),
        *(
            (f"{group}latency_ns_{q}", "ns", f"{title} {q}".strip())
            for group, title in (
                ("", "latency"),
                ("read_", "read latency"),
                ("write_", "write latency"),
                ("reader_", "reader latency"),
                ("newcomer_", "newcomer latency"),
                ("commit_", "commit latency"),
                ("fsync_", "fsync latency"),
                ("synced_write_", "latency of synced writes"),
                ("journal_commit_", "journal commit latency"),
                ("favoured_", "latency of the favoured group"),
            )
            for q in ("mean", "p50", "p90", "p99", "p99_9", "p99_99", "max")
        ),
        *(
            (f"{which}_{direction}{at}_ms", "ms", f"{which} {direction} response{words}")
            for which in ("mean", "max")
            for direction in ("read", "write")
            for at, words in (("", ""), ("_ncq", " from NCQ entry"))
        ),
    )
    table = {name: Metric(name, unit, True, title) for name, unit, title in higher}
    return table | {name: Metric(name, unit, False, title) for name, unit, title in lower}


METRICS: Mapping[str, Metric] = types.MappingProxyType(_metric_table())


def metric_named(name: str) -> Metric:
    """The metric of that name, or SpecError with the known ones."""
    if name in METRICS:
        return METRICS[name]
    raise SpecError(f"metric {name!r} is not known", f"use one of: {', '.join(sorted(METRICS))}")
