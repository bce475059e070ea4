"""Of several reads, zones, sizes, models, policies, workers or quanta each counts: rooms that fit a
device, and that give the CPUs to tasks."""

import json
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from experiments import experiment

from schedlab import _core
from schedlab.app.measure import count, labs, measure, switch_cost
from schedlab.errors import HostError, SpecError
from schedlab.host import facts
from schedlab.kinds import Outcome
from schedlab.kinds.cpu_messaging import Messaging
from schedlab.nouns import Candidate, Cell, GateFinding, Planning, Workload
from schedlab.nouns.load_result import CrewResult, TaskResult, TasksResult
from schedlab.run.cpu import cpu_ext, cpu_notes, cpu_policies
from schedlab.run.cpu.cpu_calculations import _metrics
from schedlab.run.cpu.cpu_explain import RunQueueWatch, waiting_of
from schedlab.run.cpu.cpu_policies import PolicySession
from schedlab.run.cpu.cpu_policy import CpuPolicy, parse_policies, parse_policy
from schedlab_sim.fit import datasheet, disk, flash
from schedlab_sim.fit.draws import Draws, _possible
from schedlab_sim.fit.fitted import UNKNOWN, Fitted, lines, number_of
from schedlab_sim.fit.reads import CALL_READS, Reads

MIB = 1 << 20


class Timed:
    """Reads that take as long as the test says, one after the other."""

    def __init__(self, monkeypatch, took_ns=lambda number, offset, length: 1000):
        self.calls, self.now, self.number, self.took_ns = [], 0, 0, took_ns
        monkeypatch.setattr(_core, "timed_reads", self)

    def __call__(self, path, reads, depth, together=False):
        self.calls.append((len(reads), depth))
        rows = []
        for offset, length in reads:
            start = self.now
            self.now += self.took_ns(self.number, offset, length)
            self.number += 1
            rows.append((start, self.now))
        return rows


def reads_of(size=1 << 30):
    return Reads("/dev/x", size, 512)


def test_reads_of_all_calls_are_timed_and_counted(monkeypatch):
    timed, reads = Timed(monkeypatch, lambda number, *_: 1 + number), reads_of()
    places = reads.places(2 * CALL_READS + 3)
    rows = reads.timed(places)
    assert [length for length, _ in timed.calls] == [CALL_READS, CALL_READS, 3]
    assert (rows[:, 1] - rows[:, 0]).tolist() == [1 + n for n in range(len(places))]
    reads.timed(places[:5])
    assert reads.count == len(places) + 5
    times = reads.latencies_ns(places[:3])
    assert times.tolist() == [float(n) for n in range(reads.count - 2, reads.count + 1)]


def test_a_rate_is_that_of_all_reads_until_the_time_is_over(monkeypatch):
    timed, reads = Timed(monkeypatch, lambda *_: 10**6), reads_of()
    assert reads.rate_per_s(2, 0.5) == pytest.approx(1000)
    assert sum(length for length, _ in timed.calls) == reads.count >= 500
    assert [length for length, _ in timed.calls[:3]] == [16, 64, 128]


@pytest.mark.parametrize("large_ms", [3.2, 50.0])
def test_the_time_of_what_is_cached_is_known_for_each_size(monkeypatch, large_ms):
    """But for the largest where it took as long as what is not cached."""
    monkeypatch.setattr(disk.time, "sleep", lambda s: None)
    ms, last = dict(zip(disk.HIT_SIZES, (1.0, 1.5, large_ms), strict=True)), {}

    def took(number, offset, length):
        times = last.setdefault(length, [])
        times.append(ms[length] + len(times) % 24 / (100 if length > 4096 else 1000))
        return round(times[-1] * 1e6)

    Timed(monkeypatch, took)
    found, error = disk._hits(reads_of())
    # Of each size the second of two; the first of all is read in each round.
    small, middle, large = disk.HIT_SIZES
    kept = {small: last[small][2::5], middle: last[middle][1::2], large: last[large][1::2]}
    assert all(len(times) == 24 for times in kept.values())
    if large_ms == 50:
        del kept[large]
    low, high = ({size: np.quantile(times, q) for size, times in kept.items()} for q in (0.15, 0.4))
    assert found == pytest.approx(low)
    assert error == pytest.approx(max(high[size] - low[size] for size in kept) / 2)


