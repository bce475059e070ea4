"""Live loads without a kernel: intervals, guards, wash-out, and what fits into the time."""

import http.server
import math
import os
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from experiments import run_of

from schedlab.app.live import live
from schedlab.app.live.screen import SECONDS_SHOWN, LiveScreen
from schedlab.cli import cli
from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.host.queues import Node, QueueSet
from schedlab.kinds.live_load import STATISTICS
from schedlab.nouns import Experiment, Stopping, Target, Workload
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.run.command.confinement import Wall
from schedlab.run.live.guard_rails import Rails, parse_guard
from schedlab.run.live.live import Second
from schedlab.run.live.live_figures import Flow, Look, look
from schedlab.run.live.live_own_figure import OwnFigure
from schedlab.run.live.live_pilot import (
    CAUTION,
    Switched,
    _check_names,
    pilot_line,
    settling_bins,
    wash_out_s,
)
from schedlab.store.folder import Folder

FAST, SLOW = (1000, 1249), (8000, 9999)


def flow(fast=0, slow=0):
    return Flow(fast + slow, 4096 * (fast + slow), 1100 * fast + 9000 * slow,
                Counter({FAST: fast, SLOW: slow}))  # fmt: skip


def second(in_flight=1, **flows):
    return Look(1.0, {("db", operation): each for operation, each in flows.items()}, in_flight)


