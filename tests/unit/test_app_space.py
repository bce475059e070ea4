"""What can be tuned, from what is typed to what the device takes; and traces in words."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refused

from schedlab.app import targets
from schedlab.app.compare.comparison import Place
from schedlab.app.trace import files as trace_files
from schedlab.app.tune import question as tune_question
from schedlab.app.tune import space as tune_space
from schedlab.app.tune.question import TuneOptions, preview_lines, question_of, typed_question
from schedlab.errors import HostError, SpecError
from schedlab.host.settings import knobs
from schedlab.nouns import Candidate, Experiment, Target, Workload
from schedlab.run.admitted import Permission
from schedlab.tune.space import (
    QUEUE,
    TABLE,
    Range,
    SchedulerSpace,
    Space,
    Tunable,
    table_space,
)

READS = Workload("reads", "file-test", "iops", {"test": "random-read"})


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Three loop devices, of which one is in use, and a disk."""
    for name, scheduler in {"loop0": "bfq", "loop1": "none", "loop2": "bfq", "loop3": "none",
                            "loop4": "none", "sda": "kyber"}.items():  # fmt: skip
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/scheduler").write_text(f"x [{scheduler}] y\n")
    for name in ("loop1", "loop3"):
        (tmp_path / name / "loop").mkdir()
    (tmp_path / "loop5").mkdir()
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(knobs, "scheduler_file", lambda name: tmp_path / name / "queue/scheduler")
    return tmp_path


def test_the_scheduler_that_a_target_has_without_us(kernel, say):
    default = tune_space.default_scheduler
    for kind in ("scratch", "emulated"):
        target = Target(kind)
        assert default(target, ["kyber"]) == "kyber"
        assert default(target, ["kyber", "bfq"]) == "bfq"  # of two idle devices in three
    assert default(Target("directory", "/srv", switch=("sda",)), ["bfq"]) == "kyber"
    assert default(Target("device", "/dev/sda"), []) == "kyber"
    say(default, Target("directory", "/srv"), ["bfq"])
    for name in ("loop0", "loop2", "loop4"):
        (kernel / name / "queue/scheduler").unlink()
    assert default(Target("scratch"), ["kyber", "bfq"]) == "none"


def test_schedulers_to_tune(monkeypatch, say):
    monkeypatch.setattr(targets, "offered", lambda target, queues: ("none", "bfq", "kyber"))
    names = tune_space.schedulers_of
    assert names(Target("scratch"), "all") == ("none", "bfq", "kyber")
    assert names(Target("scratch"), "kyber,,none,kyber") == ("kyber", "none")
    say(names, Target("scratch"), "bfq,cfq")


class Queue:
    """Stands in for a device: each tunable has a default and takes values of a range."""

    def __init__(self, directory, known):
        self.known = known
        for name, (default, _, _) in known.items():
            (directory / name).write_text(default)

    def set_scheduler(self, queue, scheduler, settings=None):
        for name, value in (settings or {}).items():
            _, low, high = self.known[name]
            if not low <= value <= high:
                raise HostError("refused")


def test_a_space_is_probed(tmp_path, monkeypatch, say):
    monkeypatch.setattr(knobs, "queue_of", lambda name: tmp_path)
    monkeypatch.setattr(knobs, "tunable_path", lambda queue, name: queue / name)
    known = {
        "free": ("5", -9, 999), "high": ("7", -9, 50), "low": ("9", 3, 999), "one": ("4", 4, 4),
        "log": ("0", -9, 60), "text": ("yes", 0, 999), "below": ("1", -9, 1),
    }  # fmt: skip
    control = Queue(tmp_path, known)
    lows = {**dict.fromkeys([*known, "gone"], 0), "below": 2}
    asked = tuple(Tunable(name, low, 99, log=name == "log") for name, low in lows.items())
    both = Space((SchedulerSpace("bfq", asked), SchedulerSpace("none", ())))
    session = SimpleNamespace(queues=("sda",), control=control)
    space, notes = tune_space.probe(session, both)
    assert [each.scheduler for each in space.schedulers] == ["bfq", "none"]
    found = {t.name: (t.low, t.high, t.default) for t in space.schedulers[0].tunables}
    assert found == {
        "free": (0, 99, 5),
        "high": (0, 7, 7),  # more than the default is refused
        "low": (9, 99, 9),
    }
    missing = "below, gone, log, one, text"
    assert notes == [f"not tuned, because the kernel refuses it under bfq: {missing}"]
    alone = Space((SchedulerSpace("bfq", (Tunable("one", 0, 99),)),))
    say(tune_space.probe, session, alone)
    plain = Space((SchedulerSpace("none", ()), SchedulerSpace("bfq", ())))
    assert tune_space.probe(session, plain) == (plain, [])
    log = Space((SchedulerSpace("bfq", (Tunable("free", 0, 99, log=True),)),))
    assert tune_space.probe(session, log)[0].schedulers[0].tunables[0].low == 1
    linear = Space((SchedulerSpace("bfq", (Tunable("free", 0, 1),)),))
    assert tune_space.probe(session, linear)[0].schedulers[0].tunables[0].high == 1