@pytest.mark.parametrize(("hits", "expected"), [(disk.ENOUGH, 4 << 10), (disk.ENOUGH - 1, 0)])
def test_votes_for_what_is_read_ahead_are_added(monkeypatch, hits, expected):
    """Of each distance; the last vote alone says the opposite. At one angle what follows was under
    the head after each pause, and looked as if it were cached.
    """
    asked, pauses = [], []
    monkeypatch.setattr(disk.time, "sleep", pauses.append)

    def took(number, offset, length):
        asked.append(number)
        vote = (len(asked) - 1) // 2
        is_near = vote < disk.VOTES
        hit = is_near and vote < hits
        return 100_000 if hit else 5_000_000

    Timed(monkeypatch, took)
    assert disk._read_ahead_bytes(reads_of(), lambda ms: ms < 1) == expected
    assert np.ptp(pauses[: disk.VOTES]) > 0.4 * disk.TURN_MAX_S


def test_votes_for_segments_are_added(monkeypatch):
    rounds = []

    class Known(Reads):
        def timed(self, offsets, *_, **__):
            rounds.append(len(offsets))

        def latencies_ns(self, offsets, *_):
            held = rounds[-1] <= 5
            vote = len(rounds) % disk.VOTES
            return np.array([0.1e6 if held and vote < disk.ENOUGH else 9e6])

    assert disk._segments(Known("/dev/x", 1 << 30, 512), lambda ms: ms < 1) in (4, 5)
    assert len(rounds) % disk.VOTES == 0


