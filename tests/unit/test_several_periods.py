"""Of several findings, seconds, periods, queues, calls, files or processes each counts: what is
looked at while a run is measured, and live loads."""

import contextlib
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from captures import whole
from experiments import Clock, experiment
from test_live import FAST, SLOW, flow, snapshot

from schedlab.app.live import live, screen
from schedlab.design.plan import cell_seed
from schedlab.errors import SpecError
from schedlab.host.queues import QueueSet
from schedlab.kinds.live_load import OPERATIONS, LiveLoad, group_name
from schedlab.nouns import AA_SUFFIX, Candidate, Cell, Workload, durability
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.run import gates
from schedlab.run.io import explain
from schedlab.run.io.durability import Durable, Places, Waits
from schedlab.run.live import live as backend
from schedlab.run.live import live_own_figure, live_pilot
from schedlab.run.live.guard_rails import Rails, parse_guard
from schedlab.run.live.live import Captured, LiveSession, Second
from schedlab.run.live.live_figures import Flow, Look, look
from schedlab.run.live.live_own_figure import OwnFigure
from schedlab.run.live.live_pilot import Switched

TRACE = Path(__file__).parents[1] / "data" / "traces" / "tpcc-small.trace"
A, B, C = (Candidate(name, {"scheduler": name}) for name in ("none", "bfq", "kyber"))


def waits(returned, ns):
    return Waits(returned, returned * ns, (0, 0, 0), Counter({(ns, ns + 9): returned}))


def test_calls_of_all_processes_and_devices_are_in_a_look_and_its_metrics():
    names = durability.OPERATIONS
    calls = {("db", (8, n), name): waits(200, 100 * (n + 1) * (at + 1))
             for at, name in enumerate(names) for n in range(2)}  # fmt: skip
    calls["log", (8, 0), names[0]] = waits(1, 7)
    durable = Durable(Places(), calls, Counter(), Counter(lost=5),
                      {("db", names[0]): 9, ("log", names[0]): 3})  # fmt: skip
    seen = look(2.0, [snapshot(10), snapshot(10)], durable)
    for at, name in enumerate(names):
        both = seen.flow(name, "db")
        assert (both.requests, both.sum_ns) == (400, 200 * 300 * (at + 1))
        assert len(both.bins) == 2
    assert seen.flow(names[0], "log").requests == 1 and seen.flow("read", "db").requests == 40
    assert seen.ages_ns == {("db", "read"): 5000, ("db", names[0]): 9, ("log", names[0]): 3}
    assert seen.lost == 2 * 1 + 5
    values = replace(seen, flows={key: of for key, of in seen.flows.items()
                                  if key[0] == "db"}).metrics([])  # fmt: skip
    for at, name in enumerate(names):
        means = [values[durability.metric(name, each)] for each in ("mean", "p50", "p90")]
        assert means[0] == 150 * (at + 1) and means[1] < means[2]
    busy = Look(1.0, {("db", each): flow(fast=20_000 * (1 + n), slow=20_000)
                      for n, each in enumerate(OPERATIONS)})  # fmt: skip
    measured = busy.metrics(["db"])
    assert {name for name in measured if "latency" in name} >= {
        f"{each}_latency_ns_{what}" for each in OPERATIONS for what in ("mean", "p50", "p90", "p99")
    }
    for operation in OPERATIONS:
        ordered = [measured[f"{operation}_latency_ns_{what}"] for what in ("p50", "p90", "p99")]
        assert ordered == sorted(ordered) and len({*ordered}) == 3


def test_a_guard_is_counted_for_each_candidate_and_over_all_of_them():
    slow, fast = (Look(1.0, {("db", "read"): flow(**{kind: 1000})}) for kind in ("slow", "fast"))

    def seen(*seconds):
        rails = Rails([parse_guard("write p50 > 1us"), parse_guard("read p50 > 5us for 3s")])
        return [bool(rails.see(second, label)) for label, second in seconds]

    in_a_row = [("none", slow), ("bfq", slow), ("kyber", slow)]
    assert seen(*in_a_row) == [False, False, True]
    of_one = [("bfq", slow), ("none", fast), ("bfq", slow), ("none", fast), ("bfq", slow)]
    assert seen(*of_one) == [False] * 4 + [True]
    assert not any(seen(*of_one[:4], ("none", slow), ("bfq", fast), ("none", slow)))


