"""Shares of the workloads and hard requirements, as they are typed."""

from dataclasses import replace

import pytest

from schedlab.app.compare.requirements import requirement_of, with_requirements, with_shares
from schedlab.errors import SpecError
from schedlab.nouns import Candidate, Experiment, Metric, Require, Target, Workload

WORKS = (
    Workload("newcomer beside writers", "x", "newcomer_latency_ns_mean"),
    Workload("steady reader", "x", "reader_latency_ns_mean", secondary=("reader_latency_ns_p99",)),
    Workload("copy", "x", "throughput_bytes_per_s"),
)
ASKED = Experiment("t", "io", Target("none"), (Candidate("a"),), WORKS, "a", 1)


def test_shares_make_one_mix_of_the_workloads_that_are_named():
    shared = with_shares(ASKED, "newcomer=3, reader=1")
    assert [work.weight for work in shared.workloads] == [3.0, 1.0, 0.0]
    assert shared.has_shares and not ASKED.has_shares
    control = replace(WORKS[0], label="idle", weight=9.0, negative_control=True)
    assert not replace(ASKED, workloads=(*WORKS, control)).has_shares
    equal = with_shares(ASKED, "equal")
    assert equal.has_shares and {work.weight for work in equal.workloads} == {1.0}
    assert with_shares(ASKED, None) == ASKED


@pytest.mark.parametrize(
    ("text", "message"),
    [("e=1", "names several"), ("bulk", "is no workload"), ("copy=-1", "not a share")],
)
def test_a_share_names_one_workload_and_a_number(text, message):
    with pytest.raises(SpecError, match=message) as raised:
        with_shares(ASKED, text)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reader p99 < 10ms", Require("steady reader", "reader_latency_ns_p99", 1e7)),
        ("reader mean<500us", Require("steady reader", "reader_latency_ns_mean", 5e5)),
        ("newcomer p90 < 1s", Require("newcomer beside writers", "newcomer_latency_ns_p90", 1e9)),
        ("copy throughput > 100M",
         Require("copy", "throughput_bytes_per_s", 100 * 2**20, below=False)),
        ("copy throughput >= 100MB/s",
         Require("copy", "throughput_bytes_per_s", 100 * 2**20, below=False)),
    ],
)  # fmt: skip
def test_a_requirement_is_a_limit_in_the_unit_of_its_metric(text, expected):
    assert requirement_of(ASKED, text) == expected
    asked = with_requirements(ASKED, [text])
    work = next(w for w in asked.workloads if w.label == expected.workload)
    assert expected.metric in (work.metric, *work.secondary) and asked.requires == (expected,)


def of_fio(*names):
    """A fio job with these metrics of its calls of fsync."""
    metrics = {name: Metric(name, "ns", False, name) for name in ("j.write.iops", *names)}
    work = Workload("job.fio", "fio-job", "j.write.iops", {}, names[:1])
    return replace(ASKED, workloads=(work,), metrics=metrics)


def test_a_requirement_on_fsync_needs_no_name_of_a_workload():
    asked = of_fio("j.sync.lat_ns_p50", "j.sync.lat_ns_p99")
    expected = Require("job.fio", "j.sync.lat_ns_p99", 1e7)
    assert requirement_of(asked, "fsync p99 < 10ms") == expected
    assert (
        "j.sync.lat_ns_p99" in with_requirements(asked, ["fsync p99<10ms"]).workloads[0].secondary
    )
    with pytest.raises(SpecError, match="no workload measures fsync p99"):
        requirement_of(
            replace(ASKED, workloads=(Workload("w", "file-test", "iops"),)), "fsync p99 < 10ms"
        )
    with pytest.raises(SpecError, match="no workload measures fsync p99"):
        requirement_of(ASKED, "fsync p99 < 10ms")  # of kinds that are not known
    with pytest.raises(SpecError, match="several jobs sync") as raised:
        requirement_of(of_fio("a.sync.lat_ns_p99", "b.sync.lat_ns_p99"), "fsync p99 < 10ms")
    assert raised.value.hint == "name one of: a.sync.lat_ns_p99, b.sync.lat_ns_p99"
    both = of_fio("a.sync.lat_ns_p99", "b.sync.lat_ns_p99")
    named = requirement_of(both, "job.fio b.sync.lat_ns_p99 < 10ms")
    assert named.metric == "b.sync.lat_ns_p99"


def test_a_requirement_on_fsync_of_two_workloads_names_one_of_them():
    work = Workload("load", "command", "elapsed_s", {"argv": ["a"]})
    asked = replace(ASKED, workloads=(work, replace(work, label="backup")))
    with pytest.raises(SpecError, match="several jobs sync") as raised:
        requirement_of(asked, "fsync p99 < 10ms")
    metric = "fsync_latency_ns_p99"
    assert raised.value.hint == f"name one of: load {metric}, backup {metric}"
    expected = Require("load", metric, 1e7)
    assert requirement_of(asked, f"load {metric} < 10ms") == expected
    alone = replace(ASKED, workloads=(work,))
    assert requirement_of(alone, "fsync p90 < 10ms").metric == "fsync_latency_ns_p90"
    own = replace(of_fio("j.sync.lat_ns_p99").workloads[0], metric="j.sync.lat_ns_p99")
    mixed = replace(of_fio("j.sync.lat_ns_p99"), workloads=(own, replace(work, label="copy")))
    assert requirement_of(mixed, "fsync p99 < 10ms").workload == "job.fio"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reader p99 10ms", "no limit"), ("p99 < 10ms", "names no metric"),
        ("reader speed < 1", "has no metric"), ("reader p99 < fast", "is not a duration"),
        ("reader p99 < 10", "has no unit"), ("reader p99 < -1ms", "is not a duration"),
    ],
)  # fmt: skip
def test_what_is_no_requirement_says_why(text, message):
    with pytest.raises(SpecError, match=message) as raised:
        requirement_of(ASKED, text)
    assert raised.value.hint
