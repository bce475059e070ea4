"""Predictions: probabilities from drawn devices and from the errors of the instrument."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from schedlab.errors import SpecError
from schedlab.store.process_files import presets, processes_of
from schedlab_sim import checked
from schedlab_sim.checked import (
    CheckedLoad,
    Features,
    features_of,
    interval_90,
    losses,
    nearest,
    with_errors,
)
from schedlab_sim.device import devices
from schedlab_sim.fit.draws import Draws
from schedlab_sim.fit.fitted import UNKNOWN, Fitted, number_of, value_at
from schedlab_sim.predict import predict as app
from schedlab_sim.predict.fit import fit_datasheet
from schedlab_sim.predict.predict import (
    SimulatedLoad,
    compared,
    lines,
    loads_of,
    predict,
    rows_of,
)
from schedlab_sim.simulation import Simulation

TRACE = Path(__file__).parents[1] / "data" / "traces" / "tpcc-small.trace"
ALIKE = Features(True, 3.0, 0.0, 0.0, classes=False, buffered=False, processes=1)
FOUR = "none,mq-deadline,kyber,bfq"


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """Of few requests each: nothing here depends on how many there are."""
    monkeypatch.setattr(app, "DRAWS", 4)
    monkeypatch.setattr(app, "REQUESTS", 2000)


def of(workload):
    (load,) = loads_of(workload, None)
    return load


def test_the_loss_is_that_of_the_worst_row():
    rates = {"none": {"reader": 10.0, "writer": 100.0}, "bfq": {"reader": 40.0, "writer": 50.0}}
    assert losses(rates) == pytest.approx({"none": math.log(4), "bfq": math.log(2)})


def test_processes_that_are_alike_are_one_row():
    load = of("readers3")
    run = Simulation(device="disk7200", scheduler="none", processes="readers3", seconds=0.5).run()
    assert list(rows_of(load, run)) == ["reader"]


def test_errors_of_near_cells_are_taken_together_and_far_ones_are_larger():
    near = CheckedLoad("near", ALIKE, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.5})
    far = CheckedLoad("far", Features(False, -2.0, 1.0, 1.0, False, False, 3),
               {"a": 2.0, "b": 0.0}, {"a": 0.0, "b": 0.5})  # fmt: skip
    found = with_errors({"a": 0.0, "b": 0.5}, ALIKE, [near, far], 500, 1)
    assert np.mean(found["b"]) == pytest.approx(1.0, abs=0.1)
    assert np.mean(found["a"] <= 0.05) > 0.9
    away = Features(True, 7.0, 0.5, 0.0, False, False, 1)
    spread = with_errors({"a": 0.0, "b": 0.5}, away, [near], 500, 1)
    assert np.std(spread["b"]) > 2 * np.std(found["b"])


def test_a_large_error_where_there_was_no_loss_is_not_multiplied_where_there_is_one():
    """A starved reader of one cell made an expected loss of e^16 of another load."""
    starved = CheckedLoad("starved", ALIKE, {"a": 0.0, "b": 4.0}, {"a": 0.0, "b": 0.0})
    small = CheckedLoad("small", ALIKE, {"a": 0.0, "b": 0.01}, {"a": 0.0, "b": 0.0})
    found = with_errors({"a": 0.0, "b": 0.5}, ALIKE, [starved], 500, 1)
    assert np.median(found["b"]) == pytest.approx(4.5, abs=0.1)
    grown = with_errors({"a": 0.0, "b": 1.0}, ALIKE, [small], 500, 1)
    assert np.median(grown["b"]) == pytest.approx(1.0 + 0.01 * (0.05 + 1.0) / 0.05, abs=0.03)


def test_a_few_draws_with_a_huge_loss_do_not_decide_what_to_take():
    """Of nine draws in ten the first is the best, in the tenth a reader starves."""
    far = np.where(np.arange(100) % 10 == 0, 6.0, 0.0)
    spread = {"often": far, "never": np.where(far > 0, 0.0, 0.3)}
    take, candidates = app._judged(["often", "never"], spread, sure=True)
    assert take == "often"
    assert candidates[0].near == pytest.approx(0.9)
    assert candidates[0].loss == pytest.approx(0.6)


def test_the_interval_leaves_out_a_tenth_also_where_half_of_the_losses_are_0():
    drawn = np.random.default_rng(1).permutation(np.concatenate([np.zeros(50), np.arange(1, 51)]))
    assert interval_90(drawn) == (0.0, 40.0)
    assert interval_90(np.array([0.0, *range(50, 59)])) == (50.0, 58.0)


@pytest.mark.parametrize(
    ("changes", "is_far"),
    [
        ([{"depth": 32}], False), ([{"depth": 32, "ioprio": "be:0"}, {"ioprio": "be:7"}], True),
        ([{"direct": False}], True), ([{"weight": 80}], True),
    ],
)  # fmt: skip
def test_classes_and_write_back_are_near_no_plain_load(changes, is_far):
    plain = [CheckedLoad("plain", ALIKE, {"none": 0.0}, {"none": 0.0})]
    processes = processes_of({"process": changes})
    assert math.isinf(nearest(features_of(processes, 4, rotational=True), plain)[1]) == is_far


@pytest.mark.parametrize(
    ("workload", "schedulers", "word"),
    [
        ("levels", FOUR, "priority"), ("copy-buffered", FOUR, "write-back"),
        ("readers3-weights", FOUR, "weight"), ("random32", "none,noop", "noop was never checked"),
        ("copy-direct", FOUR, "background"), ("sequential-then-random", FOUR, "start"),
    ],
)  # fmt: skip
def test_what_was_never_checked_gets_no_probability(workload, schedulers, word):
    found = predict("sd-card", of(workload), schedulers)
    assert found.code == "outside"
    assert word in found.outside
    assert {each.near for each in found.candidates} == {None}
    assert "outside what was checked" in lines(found)[0]
    assert any("nearest checked load" in line for line in lines(found))
    json.dumps(asdict(found), allow_nan=False)


@pytest.mark.parametrize(("workload", "is_known"), [("random32", True), ("reader-writers", False)])
def test_flash_with_several_dies_is_near_cells_of_its_kind(workload, is_known):
    """But where writes wait for tags, `none` had a reader wait three times as long as predicted."""
    found = predict("sata-ssd", of(workload), "none,bfq")
    assert "sata" in found.nearest
    assert ("several dies" in found.outside, found.code == "outside") == (
        not is_known,
        not is_known,
    )


def test_unknown_times_of_slow_flash_are_drawn_from_multiples_of_its_reads():
    fitted = Fitted(1 << 30, tables={"flash": {"page_read": "3ms", "page_write": "700us"}})
    fitted.put("flash.page_write", "700us", UNKNOWN)
    draws = Draws(fitted.text({}), devices().values(), "x.toml")
    assert min(number_of(draws.at(n)["flash.page_write"]) for n in range(1, 20)) > 6e6


@pytest.mark.parametrize(("kind", "has_one"), [("card", False), ("nvme", True)])
def test_a_device_that_serves_one_command_at_a_time_has_no_write_buffer(kind, has_one, tmp_path):
    sheet = f"interface={kind},iops-1=900,iops-32={40000 if has_one else 900},read=40MB,write=9MB"
    draws = Draws(
        fit_datasheet(sheet, tmp_path / "x.toml").path.read_text(), devices().values(), "x"
    )
    drawn = {"buffer.size" in draws.at(seed) for seed in range(1, 9)}
    assert drawn == {has_one}


def test_a_checked_load_has_probabilities_and_the_word_predicted():
    found = predict("disk7200", of("random32"), FOUR)
    assert all(0 <= each.near <= 1 and each.low <= each.loss for each in found.candidates)
    text = "\n".join(lines(found))
    assert "predicted" in text
    assert "proven" not in text
    assert ("Simulation suffices" in text) == (found.code in ("best", "same"))
    assert ("Next   schedlab " in text) == (found.code == "for-now")
    again = predict("disk7200", of("random32"), FOUR)
    assert again == found


def recorded(folder, seconds):
    """A recording of so many seconds: the file and its format."""
    path = folder / "x.blkparse"
    times = [0.0, float(seconds)]
    rows = [f"8,0 0 {n} {at:.9f} 7 Q R 800 + 8 [p]" for n, at in enumerate(times)]
    path.write_text("\n".join(rows) + "\n")
    return f"{path}:blkparse"


@pytest.mark.parametrize(
    ("device", "load", "word"),
    [
        ("sd-card", "readers3-weights", "weight"), ("sd-card", "copy-buffered", "direct = false"),
        ("sd-card", "61", "cannot run more than 60 s of"), ("sd-card", "59", "no kernel 99.9"),
        ("nvme", "random32", "shares the only CPU"), ("sd-card", "random32", "no kernel 99.9"),
    ],
)  # fmt: skip
def test_what_a_guest_cannot_run_is_refused_before_the_boot(device, load, word, tmp_path):
    named = loads_of(load, None) if load in presets() else loads_of(None, recorded(tmp_path, load))
    with pytest.raises(SpecError, match=word):
        predict(device, named[0], "none,bfq", kernel="99.9")


def test_errors_of_this_load_take_the_place_of_those_of_others(monkeypatch):
    """Priority classes are outside what was checked, unless they were measured."""
    seen = []

    def measured(kernel, device, draws, load, names, features, progress):
        seen.append((kernel, names))
        return (
            CheckedLoad("here", features, {"none": 0.0, "bfq": 2.0}, {"none": 1.0, "bfq": 0.0}),
        )

    monkeypatch.setattr(app, "_measured_here", measured)
    found = predict("sd-card", of("levels"), "none,bfq", kernel="6.12")
    assert seen == [("6.12", ["none", "bfq"])]
    assert (found.take, found.code) == ("none", "best")
    assert "measured in virtual time, Linux 6.12" in "\n".join(lines(found))


def test_of_two_devices_the_faster_one_is_named():
    disk, card = (predict(name, of("random32"), "none,bfq") for name in ("disk7200", "sd-card"))
    for pair in ((disk, card), (card, disk)):
        assert "sd-card is predicted" in compared(*pair)


def test_a_recording_is_a_load():
    (load,) = loads_of(None, str(TRACE))
    found = predict("sd-card", load, "none,mq-deadline")
    assert found.load.endswith("tpcc-small.trace")
    assert list(found.rates) == ["all"]


def test_draws_keep_counted_keys_and_stay_in_the_range_of_shipped_models():
    fitted = Fitted(
        1 << 30, tables={"model": "disk", "seek_average": "9ms", "seek_full": "9500000ns"}
    )
    fitted.put("seek_single", "8900000ns", 0.3)
    fitted.put("seek_average", "9000000ns", 0.3)
    fitted.put("seek_full", "9500000ns", 0.3)
    fitted.put("heads", 4, 0.0)
    fitted.put("write_settle", "500us", UNKNOWN)
    draws = Draws(fitted.text({}), devices().values(), "x.toml")
    assert draws.at(0) == {}
    assert draws.at(3) == draws.at(3) != draws.at(4)
    for seed in range(1, 30):
        drawn = draws.at(seed)
        assert "heads" not in drawn
        single, average, full = (
            number_of(drawn[f"seek_{name}"]) for name in ("single", "average", "full")
        )
        assert (2 * single + full) / 3 <= average <= (7 * single + 8 * full) / 15
        assert 5e5 <= number_of(drawn["write_settle"]) <= 1e6
    caches = {"write_cache" in draws.at(seed) for seed in range(1, 30)}
    assert caches == {True, False}
    assert value_at({"a": {"b": 1}}, "a.c") is None


def test_no_answer_is_no_fast_answer():
    load = SimulatedLoad("x", {"processes": {"name": "starved", "arrivals": "poisson"}})
    never = {"processes": [{"latency_ns_mean": None, "iops": 0.0}]}
    assert rows_of(load, never) == {"starved": 1e-3}


@pytest.mark.parametrize(
    ("device", "load", "word"),
    [
        ("model = ", None, "quoted"), ("[fit]\nqueue = 3", None, r"x\.toml"),
        ("fit = 3\n{disk}", None, "fit"),
        ("{disk}\n[fit.error]\nheads = 'x'", None, "fit.error.heads"),
        ("{disk}\n[fit.queue]\ntags = 'x'", None, "fit.queue.tags"),
        ("{disk}", "process = 3", "load.toml"), ("{disk}", "[[proc", "load.toml"),
        ("{disk}", "x = 1", "load.toml"), ("{disk}", "[[process]]\ndepth = 'x'", "load.toml"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_said(tmp_path, device, load, word):
    (tmp_path / "x.toml").write_text(device.replace("{disk}", devices()["disk7200"]))
    (tmp_path / "load.toml").write_text(load or "")
    (one,) = loads_of(str(tmp_path / "load.toml"), None) if load else [of("random32")]
    with pytest.raises(SpecError, match=word):
        predict(str(tmp_path / "x.toml"), one, FOUR)


def test_an_empty_recording_and_one_scheduler_twice_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    (load,) = loads_of(None, str(tmp_path / "empty"))
    with pytest.raises(SpecError, match="it is empty"):
        predict("sd-card", load, "none,bfq")
    with pytest.raises(SpecError, match="different schedulers"):
        predict("sd-card", of("levels"), "none,none")


@pytest.mark.parametrize(
    "given", [(None, None, None), ("random32", None, Path("x.fio")), ("random32", "t", None)]
)
def test_one_load_is_asked_for(given):
    with pytest.raises(SpecError, match="needs one load"):
        loads_of(*given)


def test_the_checked_cells_are_those_of_a_kernel_and_a_day():
    about = checked.measured()
    assert about["kernel"]
    assert about["date"]
    for cell in checked.checked_cells():
        assert cell.kernel.keys() == cell.model.keys()
        assert min(cell.kernel.values()) >= 0
    assert processes_of("random32")


def test_a_model_that_decides_too_often_otherwise_than_the_kernel_is_shown_with_that():
    from schedlab_sim import decisions

    judged = {"6.12": {"bfq": {"a": [95, 100], "b": [949, 1000]}, "kyber": {"a": [95, 100]}}}
    shown = decisions.warnings(["kyber", "bfq", "bfq", "noop"], judged)
    assert shown == ["bfq, a model: 94.9 % of 1,100 decisions of Linux 6.12"]