class Counted:
    """A capture that is looked at once a second, with what each second has."""

    def __init__(self, looks, rows):
        self.looks, self.rows = iter(looks), rows

    def look(self):
        return next(self.looks)

    def series(self):
        return self.rows


def running(seconds):
    """The counters after each of these seconds: (reads, slow writes), from one on."""
    reads = writes = 0
    yield Look(1.0)
    for at, (more, slow) in enumerate(seconds):
        reads, writes = reads + more, writes + slow
        yield Look(at + 2.0, {("db", "read"): flow(fast=reads), ("db", "write"): flow(slow=writes)})


def clocked(monkeypatch, module):
    clock = Clock(0.0)
    clock.sleep = lambda s: setattr(clock, "now_s", clock.now_s + s)
    monkeypatch.setattr(module, "time", clock)


def test_a_pilot_has_every_candidate_and_the_worst_of_all_its_seconds(monkeypatch):
    clocked(monkeypatch, live_pilot)
    loads = {"none": [(100, 0), (300, 0), (200, 0)], "bfq": [(50, 7), (50, 0), (50, 9)],
             "kyber": [(1, 1), (2, 2), (3, 3)]}  # fmt: skip
    devices, lines, order = SimpleNamespace(), [], []
    devices.set = lambda candidate: order.append(candidate.label) or ({}, 0.1 * len(order))

    @contextlib.contextmanager
    def captured(seconds):
        load = loads[("none", "bfq", "kyber")[len(order)]]
        # Unlike before until bin 10 + 10 for each of those before.
        rows = [(100 * n, 1 if n < 20 + 10 * len(order) else 100, 0, 100) for n in range(100)]
        yield Counted(running(load), rows)

    devices.captured = captured
    seen = live_pilot.pilot(devices, (A, B, C), 3.0, ("read p99 > 9s",), lines.append)
    assert order == [one.candidate for one in seen] == ["none", "bfq", "kyber"]
    assert [one.switch_s for one in seen] == pytest.approx([0.1, 0.2, 0.3])
    assert [one.figures.flow("read").requests for one in seen] == [600, 150, 6]
    assert [one.figures.flow("write").requests for one in seen] == [0, 16, 6]
    assert [sorted(one.worst_p99_ns) for one in seen] == [
        ["read"], ["read", "write"], ["read", "write"]
    ]  # fmt: skip
    assert [one.settled_s for one in seen] == pytest.approx([1.0, 2.0, 3.0])
    assert lines == [live_pilot.pilot_line(one) for one in seen]


def test_the_worst_second_of_a_pilot_is_any_of_them(monkeypatch):
    clocked(monkeypatch, live_pilot)
    for slow in range(3):
        seconds = [(0, 0), (0, 0), (0, 0)]
        looks = [Look(1.0)]
        fast = slowly = 0
        for at in range(len(seconds)):
            fast, slowly = fast + 200, slowly + (200 if at == slow else 0)
            flows = {("db", "read"): flow(fast, slowly), ("db", "write"): flow(fast)}
            looks.append(Look(at + 2.0, flows))

        @contextlib.contextmanager
        def captured(seconds, looks=looks):
            yield Counted(iter(looks), [])

        devices = SimpleNamespace(set=lambda candidate: ({}, 0.0), captured=captured)
        (one,) = live_pilot.pilot(devices, (A,), 3.0, (), lambda line: None)
        assert SLOW[0] <= one.worst_p99_ns["read"] <= SLOW[1] + 1
        assert FAST[0] <= one.worst_p99_ns["write"] <= FAST[1] + 1


