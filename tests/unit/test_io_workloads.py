"""Workloads of block I/O that need no device: command lines, figures of workers, bounds, loads."""

import dataclasses
from types import SimpleNamespace
from typing import get_args

import pytest
from answers import behind, primary, secondary

from schedlab.design.io_families import FAMILIES, USUAL_FAMILIES, Load, workloads
from schedlab.kinds import KINDS, typed
from schedlab.kinds.command import Command
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Cell, GateFinding, Objective, Workload, latency
from schedlab.run import gates
from schedlab.run.io import io as io_backend
from schedlab.run.io.explain import worth_explaining
from schedlab.run.io.io import bounded, with_times

MIB = 1 << 20


def test_a_quantile_that_too_few_requests_support_becomes_a_bound():
    rows = [[n * 1000, n * 1000 + 999, 1] for n in range(1, 301)]
    few = Outcome(
        {"reader_latency_ns_mean": 1.0, **latency.metrics(rows, "reader_")},
        histograms={"latency_ns": rows},
    )
    name = "reader_latency_ns_p99"
    assert name not in few.metrics
    outcome = bounded(few, name)
    assert outcome.bounds == {name: "at-least"}
    # With 300 requests the true p99 is above the 294th with 95 %: P(Binomial(300, .99) >= 294).
    assert outcome.metrics[name] == 294_000
    none = Outcome(
        {"reader_latency_ns_mean": 2e9}, histograms={"latency_ns": []},
        bounds={"reader_latency_ns_mean": "at-least"},
    )  # fmt: skip
    assert bounded(none, name).metrics[name] == 2e9
    # Without a request at all the window is the bound.
    idle = bounded(Outcome({"elapsed_s": 3.0}, histograms={"latency_ns": []}), name)
    assert (idle.metrics[name], idle.bounds) == (3e9, {name: "at-least"})


def test_the_usual_workloads_leave_a_scheduler_something_to_decide():
    works = workloads(USUAL_FAMILIES, Load(), "throughput")
    assert [work.label for work in works][:2] == [
        "newcomer beside writers", "reader beside writers",
    ]  # fmt: skip
    assert sum(work.kind == "file-test" for work in works) == 1
    for objective in ("throughput", "latency", "fairness", "responsiveness"):
        for work in workloads(tuple(FAMILIES), Load(tests=("read",)), objective):
            kind = typed(work)
            kind.check(work.label)
            assert {work.metric, *work.secondary} <= set(kind.metrics), work.label


def test_the_workloads_of_every_family_and_what_decides_for_each_goal(golden):
    lines = []
    for family in FAMILIES:
        goals = [workloads([family], Load(tests=("read",)), goal) for goal in get_args(Objective)]
        for works in zip(*goals, strict=True):
            control = "  negative control" * works[0].negative_control
            lines.append(f"{family}: {works[0].label} {works[0].parameters}{control}")
            lines.append(f"  {', '.join(work.metric for work in works)}")
            lines.append(f"  beside it: {', '.join(works[0].secondary)}")
    golden("families.txt", "\n".join(lines))


def test_the_time_and_space_requested_reach_every_workload_that_has_them():
    load = Load(tests=("read",), seconds=7.0, span_bytes=1 << 30)
    for work in workloads(tuple(FAMILIES), load, "throughput"):
        fields = set(KINDS[work.kind].__struct_fields__)
        fixed = work.kind in ("newcomer", "copy-beside-desktop", "device-timings", "startup")
        if "seconds" in fields and not fixed:
            assert work.parameters.get("seconds") == 7.0, work.label
        if "span_bytes" in fields and work.kind != "cached-reads":
            assert work.parameters.get("span_bytes") == 1 << 30, work.label
    (plain,) = workloads(["readers"], Load(), "throughput")
    assert plain.parameters == {}


@pytest.mark.parametrize(
    ("family", "load", "expected"),
    [
        ("file-tests", Load(tests=("read",), depth=2), {"engine": "io_uring", "depth": 2}),
        ("timings", Load(seconds=1.5), {"timing": "buffered", "seconds": 1.5}),
        ("extraction", Load(archive="a.tar"), {"archive": "a.tar"}),
        ("startup", Load(program="ls"), {"program": "ls", "readers": 2, "writers": 2}),
    ],
)
def test_what_was_typed_becomes_parameters(family, load, expected):
    last = workloads([family], load, "throughput")[-1]
    assert expected.items() <= last.parameters.items()


def test_file_tests_are_every_test_at_every_record_size():
    load = Load(tests=("read", "write"), record_bytes=(4096, MIB))
    works = workloads(["file-tests"], load, "throughput")
    assert [w.label for w in works] == ["read 4 KiB", "write 4 KiB", "read 1 MiB", "write 1 MiB"]
    assert {w.kind for w in works} == {"file-test"}


def test_every_kind_says_whose_metrics_it_gives():
    for kind in KINDS.values():
        assert set(kind.actors) <= set(kind.metrics), kind.kind