def snapshot(requests, in_flight=0):
    total = {"sum_ns": 1100 * requests, "bins": [[*FAST, requests]]}
    groups = [
        {"class": n, "operation": "read", "requests": requests, "bytes": 512, "total": total}
        for n in (1, 2)
    ]
    return {
        "classes": [{"name": "other"}, {"name": "db"}, {"name": "db"}],
        "groups": groups, "totals": {"in_flight": in_flight, "errors": requests // 10},
        "lost": {"events": 1, "intervals": 5},
        "depth": {"scheduler": {"series": [[0, 2.0]]}, "limits": {"series": [[0, 1.0]]}},
        "waiting": [[1, "read", 5000], [2, "read", 4000]],
        "accounting": {"gap_sectors": 3, "device_sectors": [990, 1000]},
    }  # fmt: skip


def test_two_processes_of_one_name_are_one_group_and_looks_subtract():
    earlier, later = look(1.0, [snapshot(10)]), look(3.0, [snapshot(30, in_flight=4)])
    interval = later - earlier
    assert interval.flow("read", "db") == Flow(40, 0, 44_000, Counter({FAST: 40}))
    assert (interval.at_s, interval.in_flight, interval.lost) == (2.0, 7, 0)
    assert (interval.ages_ns, interval.held) == ({("db", "read"): 5000}, 1)
    assert (interval.gap_sectors, interval.sectors, interval.closes) == (3, 1000, False)
    assert "0.00 MB (0.30%) more than it has" in interval.gap_sentence()
    assert (interval.errors, later.lost) == (2, 1)
    assert interval.metrics(["db"])["db_read_latency_ns_mean"] == 1100
    assert interval.metrics([])["requests_per_s"] == 20
    assert "write_latency_ns_mean" not in interval.metrics(["db"])


def test_a_quantile_is_on_the_line_through_its_bin_and_needs_requests_beyond_it():
    assert flow(fast=100).quantile_ns(0.5) == 1000 + 250 * 0.5
    assert flow(fast=50, slow=50).quantile_ns(0.75) == 8000 + 2000 * 0.5
    assert flow(fast=99).quantile_ns(0.9) is None
    assert flow(fast=99).quantile_ns(0.9, beyond=1) is not None
    assert flow().quantile_ns(0.5, beyond=0) is None


@pytest.mark.parametrize(
    ("text", "group", "statistic", "limit_ns", "for_s"),
    [
        ("read p99 > 50ms for 5s", "", "p99", 50e6, 5.0),
        ("postgres.write mean > 1s", "postgres", "mean", 1e9, 1.0),
        ("read.lat_ns_p99 > 50ms for 5s", "", "p99", 50e6, 5.0),
    ],
)
def test_guards_as_they_are_typed(text, group, statistic, limit_ns, for_s):
    guard = parse_guard(text)
    assert (guard.group, guard.statistic) == (group, statistic)
    assert (guard.limit_ns, guard.for_s) == (limit_ns, for_s)


@pytest.mark.parametrize("text", ["p99 > 5ms", "read p98 > 5ms", "read p99 < 5ms", "read p99 > x"])
def test_a_guard_that_is_not_understood_is_named(text):
    with pytest.raises(SpecError, match="guard '"):
        parse_guard(text)


def test_a_guard_trips_when_its_limit_is_passed_for_all_its_time():
    rails = Rails([parse_guard("read mean > 5us for 3s")])
    slow, fast = second(read=flow(slow=10)), second(read=flow(fast=10))
    assert [rails.see(each) for each in (slow, slow, fast, slow, slow)] == [""] * 5
    assert rails.see(slow).startswith("read mean > 5us for 3s: it is 0.009 ms")
    assert rails.distance(slow) == pytest.approx(9 / 5)


def rated(per_s, latency_ns, age_ns=0):
    """A second of a load: requests of one latency, and the oldest that waits."""
    low = 2 ** int(math.log2(latency_ns))
    bins = Counter({(low, 2 * low - 1): per_s}) if per_s else Counter()
    flows = {("db", "read"): Flow(per_s, 4096 * per_s, latency_ns * per_s, bins)} if per_s else {}
    return Look(1.0, flows, int(age_ns > 0), ages_ns={("db", "read"): age_ns} if age_ns else {})


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("per_s", [1, 3, 50, 99, 100, 1000, 100_000])
@pytest.mark.parametrize("group", ["", "db."])
def test_a_guard_on_any_statistic_sees_any_rate(statistic, per_s, group):
    """A load that became slow sends few requests: fewer than its percentile needs."""
    rails = Rails([parse_guard(f"{group}read {statistic} > 150ms for 3s")])
    fast, slow = rated(100_000, 200_000), rated(per_s, 339_000_000)
    assert [rails.see(fast, "bfq") for _ in range(5)] == [""] * 5
    assert [rails.see(slow, "bfq") for _ in range(2)] == ["", ""]
    assert rails.see(slow, "bfq").startswith(f"{group}read {statistic} > 150ms for 3s: it is ")


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_guard_sees_the_age_of_what_waits_and_does_not_count_sleep(statistic):
    rails = Rails([parse_guard(f"read {statistic} > 1s for 2s")])
    waits = [rated(0, 1, age_ns) for age_ns in (500_000_000, 1_500_000_000, 2_500_000_000)]
    assert [rails.see(each) for each in waits[:2]] == ["", ""]
    assert [rails.see(Look(1.0)) for _ in range(9)] == [""] * 9
    assert "it is 2.5e+03 ms" in rails.see(waits[2])
    mixed = replace(rated(3, 200_000, 1), ages_ns={("db", "read"): 4_000_000_000})
    trips = rails.see(mixed)
    # Three requests are a mean, and a median; a higher percentile is that of what waits, too.
    assert bool(trips) == (statistic not in ("mean", "p50"))


def test_a_guard_is_counted_over_all_periods_of_a_candidate():
    """Periods of a second, and a guard of three: only bfq is slow."""
    rails = Rails([parse_guard("read p99 > 150ms for 3s")])
    fast, slow = rated(1000, 200_000), rated(3, 339_000_000)
    seen = [rails.see(s, n) for _ in range(3) for s, n in ((fast, "none"), (slow, "bfq"))]
    assert seen[:-1] == [""] * 5 and seen[-1]


def test_a_guard_is_counted_over_seconds_in_a_row_and_the_baseline_includes_its_a_a_arm():
    rails = Rails([parse_guard("read p99 > 150ms for 3s")])
    fast, slow = rated(1000, 200_000), rated(3, 339_000_000)
    assert [rails.see(slow, name) for name in ("none", "bfq")] == ["", ""]
    assert rails.see(slow, "kyber")
    rails = Rails([parse_guard("read p99 > 150ms for 3s")])
    order = ((slow, "none"), (fast, "bfq"), (slow, "none (A/A)"), (fast, "bfq"))
    assert [rails.see(each, name) for each, name in order] == [""] * 4
    assert rails.see(slow, "none")


def test_what_a_limit_holds_waits_though_its_age_is_unknown():
    rails = Rails([parse_guard("read p99 > 1s for 1s")])
    held = Look(1.0, in_flight=2, held=2)
    assert rails.see(held) == ""
    assert "it is 2e+03 ms" in rails.see(held)


def test_a_guard_on_a_process_that_is_not_there_is_refused_with_the_one_meant():
    seen = [Switched("none", 0.01, 1.0, 10.0, second(read=flow(fast=9)), {})]
    _check_names([parse_guard("db.read p99 > 1s"), parse_guard("read p99 > 1s")], seen)
    with pytest.raises(SpecError, match="nothing named bd used the device") as error:
        _check_names([parse_guard("bd.read p99 > 1s")], seen)
    assert error.value.hint == "--guard 'db.read p99 > 1s'"


def test_another_group_does_not_trip_a_guard():
    rails = Rails([parse_guard("web.read mean > 5us for 1s")])
    assert rails.see(second(read=flow(slow=10))) == ""


def test_an_error_trips_at_once():
    assert Rails([]).see(replace(second(read=flow(fast=9)), errors=2)) == "I/O errors: 2 in 1 s"


def test_requests_that_never_complete_trip_it_and_an_idle_device_does_not():
    rails = Rails([], stuck_s=3)
    assert [rails.see(second(in_flight=0)) for _ in range(5)] == [""] * 5
    assert [rails.see(second()) for _ in range(2)] == ["", ""]
    assert rails.see(second(read=flow(fast=1))) == ""
    assert [rails.see(second()) for _ in range(2)] == ["", ""]
    assert "no request completed for 3 s, with 1 in flight" in rails.see(second())


def test_the_screen_fits_80_columns_and_shows_the_last_seconds():
    screen = LiveScreen()
    for n in range(2 * SECONDS_SHOWN):
        flows = {("a name that is too long", "read"): flow(fast=100, slow=n % 9)}
        screen.see(Second("bfq", 1.0 + n, 60.0, n < 6, Look(1.0, flows, 1), 0.4))
    lines = screen.text().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1] == "bfq: measured, 2 s left of it" and "40 % of its limit" in lines[-1]
    assert lines[2].startswith("a name that is too l p50 0.00113  p99 0.00931 ms  ███")