def test_a_guard_that_trips_under_the_second_candidate_tells_its_seconds(monkeypatch):
    clocked(monkeypatch, live_pilot)
    loads = [[(100, 0)] * 3, [(100, 0), (100, 200), (100, 200)]]
    order, back = [], []

    @contextlib.contextmanager
    def captured(seconds):
        yield Counted(running(loads[len(order)]), [])

    devices = SimpleNamespace(
        set=lambda candidate: order.append(candidate.label) or ({}, 0.0), captured=captured,
        set_back=lambda: back.append(1),
    )  # fmt: skip
    with pytest.raises(backend.GuardTripped, match="under bfq: write p50") as raised:
        live_pilot.pilot(devices, (A, B), 3.0, ("read p50 > 1s", "write p50 > 5us for 2s"),
                         lambda line: None)  # fmt: skip
    assert back == [1] and str(raised.value).count("reads/s") == 3


class Counting:
    """Captures of one device, whose documents are as they are given."""

    def __init__(self, *documents):
        self.documents, self.added = iter(documents), []

    def snapshot(self, over_time=True):
        return json.dumps(whole(next(self.documents)))

    def add(self, number, process):
        self.added.append((number, process))


def test_a_look_is_at_all_devices_and_all_their_calls(monkeypatch):
    first, second = ({**snapshot(n), "elapsed_ns": 2_000_000_000} for n in (10, 20))
    durable = Durable(Places(), {("db", (8, 0), durability.OPERATIONS[0]): waits(3, 5)}, Counter(),
                      Counter())  # fmt: skip
    control = SimpleNamespace(expect_within=lambda s: None)
    seen = Captured([Counting(first), Counting(second)], control,
                    SimpleNamespace(seen=lambda: durable)).look()  # fmt: skip
    assert (seen.at_s, seen.flow("read").requests) == (2.0, 60)
    assert seen.flow(durability.OPERATIONS[0]).requests == 3


def test_a_period_has_its_halves_every_second_and_all_that_broke(monkeypatch):
    clocked(monkeypatch, backend)
    seconds = [(10, 1), (20, 2), (30, 3), (40, 4), (50, 5)]
    kind = LiveLoad(seconds=4.0, wash_out_s=1.0, guards=("read p99 > 9s", "write p99 > 9s"),
                    control_groups=("/a", "/b"))  # fmt: skip
    watched, lines = [], []
    errors = {"sda": iter([1, 4]), "sdb": iter([20, 50])}
    none = gates.Snapshot(0.0, 0.0, 0.0, 0, 0, 0, 0)
    monkeypatch.setattr(
        backend, "snapshot", lambda queue: replace(none, io_errors=next(errors[queue]))
    )
    monkeypatch.setattr(backend, "device_facts", lambda queue: {"disk": queue})
    monkeypatch.setattr(backend, "_suspended_s", iter([0.0, 60.0]).__next__)

    @contextlib.contextmanager
    def captured(length):
        every = [replace(each, gap_sectors=9, sectors=10) for each in running(seconds)]
        yield Counted(iter(every), [(0, 1, 2, 3), (100, 4, 5, 6)])

    devices = SimpleNamespace(
        queues=("sda", "sdb"), captured=captured, set=lambda candidate: ({"scheduler": "x"}, 0.2),
        control=SimpleNamespace(check=lambda: [gates.GateFinding("one", ""),
                                               gates.GateFinding("two", "")],
                                expect_within=lambda s: None),
    )  # fmt: skip
    session = LiveSession(devices, kind, watched.append, lines.append)
    assert [group_name(path) for path in ("/a", "/user.slice/b/")] == ["a", "b"]
    assert [rail.text for rail in session.rails.guards] == list(kind.guards)
    session.kind_of = lambda workload, candidate: kind
    outcome = session.measure(Cell(0, 0, "w", "none", 1), Workload("w", "live-load", "x"), A)
    assert [each.gate for each in outcome.gates] == [
        "one", "two", "io-errors", "suspended", "capture-gap"
    ]  # fmt: skip
    assert "reports 33 errors" in outcome.gates[2].detail
    assert [second.figures.flow("read").requests for second in watched] == [10, 20, 30, 40, 50]
    assert [second.in_wash_out for second in watched] == [True] + [False] * 4
    assert [half["requests_per_s"] for half in outcome.properties["halves"]] == [55 / 2, 99 / 2]
    assert outcome.metrics["requests_per_s"] == 154 / 4
    assert outcome.latencies["live load"] == [
        (1000 * at, *ends, count) for at, load in enumerate(seconds, 1)
        for ends, count in zip((FAST, SLOW), load, strict=True)
    ]  # fmt: skip
    assert outcome.histograms == {
        "read_latency_ns": [(*FAST, 140)], "write_latency_ns": [(*SLOW, 14)]
    }  # fmt: skip
    assert outcome.series == {"live load": [(0, 1, 2, 3), (100, 4, 5, 6)]}


