"""Whether a workload goes through the page cache."""

from __future__ import annotations

from schedlab.spec.experiment import Workload

# Kinds that use the page cache unless their parameters say `direct`.
BUFFERED = ("device-timings", "archive-extraction", "copy-beside-desktop",
            "calls", "startup")  # fmt: skip


def fills_page_cache(workload: Workload) -> bool:
    """Whether the workload's pages go through the page cache, by its parameters."""
    parameters = workload.parameters
    if mode := parameters.get("mode"):
        return not str(mode).startswith("direct")
    return not parameters.get("direct", workload.kind not in BUFFERED)
