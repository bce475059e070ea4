"""Which simulated schedulers count as validated against the kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlab.sim import Simulation, validated
from schedlab.sim.validated import Kind, doubt_of, validated_kinds, validity_of

# What a run of kernel-check could have passed.
PASSED = frozenset(
    {
        Kind(True, "none", contended=False, idles=False, buffered=False),
        Kind(True, "mq-deadline", contended=True, idles=False, buffered=False),
        Kind(True, "bfq", contended=True, idles=False, buffered=False),
        Kind(True, "bfq", contended=False, idles=False, buffered=False),
        Kind(False, "bfq", contended=True, idles=False, buffered=False),
    }
)


@pytest.mark.parametrize(
    ("scheduler", "changes", "reason"),
    [
        ("none", {"tags": 128}, ""),
        ("mq-deadline", {"tags": 4, "nr_requests": 32}, ""),
        ("mq-deadline", {"tags": 4}, "32 requests, of which mq-deadline holds at most 8"),
        ("bfq", {"tags": 4, "nr_requests": 32}, ""),
        ("bfq:x_injection=0", {"tags": 4}, "the kernel's bfq has no x_injection"),
        ("none", {"tags": 128, "settings": {"hz": 100}}, "kernel-check does not change hz"),
        ("none", {"tags": 128, "settings": {"warm_up_seconds": 1.0}}, ""),
        (
            "none",
            {"processes": "copy-buffered"},
            "none on a disk through the page cache, 2 requests for 32 tags",
        ),
        ("none", {"tags": 4}, "none on a disk, 32 requests for 4 tags"),
        ("cfq", {}, "no current kernel has cfq"),
        ("bfq", {"processes": "readers3"}, "bfq idles between processes"),
        ("bfq:slice_idle=0", {"processes": "readers3"}, ""),
        ("kyber", {"processes": "weights"}, "kernel-check knows no processes with weight"),
        ("none", {"trace": Path("any.spc")}, "kernel-check replays no traces"),
        ("bfq", {"device": "sata-ssd", "processes": "reader-writers-deep", "nr_requests": 256}, ""),
    ],
)
def test_a_case_is_validated_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch, scheduler: str, changes: dict, reason: str
) -> None:
    monkeypatch.setattr(validated, "shipped_kinds", lambda: PASSED)
    validity = validity_of(Simulation(**{"device": "disk7200", "scheduler": scheduler, **changes}))
    assert (validity.holds, validity.reason) == (not reason, reason)
    doubt = doubt_of(Simulation(**{"device": "disk7200", "scheduler": scheduler, **changes}))
    assert doubt.endswith(f" is not validated against the kernel: {reason}") == bool(reason)


def test_a_kind_is_validated_where_most_rows_passed_and_none_failed() -> None:
    def row(verdict: str, contended: bool) -> dict:
        kind = {"rotational": True, "scheduler": "none", "contended": contended, "idles": False}
        kind["buffered"] = False
        return {"kind": kind, "verdict": verdict}

    rows = [row("pass", False), row("pass", False), row("undecided", False), row("undecided", True)]
    assert validated_kinds(rows) == {Kind(True, "none", False, False, False)}
    passes = [row("pass", True), row("pass", True)]
    assert validated_kinds([*rows, *passes, row("fails", False)]) == {
        Kind(True, "none", True, False, False)
    }
    assert validated_kinds([*rows, row("pass", True)]) == {Kind(True, "none", False, False, False)}
    assert validated_kinds([]) == set()


def test_what_counts_as_validated_is_what_kernel_check_measured() -> None:
    document = json.loads(validated.MEASURED.read_text())
    assert document["measured"]["kernel"] and validated.stored(document).count("\n") < 100
    assert json.loads(validated.stored(document)) == document
    assert validated.shipped_kinds() == validated_kinds(document["rows"])
    assert {row["cell"] for row in document["rows"]} == set(range(1, 13))