def test_a_second_has_reads_and_writes_and_a_period_its_mean_of_both():
    figures = Look(1.0, {("db", "read"): flow(fast=30), ("db", "write"): flow(slow=40)}, 5)
    line = Second("none", 3.0, 9.0, False, figures, None).line()
    assert re.findall(r"(\d+ \w+)/s p50 (\S+) ms, p99 (\S+) ms", line) == [
        ("30 reads", "0.00112", "0.00125"), ("40 writes", "0.009", "0.01")
    ]  # fmt: skip
    assert line.endswith("5 in flight")
    run = SimpleNamespace(metrics={"read_latency_ns_mean": 1e6, "write_latency_ns_mean": 2e6,
                                   "requests_per_s": 7})  # fmt: skip
    assert screen.figures_of(run) == "read 1 ms, write 2 ms on average, 7/s"


def test_a_heat_map_is_as_dark_as_the_fullest_band_of_any_second():
    rows = [("none", Counter({5: 1, 6: 2})), ("none", Counter({6: 90, 4: 3})), ("bfq", Counter())]
    lines = screen.heat_map(rows)
    assert [line[12:15] for line in lines[:3]] == [
        "".join(screen.SHADES[screen.level(counts[band], 90)] for _, counts in rows)
        for band in (6, 5, 4)
    ]  # fmt: skip
    assert lines[3][12:] == "n──"
    low, high = 4**5 - 1, 4**5 + 1
    figures = Look(1.0, {("a", "read"): Flow(bins=Counter({(low, high): 2, FAST: 1})),
                         ("b", "write"): Flow(bins=Counter({(low, high): 3}))})  # fmt: skip
    assert screen.bands(figures)[5] == 6


def test_an_experiment_has_what_any_candidate_of_the_pilot_did(tmp_path):
    sync = durability.OPERATIONS[0]
    reads = Look(1.0, {("db", "read"): flow(fast=90), ("log", "read"): flow(fast=80)})
    other = replace(reads, flows={**reads.flows, ("db", "write"): flow(slow=2),
                                  ("db", sync): flow(fast=3)})  # fmt: skip
    seen = [Switched("none", 0.1, settled, 9.0, figures, {"read": settled * 1e6, "write": 7e6})
            for settled, figures in ((0.5, reads), (2.5, other), (1.5, reads))]  # fmt: skip
    question = live.LiveRequest(tmp_path, (A, B, C), 60.0, 600.0, switch=("sdb",))
    below = QueueSet("", None, ("sda", "sdb"))
    asked = live._experiment(question, below, 7, seen, 4.0)
    (work,) = asked.workloads
    assert work.parameters["settled_s"] == 2.5 and work.parameters["seconds"] == 56.0
    assert set(work.parameters["processes"]) == {"db", "log"}
    assert work.parameters["guards"] == live_pilot.usual_guards(seen[0])
    measured = (work.metric, *work.secondary)
    means = [f"{group}_read_latency_ns_mean" for group in ("db", "log")]
    assert {"read_latency_ns_mean", "read_latency_ns_p99", "requests_per_s", *means} <= {*measured}
    assert "write_latency_ns_mean" in measured
    assert [name for name in measured if name.startswith(sync)] == [
        name for name in durability.USUAL if name.startswith(sync)
    ]
    assert asked.notes == tuple(map(live_pilot.pilot_line, seen))
    assert asked.target.switch == ("sda", "sdb", "sdb")
    alone = live._experiment(question, below, 7, [replace(one, figures=reads) for one in seen], 4.0)
    names = (alone.workloads[0].metric, *alone.workloads[0].secondary)
    assert not any(name.startswith(("write", sync)) for name in names)


