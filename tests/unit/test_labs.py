"""Every lab is an experiment that the door would admit, and follows its study."""

import json
import os
import re

import pytest
from click.testing import CliRunner

from schedlab.app.compare.comparison import Place
from schedlab.app.measure import labs as app_labs
from schedlab.app.measure.labs import SCALES, Wishes, lab_experiment, lab_named, labs
from schedlab.app.tune.tune import setting_text
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.kinds import typed

SIMULATED = {"ncq-ssd", "iozone-schedulers-model"}
IO_LABS = [name for name, lab in labs().items() if lab.kind == "io"]


def experiment(name, scale="small", **wishes):
    wishes.setdefault("schedulers", None if labs()[name].data.get("candidates") else "none,bfq")
    return lab_experiment(lab_named(name), scale, Wishes(**wishes))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", IO_LABS)
def test_every_workload_of_a_lab_is_known_and_measures_its_metrics(name, scale):
    spec = experiment(name, scale)
    assert spec.workloads
    for work in spec.workloads:
        kind = typed(work)
        kind.check(work.label)
        assert {work.metric, *work.secondary} <= set(kind.metrics)
        assert kind.used_bytes(spec.target.size_bytes) <= spec.target.size_bytes


def test_the_block_size_lab_has_both_halves_and_a_mapping_without_msync():
    spec = experiment("block-size", "full")
    assert {c.settings["workload.mode"] for c in spec.candidates} == {"sync", "direct", "mmap"}
    halves = [(w.parameters.get("total_bytes"), w.parameters.get("calls")) for w in spec.workloads]
    assert halves.count((5 << 20, None)) == halves.count((None, 256)) == 7
    assert spec.workloads[0].label == "same bytes 512 B"
    small = experiment("block-size").workloads
    assert len(small) == 6
    assert {w.parameters["block_bytes"] for w in small} == {512, 4096, 16384}


def test_the_iozone_lab_has_the_studys_layout():
    spec = experiment("iozone-schedulers", "full")
    assert len(spec.workloads) == 63
    assert spec.stopping.blocks == 5
    sizes = {work.parameters["record_bytes"] for work in spec.workloads}
    assert sizes == {size << 10 for size in (8, 16, 32, 64, 128, 256, 512, 8192, 16384)}
    assert all(typed(work).direct for work in spec.workloads)


def test_the_quantum_lab_repeats_at_least_five_times():
    assert all(lab_named("rr-quantum").scaled(scale)["sweep"]["repeat"] >= 5 for scale in SCALES)


@pytest.mark.parametrize("scale", SCALES)
def test_a_lab_does_what_its_study_and_its_labels_say(scale):
    """Parameters by which the published study is repeated, at every scale."""
    sweep = lab_named("rr-quantum").scaled(scale)["sweep"]
    asked = {name: sweep[name] for name in ("slices_ms", "processes", "policy", "priority")}
    assert asked == {"slices_ms": [1, 10, 100], "processes": 2, "policy": "rr", "priority": 10}
    depths = {work.label: typed(work).device_commands() for work in works("ncq-depth", scale)}
    assert depths == {
        "served in order": 1, "4 commands in the disk": 4, "32 commands in the disk": 32
    }  # fmt: skip
    assert all(typed(work).depth == 32 for work in works("ncq-depth", scale))
    controls = {work.label for work in works("device-timings", scale) if work.negative_control}
    assert controls == {"cached reads"}
    beside = {work.label: typed(work) for work in works("interference", scale)}
    for label, count in (("start-up alone", 0), ("start-up beside readers and writers", 2)):
        assert (beside[label].readers, beside[label].writers) == (count, count)
    before, after = experiment("bfq-tunables", scale).candidates
    assert dict(before.settings) == {"scheduler": "bfq"}
    assert dict(after.settings) == {"scheduler": "bfq", "back_seek_max": 32768, "slice_idle": 2}
    assert f"after is {setting_text(after.settings)}" in experiment("bfq-tunables", scale).notes


def works(name, scale):
    return experiment(name, scale).workloads


def test_interference_tells_a_new_reader_from_a_steady_one():
    kinds = {work.kind for work in experiment("interference").workloads}
    assert {"newcomer", "reader-beside-writers", "startup"} <= kinds


def test_no_lab_says_what_comes_out():
    """An outcome is computed from the runs; a study's own figures may be printed."""
    words = re.compile(r"\b(faster|slower|best|worse|wins?|better|cannot|reduces|cut)\b", re.I)
    for lab in labs().values():
        assert not words.search(lab.study), lab.name
        assert len(lab.study) > 100


def test_a_lab_runs_where_the_user_wants(tmp_path):
    place = Place(scratch_bytes=64 << 20, scratch_directory=str(tmp_path))
    spec = experiment("interference", place=place, blocks=3, seed=7)
    assert (spec.target.size_bytes, spec.target.path) == (64 << 20, str(tmp_path))
    assert (spec.stopping.blocks, spec.seed) == (3, 7)
    assert experiment("bfq-tunables", schedulers="none").candidates[0].label == "none"
    turned = experiment("interference", place=Place(rotational="1"))
    assert (turned.target.rotational, turned.target.size_bytes) == ("1", 512 << 20)


@pytest.mark.parametrize(
    "words", [["lab", "run", "rr-quantum", "--dry-run"], ["init", "x.toml", "--lab", "rr-quantum"]]
)
def test_the_plan_of_the_quantum_lab_sets_no_quantum(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app_labs, "effective_slices", lambda *_: pytest.fail("a quantum was set"))
    shown = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert shown.exit_code == 0, shown.output


def test_the_quantum_lab_asks_the_kernel_before_it_measures(monkeypatch):
    def effective(sweep, report):
        raise RuntimeError(f"asked about {sweep.slices}")

    monkeypatch.setattr(app_labs, "effective_slices", effective)
    with pytest.raises(RuntimeError, match="asked about"):
        CliRunner().invoke(cli, ["lab", "run", "rr-quantum"], catch_exceptions=False)


@pytest.mark.parametrize("name", sorted(set(labs()) - SIMULATED))
def test_a_lab_shows_its_plan_without_touching_anything(name):
    if os.geteuid() != 0:
        pytest.skip("needs root: a temporary loop device is planned")
    words = ["lab", "run", name, "--dry-run", "--json"]
    if name in IO_LABS and not labs()[name].data.get("candidates"):
        words += ["--schedulers", "none"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    assert lab_named(name).title in shown.output or name == "rr-quantum"


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_a_simulated_lab_refuses_what_it_would_not_heed(name):
    words = ["lab", "run", name, "--device", "/dev/sdz", "--dry-run", "--json"]
    with pytest.raises(SpecError, match=f"lab {name}: is simulated, so --device, --dry-run "):
        CliRunner().invoke(cli, words, catch_exceptions=False)


def test_labs_are_listed_with_what_was_studied():
    shown = CliRunner().invoke(cli, ["lab", "list", "--json"])
    assert {row["name"] for row in json.loads(shown.stdout)} == set(labs())