def test_the_screen_has_a_heat_map_of_its_seconds_in_which_a_stall_is_empty():
    screen, ms = LiveScreen(), 1_000_000
    for n in range(12):
        bins = Counter({(900, 1100): 500} if n != 5 else {})
        bins[16 * ms, 17 * ms] += 3 * (n == 8)
        flows = {("reader", "read"): Flow(500, 0, 1, bins)}
        name = "none" if n < 6 else "bfq"
        screen.see(Second(name, 1.0 + n, 60.0, False, Look(1.0, flows), None))
    slow, *between, fast, names = screen.text().splitlines()[3:]
    assert slow == "      17 ms         ░   "
    assert fast == "       1 µs █████ ██████"
    assert {line[12:] for line in between} == {" " * 12}
    assert names == " " * 12 + "none──bfq───"


def test_a_series_settles_where_it_stays_within_the_spread_of_its_second_half():
    noise = [10.0, 12.0, 11.0, 9.0, 10.0] * 8
    assert settling_bins(noise) <= 2
    assert settling_bins([100.0] * 10 + noise) == 10
    # One high value at the end counts as a part of its five bins, never alone.
    assert settling_bins([15.0] * 10 + noise[:-1] + [20.0]) == 9
    assert settling_bins([float("nan")] * 20) == 0
    assert settling_bins([]) == 0


def test_a_switch_is_told_with_what_it_held_and_whether_its_load_settled():
    lines = [pilot_line(Switched("bfq", 0.012, s, 10.0, Look(), {})) for s in (4.4, 4.5, 5.0)]
    held = "pilot: a switch to bfq held requests for 12 ms at most"
    assert lines == [f"{held}, settled after 4.4 s", *[f"{held}, not settled by its end"] * 2]


def test_the_wash_out_is_that_of_the_slowest_wherever_it_stands():
    one, two = (Switched("bfq", 0.01, s, 10.0, Look(), {}) for s in (4.0, 1.0))
    assert wash_out_s([one, two]) == wash_out_s([two, one]) == CAUTION * 4.0


