"""Of several loads, devices, draws, schedulers, rows, looks or captures each counts: rooms that
predict, fit a device and record."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from schedlab.errors import SpecError
from schedlab.guest.machine import Message
from schedlab.host.emulated.emulated import Emulation
from schedlab.nouns.load_result import Latencies, SideResult
from schedlab.store.process_files import meet, processes_of
from schedlab_sim.checked import Features
from schedlab_sim.predict import fit, in_kernel, predict
from schedlab_sim.predict.predict import PredictedLoss, Prediction, SimulatedLoad, loads_of

LOSSES = (PredictedLoss("none", 0.5, 0.0, 0.0, 0.1), PredictedLoss("bfq", 0.25, 1, 0, 2))
PREDICTED = Prediction(
    "sd-card", "w", LOSSES, "bfq", "", "near", 1.0, {"a": [1.0], "b": [1.0]}, notes=("n1", "n2"),
)  # fmt: skip


def test_each_load_is_predicted_on_each_device_and_pairs_are_compared(monkeypatch):
    asked = []

    def one(device, load, *of):
        asked.append((device, load.name))
        outside = "" if device == "x" else "it is unlike"
        return replace(PREDICTED, device=device, load=load.name, outside=outside)

    monkeypatch.setattr(predict, "predict", one)
    loads = loads_of("random32, levels", None)
    assert [load.fields for load in loads] == [{"processes": "random32"}, {"processes": "levels"}]
    documents, text = predict.predictions(["x", "y"], loads, "none,bfq", print, "")
    pairs = [(device, load) for load in ("random32", "levels") for device in "xy"]
    assert asked == [(each["device"], each["load"]) for each in documents] == pairs
    assert [each["code"] for each in documents] == ["for-now", "outside"] * 2
    firsts = [f"{load} on {device}: " for device, load in pairs]
    assert [[line.startswith(first) for line in text].count(True) for first in firsts] == [1] * 4
    assert [line.partition(":")[0] for line in text if " as fast " in line] == [
        "random32",
        "levels",
    ]
    assert sum("P 25%" in line for line in text) == 2  # that of the second, which is taken
    assert [line for line in text if line.startswith("note: ")] == ["note: n1", "note: n2"] * 4
    for each in PREDICTED.candidates:
        assert [line.partition(" ")[0] for line in text].count(each.name) == 4


def test_a_pair_of_devices_is_compared_by_all_rows():
    other = replace(PREDICTED, device="fast", rates={"a": [1.0], "b": [16.0]})
    assert predict.compared(PREDICTED, other).startswith("w: fast is predicted 4× as fast")
    other = replace(PREDICTED, device="fast", rates={"a": [16.0], "b": [1.0]})
    assert predict.compared(PREDICTED, other).startswith("w: fast is predicted 4× as fast")
    drawn = {"a": [8.0, 4.0, 2.0], "b": [8.0, 4.0, 2.0]}
    for pair in ((PREDICTED, other), (other, PREDICTED)):
        one, two = (replace(each, rates=drawn) if each is other else each for each in pair)
        said = "w: fast is predicted 4× as fast (90 %: 2.2 to 7.6×), P 100%"
        assert predict.compared(one, two) == said


@pytest.mark.parametrize(("offset", "is_met"), [("3M", True), ("5M", False)])
def test_any_two_sequential_processes_may_meet(offset, is_met):
    one = {"pattern": "sequential", "span": "1M"}
    several = [one | {"offset": "9M"}, one | {"offset": offset}, one | {"offset": "0M"},
               one | {"offset": "2M", "span": "2M"}]  # fmt: skip
    assert meet(processes_of({"process": several})) == is_met


def test_a_process_without_an_end_meets_all_that_begin_behind_it():
    one = {"pattern": "sequential"}
    assert meet(processes_of({"process": [one | {"offset": "1M"}, one | {"offset": "9M"}]}))


def test_the_command_with_the_least_regret_is_named_and_the_worst_test_is_noted():
    live = predict._measure(("compare",), "/dev/sdx", "a,b", 1.0, 0.999)
    assert live == ("schedlab live /dev/sdx --schedulers a,b", 0.0)
    assert predict._measure(("compare",), "/dev/sdx", "a,b", 1.0, 0.0) == ("compare", 0.0)
    for errors in ((0.3, 0.05), (0.05, -0.3)):
        tests = [{"rate_error": error} for error in errors]
        (note,) = predict._notes(SimpleNamespace(is_fitted=True, fit={"self_test": tests}))
        assert "by 30%" in note


ALIKE = Features(True, 3.0, 0.0, 0.0, classes=False, buffered=False, processes=1)


@pytest.mark.parametrize(("rotational", "seconds"), [(False, 4.0), (True, 20.0)])
def test_each_draw_is_measured_under_each_scheduler_and_has_its_own_losses(
    monkeypatch, rotational, seconds
):
    cells = []

    def measured(kernel, work, progress):
        cells.extend(work)
        return [
            {name: [{"iops": rate, "latency_ns_mean": 1.0}] for name, rate in of.items()}
            for of in ({"none": 1.0, "bfq": 8.0}, {"none": 4.0, "bfq": 1.0})
        ]

    monkeypatch.setattr(predict, "measured_rates", measured)
    monkeypatch.setattr(predict, "KERNEL_DRAWS", 2)
    runs = iter([8.0, 1.0, 1.0, 4.0])
    own = [{"iops": next(runs), "latency_ns_mean": 1.0} for _ in range(4)]
    halves = iter([own[:2], own[2:]])
    monkeypatch.setattr(
        predict,
        "run_threads",
        lambda some: [SimpleNamespace(host={"processes": [each]}) for each in next(halves)],
    )
    load = SimulatedLoad("w", {"processes": {"name": "p"}}, "--load", [{"name": "p"}])
    monkeypatch.setattr(predict, "rows_of", lambda load, run: {"p": run["processes"][0]["iops"]})
    draws = SimpleNamespace(fit={}, tables={}, at=lambda seed: {"seed": seed})
    first, second = predict._measured_here(
        "6.12", "sd-card", draws, load, ["none", "bfq"], replace(ALIKE, rotational=rotational),
        print,
    )  # fmt: skip
    assert [(cell.seed, cell.seconds, cell.emulation.settings) for cell in cells] == [
        (1, seconds, {"seed": 0}), (2, seconds, {"seed": 1})
    ]  # fmt: skip
    assert [cell.schedulers for cell in cells] == [["none", "bfq"]] * 2
    assert (first.kernel["none"], first.kernel["bfq"]) == pytest.approx((np.log(8), 0))
    assert (second.kernel["none"], second.kernel["bfq"]) == pytest.approx((0, np.log(4)))
    assert (first.model["none"], first.model["bfq"]) == pytest.approx((0, np.log(8)))
    assert (second.model["none"], second.model["bfq"]) == pytest.approx((np.log(4), 0))


def test_a_recording_is_replayed_at_its_own_times_and_for_its_own_length(monkeypatch, tmp_path):
    cells = []

    def measured(kernel, work, progress):
        cells.extend(work)
        rows = {"none": 1e6, "bfq": 4e6}
        return [
            {name: [{"iops": 1.0, "latency_ns_mean": ns}] for name, ns in rows.items()}
            for _ in work
        ]

    monkeypatch.setattr(predict, "measured_rates", measured)
    trace = tmp_path / "x.blkparse"
    rows = [f"8,0 0 {n} {0.5 * n:.9f} 7 Q R {800 * n} + 8 [p]" for n in range(7)]
    trace.write_text("\n".join(rows) + "\n")
    (load,) = loads_of(None, f"{trace}:blkparse")
    found = predict.predict("sd-card", load, "none,bfq", kernel="6.12")
    assert {(cell.recording, cell.seconds) for cell in cells} == {(f"{trace}:blkparse", 3.0)}
    assert len(cells) == predict.KERNEL_DRAWS
    assert {(found.take, found.outside, found.measure)} == {("none", "", "")}


@pytest.mark.parametrize(("fast", "pair"), [(2700.0, "kyber,bfq"), (900.0, "")])
def test_the_two_closest_of_three_are_measured_where_none_is_sure(monkeypatch, fast, pair):
    """In every other draw kyber is ahead of bfq, or it is far behind in all of them."""
    usual = {"none": 1.0, "bfq": 3000.0, "kyber": fast}
    asked, ran = [], []
    monkeypatch.setattr(predict, "run_threads", lambda some: ran.append(len(some)) or [
        SimpleNamespace(host=each) for each in some])  # fmt: skip
    monkeypatch.setattr(predict, "rows_of", lambda load, one: {
        row: usual[one.scheduler] * (1 + one.seed % 2 * (one.scheduler == "kyber") / 2) * by
        for row, by in (("a", 1.0), ("b", 2.0))})  # fmt: skip
    monkeypatch.setattr(predict, "_measure", lambda *of: asked.append(of) or ("it", 0.5))
    load = SimulatedLoad("random32", {"processes": "random32"})
    found = predict.predict("sd-card", load, "none,bfq,kyber")
    assert [each.name for each in found.candidates] == ["none", "bfq", "kyber"]
    seeds = range(2, predict.DRAWS + 2)
    assert ran == [3 * (predict.DRAWS + 1)]  # long enough for the one that serves a row best
    take = [2700 * (1 + seed % 2 / 2) if pair else 3000 for seed in seeds]
    assert found.take == ("kyber" if pair else "bfq")
    assert found.rates == {"a": pytest.approx(take), "b": pytest.approx([2 * of for of in take])}
    assert ([of[2] for of in asked], found.measure) == (([pair], "it") if pair else ([], ""))


CELL = in_kernel.KernelCell(Emulation("sd-card", None), [], ("none", "bfq"), 1.0, 1, 4, 8)


def booting(monkeypatch, offered, messages=()):
    named = {"6.12": SimpleNamespace(release="6.12", schedulers=offered)}
    boot = SimpleNamespace(run=lambda heed: [heed(message) for message in messages])
    jobs = []
    monkeypatch.setattr(in_kernel, "kernels_named", lambda kernel: named)
    monkeypatch.setattr(
        in_kernel.Boot, "of", lambda booted, job, settings: jobs.append(job) or boot
    )
    return jobs


def test_a_guest_gets_the_recordings_of_all_cells(monkeypatch, tmp_path):
    traces = [tmp_path / "one.trace", tmp_path / "two.trace"]
    for number, trace in enumerate(traces):
        trace.write_text(f"{number}")
    cells = [CELL, *(replace(CELL, recording=f"{trace}:blkparse") for trace in traces)]
    jobs = booting(monkeypatch, ("none", "bfq"))
    in_kernel.measured_rates("6.12", cells, print)
    assert [jobs[0].files[f"files{trace}"] for trace in traces] == [b"0", b"1"]


def test_a_guest_measures_each_cell_under_each_scheduler(monkeypatch):
    places = [(cell, name) for cell in (0, 1) for name in ("none", "bfq")]
    messages = [Message(cell=cell, scheduler=name, rates=[{"iops": n}])
                for n, (cell, name) in enumerate(places)]  # fmt: skip
    jobs, told = booting(monkeypatch, ("none", "bfq"), [Message(up=True), *messages]), []
    other = replace(CELL, emulation=Emulation("disk7200", None), seed=2)
    found = in_kernel.measured_rates("6.12", [CELL, other], told.append)
    assert [found[cell][name] for cell, name in places] == [[{"iops": n}] for n in range(4)]
    assert [line.rpartition(": ")[2] for line in told[1:]] == [
        f"{n} of 4 runs" for n in range(1, 5)
    ]
    (job,) = jobs
    assert [each["seed"] for each in json.loads(job.files[in_kernel.CELLS])] == [1, 2]
    assert {"devices/sd-card.toml", "devices/disk7200.toml"} <= {*job.files}


@pytest.mark.parametrize("names", [("none", "x:a=1"), ("x", "none")])
@pytest.mark.parametrize("at", [0, 1])
def test_a_kernel_has_the_schedulers_of_all_cells(monkeypatch, names, at):
    booting(monkeypatch, ("none", "bfq"))
    cells = [CELL, CELL]
    cells[at] = replace(CELL, schedulers=names)
    with pytest.raises(SpecError, match=r"6\.12 has no x") as refused:
        in_kernel.measured_rates("6.12", cells, print)
    assert refused.value.hint == "it offers none, bfq"


def test_inside_a_guest_all_cells_and_all_schedulers_are_told(tmp_path, monkeypatch):
    models = ("sd-card", "disk7200")
    cells = [in_kernel._as_json(replace(CELL, emulation=Emulation(name, None))) for name in models]
    (tmp_path / in_kernel.CELLS).write_text(json.dumps(cells))
    monkeypatch.setattr(in_kernel, "Control", nullcontext)
    monkeypatch.setattr(
        in_kernel,
        "_rates",
        lambda control, cell: ((n, Path(cell.emulation.model).name) for n in cell.schedulers),
    )
    told = []
    in_kernel.measure_in_guest(tmp_path, lambda **of: told.append(tuple(of.values())))
    assert told == [
        (cell, name, f"{model}.toml")
        for cell, model in enumerate(models)
        for name in CELL.schedulers
    ]


def test_each_stream_of_a_recording_has_its_rate(monkeypatch):
    device = SimpleNamespace(path="/dev/x", size_bytes=1, reset=lambda: None)
    control = SimpleNamespace(emulated=lambda _: device, hold=str, set_scheduler=lambda *_: None)
    streams = {"streams": [{"name": name} for name in "abc"]}
    monkeypatch.setattr(in_kernel.TraceReplay, "replayed", lambda *_: (None, streams))
    monkeypatch.setattr(in_kernel, "_figures", lambda actors, names: names)
    rates = in_kernel._rates(control, replace(CELL, recording="x.trace", schedulers=("none",)))
    assert [*rates] == [("none", [["a", "b", "c"]])]


def test_each_scheduler_is_set_with_its_tunables_on_a_fresh_device_and_each_process_has_a_rate(
    monkeypatch,
):
    log = []
    device = SimpleNamespace(path="/dev/x", size_bytes=1 << 30, reset=lambda: log.append("reset"))
    control = SimpleNamespace(
        emulated=lambda emulation: device, hold=lambda path: path,
        set_scheduler=lambda path, name, settings: log.append((name, settings)),
    )  # fmt: skip

    def side(rate, count=0, mean=0.0):
        return SideResult(operations=rate, latency=Latencies(count, mean))

    groups = {"one": {"reads": side(4, 4, 1.0), "writes": side(0)},
              "two": {"reads": side(1, 1, 6.0), "writes": side(3, 3, 2.0)}}  # fmt: skip
    actors = SimpleNamespace(
        side=lambda name, way: groups[name][way],
        rate=lambda names, way, operations: sum(groups[n][way].operations for n in names),
    )
    tables = [{"name": "one", "record": 1024}, {"name": "two", "record": 2048}]
    monkeypatch.setattr(in_kernel, "run_actors", lambda target, jobs, seconds: actors)
    cell = replace(CELL, schedulers=("none", "bfq:a=1,b=2"), processes=tables)
    rates = [{"iops": 4.0, "latency_ns_mean": 1.0}, {"iops": 4.0, "latency_ns_mean": 3.0}]
    assert list(in_kernel._rates(control, cell)) == [("none", rates), ("bfq:a=1,b=2", rates)]
    assert log == [("none", {"nr_requests": "4"}), "reset",
                   ("bfq", {"a": "1", "b": "2", "nr_requests": "8"}), "reset"]  # fmt: skip


def test_a_held_out_load_is_the_mean_of_all_its_batches(monkeypatch):
    """Batches of 16 × depth reads and twice as many, until the time is over."""
    monkeypatch.setattr(fit, "HELD_OUT", (("one", 4096, 1, True), ("two", 4096, 2, False)))
    monkeypatch.setattr(fit, "HELD_OUT_S", 3.5)
    asked, told = [], []

    def timed(offsets, record, depth):
        asked.append((int(offsets[0]), len(offsets), depth))
        times = np.zeros((len(offsets), 2))
        times[:, 1] = np.linspace(1e9, 2e9, len(offsets)) * (1 if len(asked) % 2 else 2)
        return times

    reads = SimpleNamespace(
        progress=told.append, size_bytes=1 << 30, timed=timed,
        places=lambda count, record, size=0: np.full(count, 8192),
    )  # fmt: skip
    twin, twins = SimpleNamespace(run=lambda: SimpleNamespace(host={"total": {}})), []
    monkeypatch.setattr(
        fit, "twin_of", lambda file, tags, process: twins.append(process["name"]) or twin
    )
    monkeypatch.setattr(fit, "_compared", lambda label, rate, times, total: (label, rate, times))
    one, two = fit._self_test(reads, None, 4)
    assert told == ["self-test: one", "self-test: two"]
    counts = [[count for _, count, depth in asked if depth == of] for of in (1, 2)]
    assert counts == [[16, 32, 64], [32, 64, 128]]
    assert [place for place, *_ in asked] == [8192 + n * 4096 for n in (0, 16, 48)] + 3 * [8192]
    assert [each[0] for each in (one, two)] == ["one", "two"]
    assert [each[1] for each in (one, two)] == pytest.approx([(112 - 3) / 4, (224 - 3) / 5])
    assert [len(each[2]) for each in (one, two)] == [112, 224]
    assert [max(each[2]) for each in (one, two)] == [4e9, 4e9]
    assert twins == ["one", "two"]