def base_of(scheduler):
    target = Target("directory", "/srv", 1 << 20)
    return Experiment("reads", "io", target, (Candidate(scheduler, {"scheduler": scheduler}),),
                      (READS,), scheduler, 9, margin=0.5, notes=("mine",))  # fmt: skip


@pytest.fixture
def offering(monkeypatch):
    """none, which is set, and bfq are offered."""
    monkeypatch.setattr(targets, "offered", lambda target, queues: ("none", "bfq"))
    monkeypatch.setattr(tune_question, "default_scheduler", lambda target, names: names[0])


@pytest.mark.usefixtures("offering")
def test_a_question_from_options(say):
    base, question = question_of(Place(directory="/srv"), base_of, TuneOptions(budget_s=90.0))
    assert (base.title, base.aa_arm, base.margin) == ("Tuning all schedulers: reads", False, 0.02)
    assert [each.scheduler for each in question.space.schedulers] == ["none", "bfq"]
    assert (question.budget_s, question.seed, question.margin) == (90.0, 9, 0.02)
    assert (question.constraints, question.is_probed) == ((), False)
    options = TuneOptions("bfq", minimise="latency_ns_p99", constraints=("iops>100",), margin=0.125,
                      tunables=("slice_idle",))  # fmt: skip
    base, question = question_of(Place(), base_of, options)
    assert (base.title, base.baseline, base.margin) == ("Tuning bfq: reads", "bfq", 0.125)
    assert base.workloads[0].metric == "latency_ns_p99"
    assert [t.name for t in question.space.schedulers[0].tunables] == ["slice_idle"]
    assert [(c.metric, c.limit) for c in question.constraints] == [("iops", 100.0)]
    assert question.margin == 0.125
    both = TuneOptions(maximise="iops", minimise="latency_ns_p99")
    say(question_of, Place(), base_of, both)
    more = question_of(Place(), base_of, TuneOptions(maximise="iops"))[0]
    assert more.workloads[0].metric == "iops"

    def two(scheduler):
        base = base_of(scheduler)
        more = replace(READS, label="more", metric="throughput_bytes_per_s")
        return replace(base, workloads=(READS, more))

    both, _ = question_of(Place(), two, TuneOptions(maximise="iops"))
    assert [work.metric for work in both.workloads] == ["iops", "iops"]
    shared = "sysctl.vm.dirty_ratio=1..9"
    for ranges in (("slice_idle=0..4", shared), (shared,)):
        with pytest.raises(SpecError, match=r"sysctl\.vm\.dirty_ratio is set for"):
            question_of(Place(), base_of, TuneOptions(ranges=ranges))
    say(question_of, Place(), base_of, TuneOptions(maximise="latency_ns_p99"))
    usual = TuneOptions()
    assert (usual.schedulers, usual.budget_s, usual.margin) == ("all", 1800.0, 0.02)


@pytest.mark.usefixtures("offering")
def test_a_question_as_typed(monkeypatch):
    given = []

    def tuned_work(place, command, typed, report):
        given.append(typed["workloads"])
        return base_of

    monkeypatch.setattr(tune_question, "tuned_work", tuned_work)
    typed = {"job_file": None, "workloads": None, "tests": None, "scheduler": "bfq", "budget": 60.0,
             "tunables": None, "maximise": "iops", "minimise": None, "constraints": (), "ranges":
             ("slice_idle=3..5",), "margin": 0.25}  # fmt: skip

    def asked(command=(), **changes):
        return typed_question(Place(), command, {**typed, **changes}, print)[1]

    question = asked()
    assert given == [("steady-reader", "readers")]
    assert (question.budget_s, question.margin) == (60.0, 0.25)
    tunables = {t.name: (t.low, t.high) for t in question.space.schedulers[0].tunables}
    assert tunables["slice_idle"] == (3, 5)
    for changes in ({"job_file": Path("x")}, {"workloads": ("w",)}, {"tests": ("read",)}):
        asked(**changes)
    asked(("true",))
    assert given[1:] == [None, ("w",), None, None]
    only = asked(tunables=("low_latency",), ranges=())
    assert [t.name for t in only.space.schedulers[0].tunables] == ["low_latency"]