def test_every_process_of_every_group_is_captured():
    capture = explain.JobCapture("/dev/sda")
    capture._running = running = Counting()
    workers = [{"name": "readers", "ids": [11, 12]}, {"name": "writers", "ids": [21, 22, 23]}]
    capture.begin(workers)
    assert running.added == [(1, 11), (1, 12), (2, 21), (2, 22), (2, 23)]
    assert capture.tasks == {"readers": [11, 12], "writers": [21, 22, 23]}


def test_all_queues_that_carry_more_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(live.knobs, "device_name", str)
    below = QueueSet(
        "", None, ("sda", "sdb"), reasons={"sda": ("root is there",), "sdb": ("a", "b")}
    )
    with pytest.raises(SpecError, match=r"is on sdb, .*: a; b") as raised:
        live._refuse_unnamed(tmp_path, below, ("sda",))
    assert raised.value.hint == "--switch sda,sdb"
    live._refuse_unnamed(tmp_path, below, ("sda", "sdb"))


def test_a_series_settles_within_the_least_and_the_most_of_its_second_half():
    smoothed = live_pilot.SMOOTHED_BINS
    for low, high in ((1.0, 9.0), (9.0, 1.0)):
        later = [low] * smoothed * 3 + [high] * smoothed * 3
        assert live_pilot.settling_bins([5.0] * smoothed * 6 + later) == 0
    early = [50.0] * smoothed * 2
    assert live_pilot.settling_bins([*early, *[1.0, 9.0] * smoothed * 4]) > smoothed


def test_an_experiment_reports_each_group_and_every_figure_of_the_users(tmp_path):
    flows = {("a", "read"): flow(fast=5), ("b", "write"): flow(slow=9)}
    flows |= {("a", each): flow(fast=3) for each in durability.OPERATIONS[1:]}
    seen = [Switched("none", 0.1, 1.0, 9.0, Look(1.0, flows), {"read": 5e6})]
    asked = live.LiveRequest(tmp_path, (A, B), 60.0, 600.0, groups=("/one", "/two"))
    experiment_ = live._experiment(asked, QueueSet("", None, ("sda",)), 7, seen, 4.0)
    (work,) = experiment_.workloads
    own = [name for name in (work.metric, *work.secondary) if name.startswith(("one", "two"))]
    assert own == [
        f"{name}_{way}_latency_ns_mean" for way in ("write", "read") for name in ("one", "two")
    ]
    synced = [name for name in work.secondary if name in durability.USUAL]
    assert synced == [name for name in durability.USUAL
                      if name.startswith(tuple(durability.OPERATIONS[1:]))]  # fmt: skip


@pytest.mark.parametrize("column", [1, 3])
def test_a_load_settles_when_both_its_rate_and_its_latencies_do(monkeypatch, column):
    """A series in which one of them settles late, and the other is the same all the time."""
    clocked(monkeypatch, live_pilot)
    settled = []
    for changes_at in (20, 30, 40):
        rows = [[100 * n, 100, 0, 100] for n in range(100)]
        for row in rows[:changes_at]:
            row[column] = 1
            row[3] = row[3] if column == 3 else 1

        @contextlib.contextmanager
        def captured(seconds, rows=rows):
            yield Counted(running([(1, 0)] * 3), [(0, 9, 9, 9), *rows])

        devices = SimpleNamespace(set=lambda candidate: ({}, 0.0), captured=captured)
        (one,) = live_pilot.pilot(devices, (A,), 3.0, (), lambda line: None)
        settled.append(one.settled_s)
    assert settled == pytest.approx([settled[0], settled[0] + 1, settled[0] + 2])
    assert settled[0] > 0