def test_what_does_not_fit_is_refused_with_figures_that_would_do():
    question = live.LiveRequest(Path("/dev/x"), parse_candidates("none,bfq"), 60.0, 3600.0)
    assert live.blocks_of(question) == 20
    with pytest.raises(SpecError, match="fit 11 times") as error:
        live.blocks_of(replace(question, for_s=2159.0))
    assert error.value.hint == "--for 2160s, or --every 59.9s"
    assert live.blocks_of(replace(question, for_s=2159.0, every_s=59.9)) == 12
    assert live.blocks_of(replace(question, for_s=39.6, every_s=1.1)) == 12
    with pytest.raises(SpecError) as error:
        live.blocks_of(replace(question, for_s=16.0, every_s=1.01))
    assert error.value.hint == "--for 37s"  # no period of 0.4 s, which would be refused
    with pytest.raises(SpecError, match="at least 1 s"):
        live.blocks_of(replace(question, every_s=0.5))
    with pytest.raises(SpecError, match="nothing to be compared with"):
        live.blocks_of(replace(question, candidates=parse_candidates("none")))


def test_a_queue_that_carries_more_than_the_directory_is_switched_only_when_named(
    tmp_path, monkeypatch
):
    below = QueueSet(str(tmp_path), Node("x"), ("sdx",), (), {"sdx": ("it carries /",)})
    monkeypatch.setattr(live, "queues_below", lambda path: below)
    monkeypatch.setattr(live.knobs, "device_name", lambda name: name)
    typed = dict.fromkeys(("metric", "groups"))
    with pytest.raises(SpecError, match=r"sdx, .* only when you name it: it carries /") as error:
        live.question(tmp_path, (), {**typed, "switch": ("thp",)})
    assert error.value.hint == "--switch thp,sdx"
    live._refuse_unnamed(tmp_path, below, ("sdx",))


@pytest.fixture
def counter():
    """A page of this machine with a counter that grows by 50 between two visits; its address."""

    class Page(http.server.BaseHTTPRequestHandler):
        visits = 0

        def do_GET(self):
            Page.visits += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"# TYPE x counter\ncommits {50 * Page.visits}\n".encode())

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def test_a_figure_comes_from_a_command_a_file_or_a_page(counter, tmp_path):
    file = tmp_path / "tps"
    file.write_text("tps 7")
    of_command = OwnFigure("tps:1/s=stdout~tps ([0-9]+)", ["echo", "tps 5"])
    of_file = OwnFigure(f"tps:1/s=file:{file}~tps ([0-9]+)", [])
    of_page = OwnFigure(f"tps:1/s={counter}~^commits ([0-9]+)", [])
    assert [each.end() for each in (of_command, of_file, of_page)] == [
        ({"tps": 5.0}, []), ({"tps": 7.0}, []), ({"tps": 50.0}, []),
    ]  # fmt: skip
    OwnFigure("tps:1/s=stdout~tps ([0-9]+)", ["echo", "tps 5"]).check()
    refused = ["sh", "-c", "echo tps 5; echo Peer authentication failed >&2; exit 2"]
    with pytest.raises(SpecError, match="sh exited with status 2: Peer authentication failed"):
        OwnFigure("tps:1/s=stdout~tps ([0-9]+)", refused).check()
    for unread in (OwnFigure("tps:1/s=file:/absent~(.*)", []),
                   OwnFigure("tps:1/s=stdout~(.*)", ["/absent"])):  # fmt: skip
        values, gates = unread.end()
        # It discards no latencies of its period.
        assert (values, gates[0].gate, gates[0].fatal) == ({}, "no-value", False)
    # Beside other programs, of which it sees none unless it asks for that.
    line = ["sh", "-c", f"test -d /proc/{os.getpid()} && echo tps 1 || echo tps 2"]
    if not Wall().missing:
        for confine, seen in (("devices", 2.0), ("nothing", 1.0)):
            figure = OwnFigure("tps:1/s=stdout~tps ([0-9]+)", line, confine)
            assert figure.end() == ({"tps": seen}, [])
            assert figure.confinement["confinement"]["held"] == confine
    with pytest.raises(SpecError, match="not a page of this machine"):
        parse_output_metric("tps:1/s=http://example.org/metrics~(.*)", of_live_load=True)


