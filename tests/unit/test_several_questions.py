"""Of several requirements, metrics, candidates, modes, sheets or differences each counts: rooms
that make an experiment of what is asked, and compare two results."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import answers
import pytest
import reports
from test_diff import HOST, result
from test_wishes import ASKED, of_fio

from schedlab.app.compare import csv_import, difference, own_work, requirements
from schedlab.app.compare.agreement import _doubts, _labels, _metric, _narrowed
from schedlab.app.compare.calls import sweep_experiment
from schedlab.app.compare.comparison import (
    Place,
    candidates_of,
    experiment_of,
    labelled,
    target_of,
)
from schedlab.app.compare.own_work import OwnWork
from schedlab.app.compare.recorded_work import workload_of as recorded
from schedlab.errors import SpecError
from schedlab.nouns import AA_SUFFIX, Candidate, Metric, Require, Target, Workload, durability
from schedlab_sim import quiz

TRACE = Path(__file__).parents[1] / "data" / "traces" / "tpcc-small.trace"


def test_every_assignment_is_read():
    given = ("os=A", "disk=b=c")
    assert csv_import._assignments("--set", given) == {"os": "A", "disk": "b=c"}


def test_each_requirement_counts_also_two_on_one_workload():
    texts = ["copy throughput > 1M", "steady reader mean < 1ms", "reader max < 8ms",
             "reader p90 < 5ms"]  # fmt: skip
    asked = requirements.with_requirements(ASKED, texts)
    reader = [f"reader_latency_ns_{name}" for name in ("mean", "max", "p90")]
    assert asked.requires == (
        Require("copy", "throughput_bytes_per_s", 2.0**20, below=False),
        *(Require("steady reader", name, limit) for name, limit in zip(
            reader, (1e6, 8e6, 5e6), strict=True)),
    )  # fmt: skip
    assert [work.secondary for work in asked.workloads] == [
        (), ("reader_latency_ns_p99", *reader[1:]), ()
    ]  # fmt: skip


def test_any_metric_of_a_workload_may_be_required_and_all_are_offered():
    work = Workload("w", "x", "requests_per_s", secondary=("read_latency_ns_p99", "cpu_s"))
    asked = replace(ASKED, workloads=(work,))
    assert requirements.requirement_of(asked, "w cpu < 2s").metric == "cpu_s"
    assert requirements.requirement_of(asked, "w p90 < 2s").metric == "read_latency_ns_p90"
    with pytest.raises(SpecError) as raised:
        requirements.requirement_of(asked, "w speed < 2s")
    assert raised.value.hint == "name one of: requests_per_s, read_latency_ns_p99, cpu_s"
    with pytest.raises(SpecError, match="names several workloads") as raised:
        requirements.workload_of(ASKED, "e")
    assert raised.value.hint == "name one of: newcomer beside writers, steady reader"


def test_fsync_of_any_metric_that_a_workload_has_is_meant():
    known = of_fio("a.sync.lat_ns_p50", "a.sync.lat_ns_p99")
    work = replace(known.workloads[0], secondary=("a.sync.lat_ns_p50", "a.sync.lat_ns_p99"))
    found = requirements.requirement_of(replace(known, workloads=(work,)), "fsync p99 < 10ms")
    assert found.metric == "a.sync.lat_ns_p99"


def test_a_command_has_all_its_metrics_in_the_order_typed():
    typed = ["rate:1/s=stdout~rate ([0-9]+)", "elapsed", "count:1/s=stdout~count ([0-9]+)"]
    names, extract = own_work.metrics_of(typed)
    assert (names, extract) == (["rate", "elapsed_s", "count"], [typed[0], typed[2]])
    with pytest.raises(SpecError, match="count is named twice"):
        own_work.metrics_of([*typed, "count:s=stdout~([0-9]+)"])
    work = own_work.workload_of(OwnWork(argv=("/bin/true",), metrics=tuple(typed)))
    assert work.metric == "rate" and work.secondary[:2] == ("elapsed_s", "count")
    assert len({*work.secondary}) == len(work.secondary) > 4


def fio(tmp_path, *metrics):
    (tmp_path / "two.fio").write_text(
        "[global]\nsize=1m\n[log]\nrw=write\nfsync=1\n[data]\nrw=rw\nfsync=4\n[scan]\nrw=read\n"
    )
    job = OwnWork(job_file=str(tmp_path / "two.fio"), metrics=metrics)
    return own_work.workload_of(job, "fio-job")


def test_every_job_of_a_file_may_be_named_and_each_that_syncs_has_its_metrics(tmp_path):
    with pytest.raises(SpecError, match="several jobs: name the metric") as raised:
        fio(tmp_path)
    assert raised.value.hint == (
        "--metric log.write.lat_ns_p99 (or of data.read, data.write, scan.read)"
    )
    work = fio(tmp_path, "scan.read.iops", "data.write.iops")
    assert work.metric == "scan.read.iops"
    assert work.secondary[:5] == (
        "data.write.iops", "log.sync.lat_ns_p50", "log.sync.lat_ns_p99",
        "data.sync.lat_ns_p50", "data.sync.lat_ns_p99",
    )  # fmt: skip
    with pytest.raises(SpecError, match=r"--metric none\.read\.iops") as raised:
        fio(tmp_path, "scan.read.iops", "none.read.iops")
    assert all(f"{job}." in raised.value.hint for job in ("log", "data", "scan"))
    assert all(name in raised.value.hint for name in ("elapsed", "cpu"))


def test_a_recorded_load_has_the_metrics_of_all_it_does():
    typed = {"trace": str(TRACE), "metrics": (), "timing": "open", "fit": "wrap"}
    work = recorded(Place(), typed)
    measured = (work.metric, *work.secondary)
    assert measured[:7] == (
        *(f"{way}_latency_ns_{what}" for way in ("read", "write") for what in ("mean", "p99")),
        "requests_per_s", "read_bytes_per_s", "write_bytes_per_s",
    )  # fmt: skip
    assert {"timing", "fit"} <= set(work.parameters)
    named = recorded(Place(), typed | {"metrics": ("write_bytes_per_s", "requests_per_s")})
    assert (named.metric, named.secondary[0]) == ("write_bytes_per_s", "requests_per_s")
    assert {named.metric, *named.secondary} == set(measured)
    with pytest.raises(SpecError, match="--metric speed: the replay of"):
        recorded(Place(), typed | {"metrics": ("requests_per_s", "speed")})


def test_a_sweep_has_every_mode_on_every_size_in_both_halves():
    sweep = sweep_experiment(
        Place(scratch_bytes=1 << 30), block_sizes=(512, 8192), modes=("buffered", "direct"),
        same_bytes=1 << 20, calls=7, direction="write", blocks=2, seed=1,
    )  # fmt: skip
    assert [(work.parameters, work.metric) for work in sweep.workloads] == [
        ({"block_bytes": size, "direction": "write", name: value}, metric)
        for size in (512, 8192)
        for name, value, metric in (("total_bytes", 1 << 20, "elapsed_s"),
                                    ("calls", 7, "seconds_per_call"))
    ]  # fmt: skip
    assert {work.chosen["block_bytes"] for work in sweep.workloads} == {8192}
    assert [c.label for c in sweep.candidates] == ["buffered", "direct"]
    assert [[v for k, v in c.settings.items() if k.endswith("mode")] for c in sweep.candidates] == [
        ["buffered"], ["direct"]
    ]  # fmt: skip
    with pytest.raises(SpecError, match="mode 'other' is not known"):
        sweep_experiment(
            Place(), block_sizes=(512,), modes=("direct", "other"), same_bytes=None, calls=None,
            direction="write", blocks=2, seed=1,
        )  # fmt: skip


def test_candidates_are_those_of_both_options_each_under_its_own_label():
    named = candidates_of("none,bfq", None, Target("scratch"), ("kyber", "mq-deadline")).candidates
    assert [c.settings["scheduler"] for c in named] == ["none", "bfq", "kyber", "mq-deadline"]
    two = labelled(named[:2], "before,after")
    assert [(c.label, c.settings["scheduler"]) for c in two.candidates] == [
        ("before", "none"), ("after", "bfq")
    ]  # fmt: skip
    assert two.notes == ("before is none", "after is bfq")
    with pytest.raises(SpecError, match="--scratch and --directory cannot"):
        target_of(Place(scratch_bytes=1, directory="/", device=None))


def test_a_student_has_a_sheet_of_each_seed_with_the_result_of_each_setting(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(quiz, "page", lambda sheets, texts: made.extend(sheets) or b"")
    monkeypatch.setattr(quiz, "inputs", lambda options: (f"tasks {options['seed']}", "ab", None))
    monkeypatch.setattr(quiz, "simulate", lambda tasks, one: f"{tasks} under {one}")
    options = {"tasks": None, "processes": None, "seed": 7}
    assert quiz.write_sheets(options, 3, tmp_path / "page", None) == 7
    assert [(sheet.seed, sheet.tasks, sheet.results) for sheet in made] == [
        (n, f"tasks {n}", [f"tasks {n} under {one}" for one in "ab"]) for n in (7, 8, 9)
    ]


def test_all_that_became_worse_or_better_is_decided():
    keep = answers.KEEP
    rows = (keep.rows[0], replace(keep.rows[0], name="w1", workload="w1"))
    proven = replace(keep.cells["w0"]["b"], loss=0.3, low=0.2, up=0.4)
    best = replace(keep.cells["w0"]["a"], loss=0.0, low=0.0, up=0.0)

    def of(*slower):
        return replace(keep, rows=rows, counted=("w0", "w1"), cells={
            row.name: {"old": best, "new": proven} if row.name in slower
            else {"old": proven, "new": best} for row in rows})  # fmt: skip

    record = reports.record_of(keep)
    found = difference.Difference(
        record, {"a": of("w0", "w1"), "b": of("w1")}, ("old", "new"), {}, "sessions", False, None,
        Path(), None,
    )  # fmt: skip
    worse = [("a", "w0"), ("a", "w1"), ("b", "w1")]
    assert [each[:2] for each in found.decided()] == worse
    assert [each[:2] for each in found.decided(better=True)] == [("b", "w0")]
    document = found.as_json()
    told = [[(of["candidate"], of["row"]) for of in document[key]] for key in ("worse", "better")]
    assert told == [worse, [("b", "w0")]]


def test_each_difference_of_two_machines_is_told_and_each_that_counts_refused(tmp_path):
    other = {"kernel": {"release": "6.2"}, "cpu": {"model": "B", "usable": 4},
             "clock": {"source": "hpet"}, "versions": {"schedlab": "9"}}  # fmt: skip
    lines = []
    with pytest.raises(SpecError, match=r"differ in cpu\.model, cpu\.usable, clock\.source"):
        difference.difference(
            result(tmp_path / "a", {}), result(tmp_path / "b", {}, other), False, None, lines.append
        )
    assert lines == [
        f"differs: {name}: {was} -> {now}" for name, was, now in (
            ("kernel.release", "6.1", "6.2"), ("versions.schedlab", None, "9"),
            ("cpu.model", "A", "B"), ("cpu.usable", 2, 4), ("clock.source", None, "hpet"))
    ]  # fmt: skip
    assert difference.environment_differences(HOST, HOST) == {}


def test_workloads_of_one_name_are_each_the_same_work():
    record = reports.record_of(answers.TRADE)
    works = record.experiment.workloads
    for changed in (works[1], works[-1]):
        changed_works = tuple(replace(w, parameters={"x": 1}) if w is changed else w for w in works)
        again = replace(record, experiment=replace(record.experiment, workloads=changed_works))
        with pytest.raises(SpecError, match=f"workload '{changed.label}' differs"):
            difference.require_same_work(record, again)
    for key in ("kind", "size_bytes"):
        target = replace(record.experiment.target, **{key: "x"})
        with pytest.raises(SpecError, match=f"the targets differ: {key}"):
            difference.require_same_work(
                record, replace(record, experiment=replace(record.experiment, target=target))
            )


def test_the_metric_of_a_replay_is_one_that_both_have_and_the_candidates_those_of_both():
    def of(kind, metric, measured, labels):
        record = reports.record_of(answers.KEEP)
        runs = tuple(replace(run, workload="w", metrics={"cpu_s": 1.0, name: 1.0})
                     for run in record.runs for name in measured)  # fmt: skip
        works = (Workload("w", kind, metric),)
        arms = tuple(Candidate(name, {"scheduler": name}) for name in labels)
        asked = replace(record.experiment, workloads=works, candidates=arms, baseline=labels[0])
        return replace(record, experiment=asked, runs=runs)

    live = of("live-load", "elapsed_s", ("x",), "cab")
    replayed = of("trace-replay", "iops", ("iops",), "abd")
    with pytest.raises(SpecError, match="none of elapsed_s, iops in common"):
        _metric(live, replayed)
    assert _metric(of("live-load", "elapsed_s", ("x", "iops"), "ab"), replayed) == "iops"
    assert _metric(of("live-load", "cpu_s", ("x",), "ab"), replayed) == "cpu_s"
    labels = _labels(live, replayed)
    assert labels == ("a", "b")
    arms = [replace(run, candidate=name) for run in live.runs[:1]
            for name in ("c", "a", "b", f"b{AA_SUFFIX}")]  # fmt: skip
    found = _narrowed(replace(live, runs=tuple(arms)), "x", labels)
    assert [c.label for c in found.experiment.candidates] == ["a", "b"]
    assert [run.candidate for run in found.runs] == ["a", "b", f"b{AA_SUFFIX}"]
    assert found.experiment.baseline == "a"
    assert _narrowed(replace(live, experiment=replace(live.experiment, baseline="b")), "x",
                     labels).experiment.baseline == "b"  # fmt: skip


def test_a_recording_is_of_any_of_the_devices_of_the_live_load():
    live = SimpleNamespace(experiment=SimpleNamespace(
        target=Target("directory", "/srv", switch=("sdb", "sda"))))  # fmt: skip

    def doubts(device):
        runs = [SimpleNamespace(properties=of) for of in ({}, {"fidelity": {"device": device}})]
        return _doubts(live, SimpleNamespace(runs=runs))

    assert doubts("sda") == doubts("sdb") == []
    assert doubts("sdc") == ["the load was recorded on sdc; the live one is on sda, sdb, srv"]


def test_any_run_of_either_side_may_have_the_metric_that_decides():
    def of(kind, *measured):
        record = reports.record_of(answers.KEEP)
        runs = tuple(replace(record.runs[0], workload="w", metrics=each) for each in measured)
        works = (Workload("w", kind, "x"),)
        return replace(record, experiment=replace(record.experiment, workloads=works), runs=runs)

    both = ({"x": 1.0}, {"y": 1.0})
    for one in (both, both[::-1]):
        for other in (both, both[::-1]):
            assert _metric(of("live-load", *one), of("trace-replay", *other)) == "x"


def test_a_target_has_all_that_was_asked_of_it():
    place = Place(scratch_bytes=1 << 30, rotational="1", filesystem="xfs", switch=("x", "y"))
    target = target_of(place)
    assert (target.rotational, target.filesystem, target.switch) == ("1", "xfs", ("x", "y"))
    assert (target.size_bytes, target.kind) == (1 << 30, "scratch")
    modelled = Place(model="disk7200", size_bytes=1 << 30, queue_depth=8, dilate=2.0,
                     rotational="0", switch=("x", "y"))  # fmt: skip
    target = target_of(modelled)
    assert (target.queue_depth, target.dilate, target.rotational) == (8, 2.0, "0")
    with pytest.raises(SpecError, match="not a different name for each of 3"):
        labelled(candidates_of("none,bfq,kyber", None, target).candidates, "a,b,a")


def test_a_design_has_all_that_is_typed():
    how = {"margin": 0.5, "aa_arm": False, "seed": 7, "omitted": ("a", "b")}
    arms, works = (Candidate("a"), Candidate("b")), (Workload("w", "command", "elapsed_s"),)
    asked = experiment_of("io", "t", Target("none"), arms, works, ("n1", "n2"), **how)
    assert {name: getattr(asked, name) for name in how} == how
    assert asked.notes == ("n1", "n2") and asked.baseline == "a"
    with pytest.raises(SpecError, match="3 candidates"):
        labelled((Candidate("a"), Candidate("b"), Candidate("c")), "x,y,y")


def test_a_document_of_a_difference_has_every_candidate_and_all_about_it():
    found = difference.Difference(
        reports.record_of(answers.KEEP), {"a": answers.KEEP, "b": answers.SAME}, ("old", "new"),
        {"cpu.model": ("A", "B"), "kernel.release": ("6.1", "6.2")}, "blocks", True, 3,
        Path("page"), None,
    )  # fmt: skip
    document = found.as_json()
    assert list(document["candidates"]) == ["a", "b"]
    assert document["differences"] == found.machines
    assert (document["schema"], document["units"], document["one_boot"]) == (2, "blocks", True)
    assert (document["boots_needed"], document["html"]) == (3, "page")


def test_words_of_a_label_and_metrics_of_a_workload_are_all_taken():
    works = (Workload("read back", "x", "read_latency_ns_mean", secondary=("a", "b")),
             Workload("read", "x", "iops"), Workload("back", "x", "iops"))  # fmt: skip
    asked = replace(ASKED, workloads=works)
    for text, label in (("read back mean < 1s", "read back"), ("back iops < 1", "back")):
        assert requirements.requirement_of(asked, text).workload == label
    for name in ("a", "b"):
        known = requirements.with_requirements(replace(
            asked, metrics={each: Metric(each, "ns", False, each) for each in "ab"}
        ), [f"read back {name} < 1s"])  # fmt: skip
        assert known.workloads == works
    own = Workload("w", "x", "speed", secondary=("read_latency_ns_mean", "write_latency_ns_mean"))
    found = requirements.requirement_of(replace(ASKED, workloads=(own,)), "w p99 < 1s")
    assert found.metric == "read_latency_ns_p99"
    odd = replace(own, secondary=("odd_ns_x", "write_latency_ns_mean"))
    found = requirements.requirement_of(replace(ASKED, workloads=(odd,)), "w p99 < 1s")
    assert found.metric == "write_latency_ns_p99"


@pytest.mark.parametrize(("kinds", "busiest"), [("0001", "write"), ("0111", "read")])
def test_a_recorded_load_is_decided_by_what_it_mostly_does(tmp_path, kinds, busiest):
    rows = [f"{1000 * n} 0 {64 * n} 8 {kind}\n" for n, kind in enumerate(kinds * 8)]
    (tmp_path / "x.trace").write_text("".join(rows))
    typed = {"trace": str(tmp_path / "x.trace"), "metrics": (), "timing": "open"}
    work = recorded(Place(), typed)
    other = {"read": "write", "write": "read"}[busiest]
    assert (work.metric, *work.secondary[:3]) == tuple(
        f"{way}_latency_ns_{what}" for way in (busiest, other) for what in ("mean", "p99")
    )
    for metric in ("requests_per_s", work.secondary[-1], f"{other}_bytes_per_s"):
        assert recorded(Place(), typed | {"metrics": (metric,)}).metric == metric


def test_a_job_file_keeps_its_environment_with_all_else_that_is_typed(tmp_path):
    (tmp_path / "x.fio").write_text("[scan]\nrw=${WAY}\nsize=${SIZE}\n")
    names = {"WAY": "read", "SIZE": "1m"}
    work = own_work.workload_of(OwnWork(
        job_file=str(tmp_path / "x.fio"), parameters={"environment": names, "repeat": None},
        metrics=("scan.read.iops", "elapsed"),
    ), "fio-job")  # fmt: skip
    assert work.parameters["environment"] == names
    assert (work.metric, work.secondary[0]) == ("scan.read.iops", "elapsed_s")
    durable = set(durability.USUAL)
    assert durable & set(work.secondary)
    synced = fio(tmp_path, "scan.read.iops", "log.sync.lat_ns_p50")
    assert not durable & {*synced.secondary}