def own_figure(monkeypatch, readings, *, share=None):
    """A figure of the user's whose command or page gives one of these after the other."""
    given = iter(readings)
    made = OwnFigure.__new__(OwnFigure)
    made._metric = parse_output_metric("tps:s=stdout~([0-9]+)")
    made._share, made._is_rate, made._buckets = share, share is None, {}
    made._read = lambda: ({"tps": next(given)}, [])
    made._histogram = lambda: (next(given), [])
    clocked(monkeypatch, live_own_figure)
    monkeypatch.setattr(live_own_figure.prometheus, "quantile",
                        lambda first, last, share: last - first)  # fmt: skip
    return made


def test_a_figure_of_each_period_begins_where_the_period_does(monkeypatch):
    rate = own_figure(monkeypatch, [10.0, 30.0, 100.0, 140.0, 500.0, 507.0])
    values = []
    for seconds in (2.0, 4.0, 7.0):
        rate.begin()
        live_own_figure.time.sleep(seconds)
        values.append(rate.end()[0]["tps"])
    assert values == [10.0, 10.0, 1.0]
    quantile = own_figure(monkeypatch, [5.0, 9.0, 20.0, 50.0, 51.0, 53.0], share=0.99)
    values.clear()
    for _ in range(3):
        quantile.begin()
        values.append(quantile.end()[0]["tps"])
    assert values == [4.0, 30.0, 2.0]


def test_every_candidate_is_explained_on_every_workload_with_files_of_its_own(monkeypatch):
    decides = {"u": "iops", "v": "iops", "w": "ms"}
    works = tuple(Workload(label, "x", metric) for label, metric in decides.items())
    asked = experiment(workloads=works)
    cells = tuple(Cell(3, 0, work, arm, 7, seconds=float(at), ramp_seconds=0.5)
                  for at, work in enumerate("uvw")
                  for arm in ("none", "none" + AA_SUFFIX, "bfq"))  # fmt: skip
    runs = [SimpleNamespace(workload=work, candidate=arm, status="ok",
                            metrics={"iops": 9e9, "ms": 9e9, decides[work]: value * (1 + at)})
            for value, (work, arm) in enumerate(((w, c) for w in "uvw" for c in ("none", "bfq")), 1)
            for at in range(3)]  # fmt: skip
    written, stored, made = [], [], []
    folder = SimpleNamespace(
        plan=SimpleNamespace(cells=cells), runs=lambda: runs,
        recording_path=lambda number: Path(f"requests-{number}"),
        write_capture=lambda number, result: stored.append(result) or f"capture-{number}",
        write_explanations=lambda rows: written.append(len(rows)) or made.__setitem__(
            slice(None), rows),
    )  # fmt: skip
    asked_for = []

    def extra(session, cell, work, candidate, device, scored, recording):
        asked_for.append((cell.workload, cell.candidate, cell.seconds, scored))
        return SimpleNamespace(result=(work.label, candidate.label), engine=(), lead_s=0.0,
                               zero_ns=len(asked_for), tasks={})  # fmt: skip

    monkeypatch.setattr(explain, "_extra_run", extra)
    monkeypatch.setattr(explain, "explanations", lambda *_: [SimpleNamespace(a=1),
                                                             SimpleNamespace(a=2)])  # fmt: skip
    monkeypatch.setattr(explain.knobs, "device_file", lambda name: Path("/dev") / name)
    session = SimpleNamespace(target=SimpleNamespace(device="sda"))
    problem = explain.explain(SimpleNamespace(experiment=asked), folder, session, ["w", "u"])
    assert problem is None and written == [1, 2, 3, 4]
    expected = [("u", "none"), ("u", "bfq"), ("w", "none"), ("w", "bfq")]
    assert stored == expected
    assert asked_for == [(*pair, {"u": 0.0, "w": 2.0}[pair[0]], scored) for pair, scored in zip(
        expected, (2.0, 4.0, 10.0, 12.0), strict=True)]  # fmt: skip
    assert [(row["workload"], row["candidate"], row["capture"], row["requests"], row["zero_ns"])
            for row in made] == [
        (*pair, f"capture-{n}", f"requests-{n}", n + 1) for n, pair in enumerate(expected)
    ]  # fmt: skip
    assert all(row["groups"] == [{"a": 1}, {"a": 2}] for row in made)