@pytest.mark.parametrize("slow", [MIB, MIB // 2])
def test_a_rate_is_the_faster_of_two_ways_to_read(monkeypatch, slow):
    """A disk that reads ahead as much as it keeps lost a turn at each of several such reads."""

    def took(number, offset, length):
        return length * (2 if length == slow else 1)

    Timed(monkeypatch, took)
    assert disk._rate(reads_of(), 0.5, MIB) == pytest.approx(1e9)


def test_completions_of_each_sector_are_in_its_row(monkeypatch):
    monkeypatch.setattr(Timed, "turns", 0, raising=False)
    timed = Timed(monkeypatch, lambda *_: 10**6)
    found = disk._rounds(reads_of())
    assert found.shape == (24, 12) and found.min() == 0
    assert sorted(found.ravel().tolist()) == [float(n) for n in range(24 * 12)]
    assert [length for length, _ in timed.calls] == [24] * 13
    assert all(sorted(found[:, turn])[0] == 24 * turn for turn in range(12))


def test_a_page_is_where_the_first_of_all_distances_is_apart(monkeypatch):
    block, pages = 512, flash.PAGES
    for at in range(len(pages)):
        times = {2 * block: 100.0} | {
            size: 100.0 if n < at else 0.5 * flash.SAME * 100 for n, size in enumerate(pages)
        }
        monkeypatch.setattr(flash, "_pair", lambda reads, size, *_, of=times, **__: of[size])
        assert flash._page_bytes(reads_of()) == (pages[at], True)
    monkeypatch.setattr(flash, "_pair", lambda *_, **__: 100.0)
    for page in pages:

        def took(number, offset, length, page=page):
            return 1000 if offset // page == (offset + length - 1) // page else 2000

        Timed(monkeypatch, took)
        seen, known = flash._page_bytes(reads_of())
        assert known and seen in pages and seen <= max(page, pages[0])


def test_figures_of_flash_are_those_of_all_lengths():
    lengths = {1: 100.0, 2: 102.0, 4: 103.0, 8: 110.0, 16: 150.0, 32: 230.0}
    assert flash._slope(lengths) == (230 - 103) / 28
    assert flash._channels_of_lengths(lengths, 5.0) == 8
    assert flash._channels_of_lengths(lengths, 2.0) == 4
    found = flash._link_bytes_per_s(lengths, 9, 4096, 100.0)
    assert found == 7 * 4096 * 1e9 / 10.0
    steps = np.array([1.0, 2, 3, 40, 5, 6, 7, 300, 9, 10, 11, 50, 13, 14, 15, 2000])
    assert flash.levels(steps, 4, 2, 2) == [8.0, 45.0, 300.0, 2000.0]


def test_the_disk_of_a_data_sheet_has_all_zones_and_names_all_that_is_unknown():
    base = {"model": "disk", "rpm": 7200, "heads": 4, "write_settle": "1ms", "queue_depth": 32,
            "cache": {"segments": 8, "read_ahead": "64k"},
            "zones": [{"cylinders": 10, "sectors_per_track": 1000},
                      {"cylinders": 20, "sectors_per_track": 800},
                      {"cylinders": 30, "sectors_per_track": 500}]}  # fmt: skip
    text = "interface=disk,iops-1=80,iops-32=200,read=200M,write=200M"
    fitted = datasheet.of_datasheet(datasheet.stated(text), base, 1 << 40)
    outer = 200 * MIB * 60 / 7200 * 1.08 / 512 / 1000
    zones = [(zone["cylinders"], zone["sectors_per_track"]) for zone in fitted.value("zones")]
    assert zones == [(c, round(s * outer)) for c, s in ((10, 1000), (20, 800), (30, 500))]
    average = 1 / 80 - 60 / 7200 / 2 - 2e-4
    seeks = [number_of(fitted.value(f"seek_{name}")) for name in ("single", "average", "full")]
    assert seeks == [pytest.approx(part * average * 1e9) for part in (0.1, 1.0, 2.1)]
    unknown = {key for key, error in fitted.errors.items() if error == UNKNOWN}
    assert unknown == {"rpm", "heads", "write_settle", "cache.segments", "cache.read_ahead"}
    with pytest.raises(SpecError, match="interface, write missing"):
        datasheet.stated("iops-1=80,iops-32=200,read=200M")
    with pytest.raises(SpecError, match="--datasheet speed: not known, one of") as raised:
        datasheet.stated(f"{text},speed=3")
    assert all(key in str(raised.value) for key in datasheet.STATED)
    with pytest.raises(SpecError) as raised:
        datasheet.stated(text.replace("=disk", "=tape"))
    assert ", ".join(datasheet.INTERFACES) in str(raised.value)


def test_the_flash_of_a_data_sheet_names_all_that_is_unknown():
    base = {"model": "ssd", "queue": {"depth": 32}, "buffer": {"size": "1M"},
            "ftl": {"over_provisioning": 0.1},
            "flash": {"page": "4096", "channels": 8, "planes_per_die": 2,
                      "block_erase": "1ms"}}  # fmt: skip
    text = "interface=nvme,iops-1=10000,iops-32=200000,read=2G,write=1G"
    text = text.replace("nvme", next(each for each in datasheet.INTERFACES if each != "disk"))
    fitted = datasheet.of_datasheet(datasheet.stated(text), base, 1 << 40)
    unknown = {key for key, error in fitted.errors.items() if error == UNKNOWN}
    assert unknown == {"flash.channels", "flash.block_erase", "buffer.size",
                       "ftl.over_provisioning", "flash.page"}  # fmt: skip
    assert [fitted.value(key) for key in sorted(unknown)] == ["1M", "1ms", 8, "4096", 0.1]


def model_of(read, write, erase, channels=4):
    return (f'model = "ssd"\n[flash]\npage_read = "{read}us"\npage_write = "{write}us"\n'
            f'block_erase = "{erase}us"\nchannels = {channels}\n')  # fmt: skip


def test_what_is_unknown_is_drawn_between_the_least_and_the_most_of_all_models():
    names = ("page_write", "block_erase", "page_read", "channels", "planes_per_die")
    errors = "[fit.error]\n" + "".join(f'"flash.{name}" = "unknown"\n' for name in names)
    # Of reads of 100 us: writes of 200, 1000 and 300, erasures of 500, 4000 and 1000 us.
    others = [model_of(50, 100, 250, 2), model_of(10, 100, 400, 16), model_of(200, 600, 2000, 3),
              model_of(1, 90, 9000, 90).replace("ssd", "disk")]  # fmt: skip
    draws = Draws(model_of(100, 500, 900) + errors, others, "x")
    found = [draws.at(seed) for seed in range(1, 400)]
    for key, low, high in (("flash.page_write", 200e3, 1000e3), ("flash.block_erase", 500e3, 4e6)):
        values = [number_of(each[key]) for each in found]
        assert low * 0.99 <= min(values) < low * 1.05
        assert high * 0.95 < max(values) <= high * 1.01
    channels = {each["flash.channels"] for each in found}
    assert min(channels) == 2 and max(channels) in (15, 16)
    assert draws.at(0) == {} and draws.at(3) == found[2] != found[3]


def test_all_times_of_one_curve_are_changed_where_one_is():
    tables = {"seek_single": "1ms", "seek_average": "5ms", "seek_full": "9ms"}
    assert _possible({"x": 1}, tables) == {"x": 1}
    for name, value in tables.items():
        assert set(_possible({name: value}, tables)) == set(tables)
    kept = _possible({"seek_average": 5e6}, tables)
    assert [type(kept[name]) for name in tables] == [str, int, str]
    assert _possible({"cache.read_ahead": 9, "cache.segment": 5}, {}) == {
        "cache.read_ahead": 9, "cache.segment": 9
    }  # fmt: skip
    ways = {"seek_single": "cylinder_skew", "head_switch": "track_skew"}
    hidden = dict.fromkeys(ways, "1ms") | dict.fromkeys(ways.values(), "2ms")
    made = _possible(dict.fromkeys(ways, "3ms"), hidden)
    assert [number_of(made[way]) for way in ways] == [2e6, 2e6]


def test_a_fitted_file_shows_every_key_load_and_note():
    fitted = Fitted(1 << 30, notes=["n1", "n2"])
    fitted.put("a.x", {"p": 1, "q": 2}, 0.02)
    fitted.put("a.y", [1, 2, 3], 0)
    fitted.put("b.long_name", "5000ns", UNKNOWN)
    for name, rate in (("one", 1000.0), ("two", 2000.0)):
        fitted.self_test.append({"load": name, "rate_per_s": rate, "model_rate_per_s": rate + 50,
                                 "rate_error": 0.05, "p99_error": 0.1})  # fmt: skip
    assert fitted.tables == {"a": {"x": {"p": 1, "q": 2}, "y": [1, 2, 3]},
                             "b": {"long_name": "5000ns"}}  # fmt: skip
    deep = Fitted(1)
    deep.put("a.b.c", 1, 0)
    deep.put("a.b.d", 2, 0)
    assert deep.tables == {"a": {"b": {"c": 1, "d": 2}}} and deep.value("a.b.d") == 2
    shown = lines(fitted)
    assert [line.index(of) for line, of in zip(shown, ("p 1", "3 e", "5 us"), strict=False)
            ] == [len("b.long_name  ")] * 3  # fmt: skip
    shown = [" ".join(line.split()) for line in shown]
    assert shown == [
        "a.x p 1, q 2 ± 2.0%", "a.y 3 entries counted", "b.long_name 5 us unknown", "",
        "self-test device 1/s model 1/s rate p99", "one 1,000 1,050 +5.0% +10.0%",
        "two 2,000 2,050 +5.0% +10.0%", "note: n1", "note: n2",
    ]  # fmt: skip


def waits(count, total, *octaves):
    return {"waits": count, "sum_ns": total, "max_ns": 900, "histogram": list(octaves)}


def test_every_wait_of_the_work_and_the_load_is_told(monkeypatch):
    classes = [
        {"woken": waits(2, 10, (0, 7, 99), (8, 15, 901)), "preempted": waits(4, 80, (0, 7, 4))},
        {"woken": waits(0, 0), "preempted": waits(5, 500, (64, 127, 5))},
    ]
    rows = waiting_of(classes)
    assert [(one.side, one.after, one.waits, one.mean_ns) for one in rows] == [
        ("work", "wake-up", 2, 5.0), ("work", "preemption", 4, 20.0),
        ("load", "preemption", 5, 100.0),
    ]  # fmt: skip
    assert 8 < rows[0].p99_ns <= 16
    sides = []

    class Capture:
        def __init__(self, given):
            sides.extend(given)

        def finish(self):
            return json.dumps({"classes": classes})

    monkeypatch.setattr(_core, "RunQueueCapture", Capture)
    watch = RunQueueWatch([(0, 11), (1, 12), (0, 13), (1, 14)], [False, True])
    assert sides == [(0, 11), (1, 12), (0, 13), (1, 14)] and watch.finish() == rows


def test_policies_of_one_name_are_numbered_and_all_their_settings_kept():
    found = parse_policies("other,fifo,other:slice=3ms,nice=5,batch,other,other,batch")
    assert [c.label for c in found] == [
        "other", "fifo", "other:slice=3ms,nice=5", "batch", "other#2", "other#3", "batch#2"
    ]  # fmt: skip
    assert {"slice_ms", "nice", "policy"} == set(found[2].settings)
    two = parse_policy("tuned=other governor=performance sysctl.kernel.x=3 nice=4")
    assert {"governor", "sysctl.kernel.x", "nice"} < set(two.settings) and two.label == "tuned"


def test_every_setting_of_each_group_is_written(tmp_path, monkeypatch):
    written = []
    control = SimpleNamespace(
        cgroup=lambda name, root: tmp_path / name,
        write_knob=lambda path, text: written.append((path.parent.name, path.name, text)),
    )
    monkeypatch.setattr(cpu_policies, "cpu_hierarchy", lambda: tmp_path)
    settings = cpu_policies.CpuSettings.__new__(cpu_policies.CpuSettings)
    settings.control, settings._groups = control, {}
    for name in ("work", "load"):
        (tmp_path / f"cpu-{name}").mkdir()
    (tmp_path / "cpu-load" / "cpu.shares").touch()
    asked = [("work", 100, "5000/10000"), ("load", 50, "1000/20000"), ("work", 7, "", True)]
    joined = [settings.group(*given) for given in asked]
    assert [Path(path).parent.name for (path,) in joined] == ["cpu-work", "cpu-load", "cpu-work"]
    assert written == [
        ("cpu-work", "cpu.idle", "0"), ("cpu-work", "cpu.weight", "100"),
        ("cpu-work", "cpu.max", "5000 10000"), ("cpu-load", "cpu.idle", "0"),
        ("cpu-load", "cpu.shares", "512"), ("cpu-load", "cpu.cfs_period_us", "20000"),
        ("cpu-load", "cpu.cfs_quota_us", "1000"), ("cpu-work", "cpu.idle", "1"),
        ("cpu-work", "cpu.max", "max 100000"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "config", "throttles"),
    [((6, 11), "n", True), ((5, 19), "n", True), ((6, 12), "n", False), ((7, 0), "n", False),
     ((6, 12), "y", True)],
)  # fmt: skip
def test_what_is_reserved_from_real_time_is_all_told(monkeypatch, release, config, throttles):
    """Of a kernel with the fair server it said that sched_rt_runtime_us acts, too."""
    monkeypatch.setattr(facts, "release", lambda: release)
    monkeypatch.setattr(facts, "config", lambda: {"CONFIG_RT_GROUP_SCHED": config})
    monkeypatch.setattr(cpu_notes, "host_facts", lambda: {
        "sched_rt_runtime_us": "950000", "sched_rt_period_us": "1000000",
        "fair_server_runtime_ns": "50", "fair_server_period_ns": "1000"})  # fmt: skip
    policies = [SimpleNamespace(policy=name) for name in ("rr", "other", "deadline", "fifo")]
    (note,) = cpu_notes._real_time(policies)
    assert note.startswith("deadline, fifo, rr: ")
    assert ("5% by RT throttling" in note) == throttles and "5% by the fair server" in note


def test_a_loader_gets_its_words_and_both_signals(monkeypatch):
    sent, words = [], []
    monkeypatch.setattr(cpu_ext, "STOP_S", 0.0)
    cpu_ext._stop(SimpleNamespace(kill=sent.append, ended=lambda: None))
    assert sent == [signal.SIGINT, signal.SIGTERM]
    monkeypatch.setattr(cpu_ext, "refuse_ext", lambda path: None)
    monkeypatch.setattr(cpu_ext, "text_of", lambda path: "disabled")

    class Background:
        def __init__(self, order, group):
            words.extend(order.argv)

        __enter__ = staticmethod(lambda: SimpleNamespace(kill=sent.append, ended=lambda: True))
        __exit__ = staticmethod(lambda *_: False)

    monkeypatch.setattr(cpu_ext.launch, "background", Background)
    monkeypatch.setattr(cpu_ext, "_await", lambda *_: (None, None))
    policy = CpuPolicy(policy="ext", ext="/bin/scx", ext_args="--one 1 --two")
    with cpu_ext.loaded(SimpleNamespace(end=lambda: []), policy):
        pass
    assert words == ["/bin/scx", "--one", "1", "--two"]


@pytest.fixture
def session(monkeypatch):
    works = tuple(Workload(label, "x", "calculations") for label in "vw")
    made = PolicySession.__new__(PolicySession)
    made.admitted = SimpleNamespace(experiment=experiment(workloads=works, notes=("known",)))
    made.lines, made._tokens = [], lambda kind: {}
    made.report = made.lines.append
    made._told, made.schedulers, made.policies = set(), None, {}
    monkeypatch.setattr(cpu_policies, "CpuCommand", SimpleNamespace)
    made.runs = SimpleNamespace(groups=(), clean_up=lambda commands: made.lines.extend(
        label for label, *_ in commands))  # fmt: skip
    return made


def found(*names):
    return tuple(GateFinding(name, "") for name in names)


def test_commands_of_every_workload_are_rehearsed(session, monkeypatch):
    monkeypatch.setattr(cpu_policies, "arms", lambda _: [SimpleNamespace(label=n) for n in "ab"])
    monkeypatch.setattr(cpu_policies, "notes_of", lambda *_: ["known", "new", "other"])
    kinds = {(w, arm): SimpleNamespace(of=w + arm) for w in "vw" for arm in "ab"}
    session.admitted.kinds, session.admitted.kind = kinds, lambda w, arm: kinds[w.label, arm.label]
    session._rehearse = session._warm_up = lambda label, kind: session.lines.append(kind.of)
    session.runs.groups, session.schedulers = ("x", "y"), SimpleNamespace(paths=["s", "t"])
    session.open()
    assert " ".join((*session.lines, *session.groups)) == "new other vb vb wb wb x y s t"


@pytest.mark.parametrize("order", [1, -1])
def test_any_policy_may_load_a_scheduler_and_any_task_may_have_another(order, monkeypatch):
    for name in ("CpuSettings", "CommandRuns", "policy_in"):
        monkeypatch.setattr(cpu_policies, name, lambda *words: words[-1])
    monkeypatch.setattr(cpu_policies.launch, "WorkGroup", lambda control, name: name)
    arms = [SimpleNamespace(label=name, policy=name) for name in ("ext", "other")][::order]
    monkeypatch.setattr(cpu_policies, "arms", lambda experiment: arms)
    kinds = {("w", arm.label): None for arm in arms}
    admitted = SimpleNamespace(experiment=None, kinds=kinds)
    assert PolicySession(admitted, None, print).schedulers == "scheduler"
    rows = [(3, 0, 0), (3, 0, 0), (3, 5, 0), (0, 0, 0)][::order]
    assert cpu_policies._share_under(CpuPolicy("batch"), rows) == 0.5
    assert cpu_policies._share_under(CpuPolicy("rr", priority=5), [(2, 0, 5), (2, 0, 6)]) == 0.5


def test_every_command_is_rehearsed_warmed_up_and_cleaned_up(session, monkeypatch):
    kinds = {**{label: SimpleNamespace() for label in "vw"}, "mix": "built in"}
    asked = session.admitted.experiment
    session.admitted.experiment = replace(
        asked, workloads=(Workload("mix", "x", "calculations"), *asked.workloads)
    )
    monkeypatch.setattr(cpu_policies, "CpuMixKind", str)
    session.policies = {("mix", arm.label): f"probe {arm.label}"
                        for arm in cpu_policies.arms(asked)}  # fmt: skip
    session._probe = lambda kind, policy: session.lines.append(policy)
    session.admitted.kinds = kinds
    session.admitted.kind = lambda workload, candidate: kinds[workload.label]
    monkeypatch.setattr(cpu_policies, "notes_of", lambda *_: ["known", "one", "two"])
    session._rehearse = lambda label, kind: session.lines.append(f"rehearse {label}")
    session._warm_up = lambda label, kind: session.lines.append(f"warm up {label}")
    session.open()
    probes = [*session.policies.values()]
    assert len(probes) > 1
    assert session.lines == ["one", "two", *probes, *(f"{what} {label}" for label in "vw"
                                             for what in ("rehearse", "warm up"))]  # fmt: skip
    session.lines.clear()
    session.close()
    assert session.lines == ["v", "w"]
    session.lines.clear()
    for text in ("a", "b", "a", "b", "c"):
        session._tell(text)
    assert session.lines == ["a", "b", "c"]


def test_a_run_under_a_policy_has_all_findings(session, monkeypatch):
    kind = SimpleNamespace()
    session.admitted.kind = lambda *_: kind
    session.policies = {("v", "none"): "p", ("w", "bfq"): "q"}
    applied = []
    session.settings = SimpleNamespace(apply=lambda policy: applied.append(policy) or {})
    session.control = SimpleNamespace(check=lambda: found("mine", "yours"))
    scheduler = SimpleNamespace(findings=lambda: found("ejected", "again"), name="scx")

    monkeypatch.setattr(cpu_policies, "loaded", lambda *_: nullcontext((None, scheduler)))
    monkeypatch.setattr(cpu_policies.gates, "snapshot", lambda *_: None)
    monkeypatch.setattr(cpu_policies.gates, "findings", lambda *_: found("swap", "thermal"))
    monkeypatch.setattr(cpu_policies.gates, "neighbour_findings", lambda *_: found("a", "b"))
    monkeypatch.setattr(cpu_policies.gates, "cpu_facts", lambda *_: {})
    session._command = lambda *_: Outcome({}, gates=found("own", "more"))
    work = session.admitted.experiment.workloads[1]
    outcome = session.measure(Cell(0, 0, "w", "bfq", 1), work, Candidate("bfq", {}))
    assert applied == ["q"]
    assert [each.gate for each in outcome.gates] == [
        "ejected", "again", "own", "more", "mine", "yours", "swap", "thermal", "a", "b"
    ]  # fmt: skip
    # What ends by itself has no time of its own.
    kind, mixed = Messaging(), []
    monkeypatch.setattr(cpu_policies, "CpuCommand", type(None))
    session._mix = lambda of, *_: mixed.append(of) or Outcome({})
    session.measure(Cell(0, 0, "w", "bfq", 1, seconds=9.0), work, Candidate("bfq", {}))
    assert mixed == [kind]


def test_calculations_are_those_of_all_workers():
    rows = [TaskResult(count=n, calculation_cpu_ns=n * 10**9) for n in (1, 2, 5)]
    values = _metrics(rows)
    assert (values["calculations"], values["cpu_s"]) == (8.0, 8.0)
    assert values["fairness_jain"] == pytest.approx(64 / (3 * 30))


def test_both_signals_are_noted_and_both_given_back():
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(n) for n in signals]
    others = [lambda *_: None, lambda *_: 0]
    try:
        for number, handler in zip(signals, others, strict=True):
            signal.signal(number, handler)
        with count._noticed_interrupts() as noticed:
            for number in signals:
                signal.raise_signal(number)
            assert noticed == [*signals]
        assert [signal.getsignal(n) for n in signals] == others
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def test_either_of_two_tasks_may_not_have_ended(monkeypatch):
    done = TaskResult(began_ns=100, elapsed_ns=4100)

    def ends(*rows):
        crew = CrewResult(0, [TasksResult("pair", tasks=rows)])
        monkeypatch.setattr(switch_cost, "ran", lambda held: crew)

    class Held:
        def __init__(self, job, policy):
            pass

        def __enter__(self):
            return None

        def __exit__(self, *_):
            return False

    monkeypatch.setattr(switch_cost, "held", Held)
    policy = SimpleNamespace(policy="fifo", priority=3)
    for at in range(2):
        ends(*(msgspec.structs.replace(done, completed=n != at) for n in range(2)))
        with pytest.raises(HostError, match="CPU 1: two tasks"):
            switch_cost._period_ns("x", {"rounds": 10}, policy, 1)
    ends(done, done)
    assert switch_cost._period_ns("x", {"rounds": 10}, policy, 1) == 4000 / 20


def test_every_statement_about_quanta_that_are_there_is_made(monkeypatch):
    arms = tuple(Candidate(label, {"slice_ms": ms}) for label, ms in (("a", 10.0), ("b", 20.0),
                                                                      ("c", 40.0)))  # fmt: skip
    asked = experiment(candidates=arms, baseline="a")

    def statement(kind, *names):
        return {
            "kind": kind,
            "metric": "iops",
            "candidates": list(names),
            "paper": "p",
            "text": "t",
        }

    about = [statement("best", "10 ms", "40 ms"), statement("best", "5 ms", "10 ms"),
             statement("best", "20 ms")]  # fmt: skip
    monkeypatch.setattr(labs, "from_json", lambda cls, content, at: (at, content["candidates"]))
    made = labs._of_quanta(asked, about)
    assert made == (("statements[0]", ["a", "c"]), ("statements[2]", ["b"]))


def test_a_scale_names_any_workload_that_is_not_there():
    data = {"title": "t", "study": "s", "workloads": [{"label": "v"}, {"label": "w"}],
            "scale": {"small": {"parameters": {"v": {"a": 1}, "w": {"a": 2}},
                                "grid": {"w": {"b": [1, 2]}}}}}  # fmt: skip
    assert labs.Lab("x", data).scaled("small")["workloads"] == [
        {"label": "v", "parameters": {"a": 1}, "grid": {}},
        {"label": "w", "parameters": {"a": 2}, "grid": {"b": [1, 2]}},
    ]
    for known in ("v", "w"):
        of = {key: {known: {}, "other": {}} for key in ("parameters", "grid")}
        lab = labs.Lab("x", {**data, "scale": {"small": of}})
        with pytest.raises(SpecError, match=r"scale\.small changes 'other'"):
            lab.scaled("small")
    every = labs.labs()
    names = {path.name.removesuffix(".toml") for path in (labs.PACKAGE / "labs").iterdir()
             if path.name.endswith(".toml")}  # fmt: skip
    assert set(every) == names and len(names) > 2
    assert all(lab.name == name for name, lab in every.items())


def test_all_that_a_plan_leaves_out_or_lengthens_is_told():
    planning = Planning(9, ramp_s={"u": 1.0, "v": 2.5}, omitted={"w": "x", "y": "z"})
    shown = measure.planned_lines(planning)
    assert shown[:3] == [
        "omitted, because the budget is too short: w, y",
        "ramp of u: 1.0 s, where its rates became steady",
        "ramp of v: 2.5 s, where its rates became steady",
    ]
