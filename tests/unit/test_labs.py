"""Every lab is an experiment that the door would admit, and follows its study."""

import os
import re

import pytest
from click.testing import CliRunner

from schedlab.app.admit import _check_statements
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.quanta import quantum_experiment
from schedlab.app.measure import labs as app_labs
from schedlab.app.measure.labs import SCALES, LabChanges, lab_experiment, lab_named, labs, sweep_of
from schedlab.app.targets import describe
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.kinds import typed

SIMULATED = {name for name, lab in labs().items() if lab.kind == "sim"}
IO_LABS = [name for name, lab in labs().items() if lab.kind == "io"]


def experiment(name, scale="small", **wishes):
    wishes.setdefault("schedulers", None if labs()[name].data.get("candidates") else "none,bfq")
    return lab_experiment(lab_named(name), scale, LabChanges(**wishes))


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


@pytest.mark.parametrize("name", labs())
def test_a_lab_does_what_its_study_and_its_labels_say(name, golden):
    """Its settings and workloads at every scale: read the diff beside the published study."""
    lines = []
    for scale in SCALES:
        spec = experiment(name, scale)
        place = f"{describe(spec.target)} {spec.target.filesystem}".strip()
        lines.append(f"# {scale}: {spec.stopping.blocks} blocks, {place}")
        lines += [f"{each.label}: {each.settings}" for each in spec.candidates]
        for work in spec.workloads:
            control = " (negative control)" * work.negative_control
            lines.append(f"{work.label}{control}: {work.kind} {work.metric} {work.parameters}")
        lines += spec.notes
    text = re.sub(r"'cpus': \[\d+\]", "'cpus': [N]", "\n".join(lines))
    golden(f"labs/{name}.txt", text)


def test_the_published_figures_of_quanta_are_those_of_the_candidates():
    spec = experiment("rr-quantum")
    known = {each.label for each in spec.candidates}
    assert spec.statements
    for each in spec.statements:
        assert set(each.candidates) | {each.over or "1 ms"} <= known
        assert each.workloads == (spec.workloads[0].label,)


def test_other_candidates_leave_the_published_figures_of_those_that_are_there():
    """Quanta that the kernel rounds to one, and schedulers of the user's choice, are admitted."""
    known = {name: app_labs.lab_named(name).data["statements"] for name in
             ("rr-quantum", "block-size", "device-timings")}  # fmt: skip
    rounded = quantum_experiment(sweep_of(lab_named("rr-quantum").data["sweep"], LabChanges()),
                                 {1: 10, 10: 10, 100: 100})  # fmt: skip
    left = app_labs._of_quanta(rounded, known["rr-quantum"])
    assert 0 < len(left) < len(known["rr-quantum"])
    for name, schedulers, count in (
        ("block-size", "none,bfq", 0),
        ("device-timings", "none,bfq", 3),
    ):
        spec = experiment(name, schedulers=schedulers)
        _check_statements(spec)
        assert len(spec.statements) == count < len(known[name])


#: Keys of the work itself: a lab says of every other one that it is a parameter (`chosen`).
OF_WORK = {"test", "workload", "record_bytes", "decompressor", "setup", "size"}


@pytest.mark.parametrize("name", [name for name, lab in labs().items() if "sweep" not in lab.data])
def test_what_a_lab_varies_is_its_work_or_declared_as_a_parameter(name):
    works = labs()[name].data["workloads"]
    assert not {key for work in works for key in work.get("grid", {})
                if key not in work.get("chosen", {})} - OF_WORK  # fmt: skip
    counted = [work for work in experiment(name).workloads if work.is_chosen]
    assert counted and all(work.parameter(k) for work in counted for k in work.chosen)


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


@pytest.mark.parametrize("name", labs())
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
    with pytest.raises(SpecError, match=f"lab {name}: is simulated, so --device would "):
        CliRunner().invoke(cli, words, catch_exceptions=False)