@pytest.mark.usefixtures("offering")
def test_a_search_is_previewed(tmp_path, monkeypatch):
    options = TuneOptions(constraints=("iops>100",), tunables=("slice_idle", "low_latency"),
                      budget_s=90.0)  # fmt: skip
    base, question = question_of(Place(), base_of, options)
    admitted = SimpleNamespace(estimate_s=lambda label: 2.5, writes=(), notes=("his",))
    monkeypatch.setattr(tune_question, "admit", lambda base, permission: admitted)
    lines = preview_lines(base, question, Permission())
    assert lines[:6] == [
        "Tuning all schedulers: reads",
        # A pair takes 5 s, and 60 s are for the search.
        "90 s: about 12 blocks of search, then the best three and none afresh",
        "",
        "tunables, where the kernel offers them:",
        "  none: none",
        "  bfq: slice_idle 0..20 ms, low_latency 0..1",
    ]
    assert lines[6:8] == ["", "workloads (primary metric):"]
    assert lines[8].startswith("  reads: ")
    notes = ["note: mine", "note: his"]
    assert lines[9:] == ["subject to: iops>100", "", "writes:", "  nothing", *notes]
    admitted.writes = ("everything",)
    assert "  everything" in preview_lines(base, question, Permission())


def times(mean):
    return {"mean": mean, "cv": 0.5, "p50": 1500.0, "p99": 2_000_000.0, "max": 3_100.0, "count": 1}


def sizes(count):
    return {"count": count, "mean": 4608.0, "p50": 4096, "p99": 8192, "max": 16384}


def facts(**changes):
    """What is known of a trace."""
    summary = {
        "requests": 4000, "reads": 3000, "writes": 1000, "read_share": 0.75, "bytes": 5000,
        "read_bytes": 3000, "write_bytes": 2000, "span_ns": 2_500_000_000, "requests_per_s": 1600.0,
        "inter_arrival_ns": times(1_234_500.0), "read_size_bytes": sizes(1),
        "write_size_bytes": sizes(0), "sequential_share": 0.125, "devices": 1200,
        "footprint_bytes": 8192, "footprint_is_lower_bound": False, "end_bytes": 9216, "trims": 0,
        "trim_bytes": 1024, "latency_ns": {**times(5000.0), "count": 0},
    }  # fmt: skip
    skipped = {"without_io": 7, "bad": 0}
    return {"format": "msr", "summary": {**summary, **changes}, "skipped": skipped}


def test_facts_of_a_trace(golden):
    more = facts(footprint_is_lower_bound=True, trims=3, latency_ns=times(5000.0))
    more["skipped"]["bad"] = 1200
    lines = [*trace_files.stats_lines(facts()), "", *trace_files.stats_lines(more)]
    golden("commands/trace-stats.txt", "\n".join(lines))


def test_only_formats_that_can_be_written_are_named(tmp_path):
    said, hint = refused(trace_files.convert, "x", tmp_path / "out", "xyz", {})
    assert said == "cannot write trace format 'xyz'"
    named = hint.removeprefix("--to one of ").split(", ")
    assert named == trace_files.formats(writable=True)
    assert set(named) < set(trace_files.formats())


def test_a_conversion_in_words():
    done = {"requests": 4000, "trims_left_out": 0, "skipped": {"bad": 0}}
    document = {"done": done, "format": "msr", "out": "x.csv"}
    head = "4,000 requests from msr to csv: x.csv"
    assert trace_files.converted_lines(document, "csv") == [head]
    done |= {"trims_left_out": 1, "skipped": {"bad": 1500}}
    assert trace_files.converted_lines(document, "csv") == [
        head, "warning: 1 trims omitted", "warning: 1,500 malformed lines skipped"
    ]  # fmt: skip


@pytest.mark.parametrize("scheduler", [name for name in TABLE if name])
def test_a_range_of_any_tunable_of_a_scheduler_is_heeded_also_of_two(scheduler):
    own = {t.name: t for t in (*TABLE[scheduler], *TABLE[QUEUE])}
    ranges = [Range(name, 1, 2) for name in own]
    found = {
        t.name: (t.low, t.high) for t in table_space([scheduler], ranges).tunables_of(scheduler)
    }
    assert found == dict.fromkeys(own, (1, 2))
    others = [Range(t.name, 3, 4) for name in TABLE for t in TABLE[name] if t.name not in own]
    both = table_space([scheduler], [*ranges, *others]).tunables_of(scheduler)
    assert {t.name for t in both} == set(own)