@pytest.mark.parametrize("order", [1, -1])
def test_an_explanation_has_the_last_times_and_the_seed_of_each_workload(order, monkeypatch):
    arms = [Candidate(name, {}) for name in ("none" + AA_SUFFIX, "none", "bfq", "kyber")][::order]
    asked = SimpleNamespace(workloads=tuple(Workload(label, "x", "iops") for label in "uv"),
                            candidates=arms, seed=5)  # fmt: skip
    cells = [Cell(block, 0, work, "none", 7, seconds=float(block + 1)) for block in range(3)
             for work in "uv"]  # fmt: skip
    folder = SimpleNamespace(
        plan=SimpleNamespace(cells=cells), runs=list, recording_path=lambda n: Path(f"r{n}"),
        write_capture=lambda n, of: f"c{n}", write_explanations=lambda rows: made.append([*rows]),
    )  # fmt: skip
    seen, made = [], []

    def extra(session, cell, work, candidate, device, scored, recording):
        seen.append((cell.workload, cell.candidate, cell.seed, cell.seconds, recording.name))
        return None if candidate.label == "bfq" else SimpleNamespace(
            result={}, engine=(), lead_s=0.0, zero_ns=1, tasks={})  # fmt: skip

    monkeypatch.setattr(explain, "_extra_run", extra)
    monkeypatch.setattr(explain, "explanations", lambda *_: [])
    session = SimpleNamespace(target=SimpleNamespace(device="sda"))
    explain.explain(SimpleNamespace(experiment=asked), folder, session, "uv")
    names = [arm.label for arm in arms if not arm.label.endswith(AA_SUFFIX)]
    assert [row[:4] for row in seen] == [
        (work, name, cell_seed(5, 0, work), 3.0) for work in "uv" for name in names
    ]
    assert [(row["workload"], row["candidate"], row["capture"]) for row in made[-1]] == [
        (work, name, f"c{at}") for at, (work, name) in enumerate(
            (work, name) for work in "uv" for name in names if name != "bfq")
    ]  # fmt: skip


def test_events_that_a_capture_lost_are_of_every_kind_but_intervals():
    shots = [snapshot(10), snapshot(20)]
    for at, shot in enumerate(shots, 1):
        shot["lost"] = {"intervals": 1000, "a": at, "b": 10 * at, "c": 100 * at}
    assert look(1.0, shots).lost == 333


def test_a_load_under_any_candidate_is_one_and_every_guard_is_understood(tmp_path, monkeypatch):
    control = contextlib.nullcontext(SimpleNamespace(claim=lambda *_: None))
    monkeypatch.setattr(live, "queues_below", lambda _: QueueSet("", None, ("sda",)))
    monkeypatch.setattr(live, "Control", lambda **_: control)
    monkeypatch.setattr(live, "Devices", lambda *_: None)

    def prepared(*requests, guards=()):
        seen = [Switched(name, 0.1, 0.01, 9.0, Look(1.0, {("db", "read"): flow(fast=count)}), {})
                for name, count in zip(("none", "bfq", "x"), requests, strict=True)]  # fmt: skip
        monkeypatch.setattr(live_pilot, "pilot", lambda *_: seen)
        asked = live.LiveRequest(tmp_path, (A, B, C), 1.0, 48.0, wash_out_s=0.05, guards=guards)
        return live.prepared(asked, print)

    for at in range(3):
        assert prepared(*(9 * (n == at) for n in range(3))).stopping.blocks == 12
    with pytest.raises(SpecError, match="nothing used it"):
        prepared(0, 0, 0)
    with pytest.raises(SpecError, match="guard 'x'"):
        prepared(1, 1, 1, guards=("read p99 > 1s", "x", "read p50 > 1s"))