def snapshot(read_bytes):
    fields = {f.name: 0 for f in dataclasses.fields(gates.Snapshot)}
    return gates.Snapshot(
        **{**fields, "too_hot": (), "processes": gates.UserProcesses(), "read_bytes": read_bytes}
    )


def test_a_warm_cache_fails_a_cold_run_and_reading_ahead_does_not():
    before = snapshot(0)
    findings = gates.findings(before, snapshot(40 * MIB), None, cold_bytes=64 * MIB)
    assert [each.gate for each in findings] == ["not-cold"]
    assert gates.findings(before, snapshot(80 * MIB), None, cold_bytes=64 * MIB) == ()


def test_decided_and_large_differences_are_explained_the_largest_first():
    undecided, proven = behind(1.0, 1.1, 1, 1.3), behind(1.0, 1.1, 1.05, 1.2)
    large, best = behind(1.0, 10, 1, 30), behind(1.0, 1, 1, 1)
    cells = {"small, decided": proven, "large, undecided": large, "small, undecided": undecided,
             "control": proven, "one stream": large}  # fmt: skip
    rows = [primary(label, "elapsed_s", control=label == "control",
                    nothing_to_order=label == "one stream") for label in cells]  # fmt: skip
    rows.append(secondary("small, undecided", "cpu_s"))
    by_row = {label: {"a": best, "b": cell} for label, cell in cells.items()}
    answer = SimpleNamespace(rows=rows, cells={**by_row, rows[-1].name: {"a": best, "b": large}})
    assert worth_explaining(answer) == ("large, undecided", "small, decided")


def test_the_tags_of_a_disk_are_those_of_all_queues_or_what_it_takes_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(io_backend.knobs, "SYS_BLOCK", tmp_path)
    disk = tmp_path / "sdx"
    assert io_backend.driver_tags("sdx") == 0
    for number in range(2):
        (disk / "mq" / str(number)).mkdir(parents=True)
        (disk / "mq" / str(number) / "nr_tags").write_text("128\n")
    assert io_backend.driver_tags("sdx") == 256
    (disk / "device").mkdir()
    for depth, tags in (("32", 32), ("1024", 256), ("0", 256)):
        (disk / "device" / "queue_depth").write_text(f"{depth}\n")
        assert io_backend.driver_tags("sdx") == tags


def test_every_run_finds_an_emulated_device_as_new_and_counts_from_there():
    """Its head, caches and flash are where the run before left them until they are reset."""
    calls = []

    device = SimpleNamespace(
        facts={"tags": 32}, hold=calls.append, reset=lambda: calls.append("reset"),
        mark=lambda: calls.append("mark"), account=dict, gate_findings=lambda account: (),
    )  # fmt: skip
    session = io_backend.IoSession.__new__(io_backend.IoSession)
    work, one = Workload("w", "random-reads", "iops"), Candidate("none")
    session.admitted = SimpleNamespace(kind=lambda *_: typed(work))
    session.emulated, session._commands, session.described = device, 32, set()
    session.fidelity = {}
    session.commands = None
    session._measured = lambda *_: calls.append("run") or Outcome({"iops": 1.0})
    for number in range(2):
        outcome = session.measure(Cell(number, 0, "w", "none", 1), work, one)
        assert ("emulated_device" in outcome.properties) is (number == 0)
    assert calls == [32, "reset", "mark", "run"] * 2


def test_what_describes_a_workload_is_stored_until_a_run_of_it_counts():
    """Reports read only runs that passed their checks, and show nothing of a discarded one."""
    session = io_backend.IoSession.__new__(io_backend.IoSession)
    command = SimpleNamespace(description=lambda label, kind: {"rehearsal": label})
    session.emulated = SimpleNamespace(facts={"model": "disk7200"})
    session.commands, session.described, session.fidelity = command, set(), {}
    kind = Command(shell="true")

    def described(label, *gates):
        outcome = Outcome({}, {"status": 0}, gates)
        properties = session._with_description(outcome, kind, label).properties
        assert properties["status"] == 0
        assert properties.get("rehearsal", label) == label
        assert ("rehearsal" in properties) is ("emulated_device" in properties)
        return "rehearsal" in properties

    late, noted = GateFinding("model-on-time", ""), GateFinding("others", "", fatal=False)
    assert described("a", late)
    assert described("a", late, noted)
    assert described("a", noted)
    assert not described("a")
    assert described("b")
    assert not described("b", late)


def test_the_times_of_a_cell_take_the_place_of_a_kinds_own():
    kind = ReaderBesideWriters(seconds=2.0)
    cell = Cell(1, 0, "w", "none", 1, seconds=3.0, ramp_seconds=2.2)
    assert with_times(kind, cell) == ReaderBesideWriters(seconds=3.0, ramp_seconds=2.2)
    assert with_times(kind, Cell(1, 0, "w", "none", 1)) == kind