def test_a_counter_is_read_at_both_ends_of_a_period(counter, tmp_path, monkeypatch):
    moments = iter([100.0, 104.0])
    live_own_figure = sys.modules[OwnFigure.__module__]
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr(live_own_figure, "time", clock)
    growing = OwnFigure(f"tps:1/s={counter}~^commits ([0-9]+)!rate", [])
    growing.begin()
    assert growing.end() == ({"tps": 12.5}, [])


ETCD = """# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} %d
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} %d
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004"} %d
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} %d
etcd_disk_wal_fsync_duration_seconds_sum 9.8
"""


@pytest.mark.parametrize(
    ("took", "later", "value"),
    [
        ("p99", (5000, 5000, 5100, 5100), 3.98),
        ("p50", (5100, 5100, 5100, 5100), 0.5),
        ("p90", (5000, 5000, 5000, 5100), 4.0),  # beyond the last bucket: at least its end
        ("p99", (5000, 5000, 5000, 5000), None),
    ],
)
def test_a_quantile_of_a_histogram_is_that_of_the_period(took, later, value, tmp_path):
    """5,000 fast calls of fsync were before it."""
    page = tmp_path / "metrics"
    name = "etcd_disk_wal_fsync_duration_seconds"
    figure = OwnFigure(f"wal:ms:lower=file:{page}~{name}!{took}", [])
    page.write_text(ETCD % ((5000,) * 4))
    figure.check()
    figure.begin()
    page.write_text(ETCD % later)
    values, gates = figure.end()
    assert values == ({} if value is None else {"wal": pytest.approx(value)})
    assert [gate.detail for gate in gates] == (
        [] if value is not None else ["wal: nothing was counted in this period"]
    )


def test_a_histogram_that_is_not_there_is_refused_before_the_first_switch(tmp_path):
    page = tmp_path / "metrics"
    page.write_text(ETCD % ((1,) * 4))
    with pytest.raises(SpecError, match="wal: there is no histogram etcd_disk_x"):
        OwnFigure(f"wal:ms=file:{page}~etcd_disk_x!p99", []).check()


@pytest.mark.parametrize(
    ("counts", "metric", "value"),
    [
        ((0, 8), "tps:1/s", 2.0),
        ((5, 5), "tps:1/s", 0.0),
        ((5, 5), "errors:1/s:lower", 0.25),
        ((5, 2), "tps:1/s", None),
    ],
    ids=["from-zero", "still", "still-and-less-is-better", "back"],
)
def test_a_counter_that_stands_still_is_an_outcome_and_one_that_goes_back_is_not(
    counts, metric, value, tmp_path, monkeypatch
):
    """Over 4 s. Where less is better 0 counts as less than one: it has no logarithm."""
    file, moments = tmp_path / "counter", iter([100.0, 104.0])
    figure = OwnFigure(f"{metric}=file:{file}~([0-9]+)!rate", [])
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr(sys.modules[OwnFigure.__module__], "time", clock)
    file.write_text(f"{counts[0]}")
    figure.begin()
    file.write_text(f"{counts[1]}")
    values, gates = figure.end()
    assert [*values.values()] == ([] if value is None else [value])
    assert [gate.detail for gate in gates] == (
        [] if value is not None else ["tps: its counter went back from 5 to 2"]
    )


@pytest.mark.parametrize(("settled_s", "is_told"), [(2.0, True), (0.5, False), (None, False)])
def test_a_wash_out_that_the_pilot_found_too_short_is_told(tmp_path, settled_s, is_told):
    """bfq raises the weights of processes that are new to it: for a second after each switch."""
    times = {"wash_out_s": 1.0, "settled_s": settled_s}
    known = times if settled_s else {}  # a result of an earlier version has neither
    work = Workload("live load", "live-load", "read_latency_ns_mean", {})
    target = Target("device", "/dev/sdb", 1 << 30)
    candidates, stopping = parse_candidates("none,bfq"), Stopping(blocks=3)
    asked = Experiment("t", "io", target, candidates, (work,), "none", 1, stopping)
    folder = Folder.create(tmp_path / "live", asked, make_plan(asked), {})
    for cell in folder.plan.cells:
        properties = {"switch_s": 0.03, **known}
        folder.append(run_of(cell, {work.metric: 1e6}, properties=properties))
    shown = CliRunner().invoke(cli, ["analyse", str(tmp_path / "live")]).output
    assert "A switch held requests for 30 ms" in shown
    assert ("The wash-out of 1.0 s is short" in shown) == is_told
