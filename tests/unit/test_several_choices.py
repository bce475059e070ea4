"""Of several settings, devices, files, kernels, workloads or constraints each counts: rooms that
apply and undo, tune, and plan a budget."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from answers import NOTHING
from experiments import experiment
from test_app_apply import RECORD, result_of, state  # noqa: F401
from test_app_tune import tuning_of

from schedlab.app.apply import applied, apply, set_scheduler, undo, watch
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.apply import Request, ToApply, choice_of, choice_of_result
from schedlab.app.measure import budget
from schedlab.app.tune import question, space, view
from schedlab.design.planning import PilotRun
from schedlab.errors import HostError, SpecError
from schedlab.host.settings import knobs
from schedlab.nouns import AA_SUFFIX, Candidate, GateFinding, Planning, Run, Target, Workload
from schedlab.tune import goal
from schedlab.tune.goal import Constraint
from schedlab.tune.search import Match
from schedlab.tune.space import SchedulerSpace, Space, Tunable


@dataclass
class Change:
    """What a queue took."""

    scheduler: str
    tunables: dict
    notes: tuple = ()
    queue: dict | None = None


class Controlled:
    """A host under control: what is set or written is noted, and read again."""

    def __init__(self, **given):
        self.given, self.calls, self.kept, self.queues, self.files = given, [], 0, {}, {}

    def __call__(self, **given):
        self.given = given
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def set_scheduler(self, device, name, tunables=None, *_):
        self.calls.append((device, name, dict(tunables or {})))
        queue = {"scheduler": name, "iosched/a": "fresh a", "iosched/b": "fresh b", "nr": "64"}
        queue |= {key: str(value) for key, value in (tunables or {}).items()}
        self.queues[device] = queue
        return Change(name, dict(tunables or {}), (f"{device} one", f"{device} two"), queue)

    def write_knob(self, path, text):
        self.calls.append((str(path), text))
        self.files[str(path)] = text
        self.queues.setdefault(Path(path).parts[3], {})[str(Path(path).relative_to(
            Path(*Path(path).parts[:5])))] = text  # fmt: skip
        return text

    def keep(self):
        self.kept += 1

    def keep_with(self, *_):
        pass


@pytest.fixture
def disks(monkeypatch, tmp_path):
    """Two disks whose queues are read from what was set."""
    control = Controlled()
    for name in ("sda", "sdb"):
        control.queues[name] = {
            "scheduler": f"old-{name}", "iosched/a": f"a of {name}", "iosched/b": f"b of {name}",
            "nr": "64",
        }  # fmt: skip
    for module in (apply, undo, set_scheduler, apply_machine):
        monkeypatch.setattr(module, "Control", control)
    monkeypatch.setattr(knobs, "device_name", lambda path: Path(path).name)
    monkeypatch.setattr(knobs, "queue_of", lambda name: Path("/sys/block") / name / "queue")
    monkeypatch.setattr(knobs, "scheduler_file", lambda name: Path(f"/sys/block/{name}/queue/x"))
    monkeypatch.setattr(knobs, "read_value", lambda path: control.queues[
        Path(path).parts[3]]["scheduler"])  # fmt: skip
    monkeypatch.setattr(knobs, "snapshot", lambda queue: dict(control.queues[queue.parts[3]]))
    monkeypatch.setattr(knobs, "writable", lambda path: True)
    monkeypatch.setattr(knobs, "canonical", lambda device, name: name)
    return control


def test_every_device_is_set_and_has_its_own_way_back(disks):
    changes = set_scheduler.set_scheduler("bfq:x=1,y=2", ["/dev/sda", "sdb", "sda"], print)
    assert list(changes) == ["sda", "sdb"] and disks.kept == 1
    for name, change in changes.items():
        assert (change["before"], change["after"]) == (f"old-{name}", "bfq")
        assert change["tunables"] == {"x": 1, "y": 2}
        assert change["notes"] == [f"{name} one", f"{name} two"]
        assert change["undo"] == (f"schedlab io set old-{name}:a=a of {name},b=b of {name} {name}")
    assert disks.calls == [
        call for name in ("sda", "sdb")
        for call in ((name, f"old-{name}", {}), (name, "bfq", {"x": 1, "y": 2}))
    ]  # fmt: skip


def test_what_is_applied_to_several_devices_is_recorded_and_told_of_each(disks, monkeypatch):
    checked, kept, lines = [], [], []
    monkeypatch.setattr(apply, "_check", lambda name, *_: checked.append(name))
    monkeypatch.setattr(apply, "_keep_after_reboot", lambda records, *_: kept.extend(records) or [
        applied.store(record) for record in records])  # fmt: skip
    monkeypatch.setattr(apply, "warnings", lambda name, *_: [f"{name} A", f"{name} B"])
    reloaded = []
    monkeypatch.setattr(apply.udev_service, "reload", lambda names, report: reloaded.extend(names))
    monkeypatch.setattr(apply, "_kept_by", lambda file, records: records)
    for name in ("sda", "sdb"):
        applied.store(replace(RECORD, device=name))
    pairs = []
    monkeypatch.setattr(apply, "_onto", lambda record, earlier: pairs.append(
        (record.device, earlier.device)) or record)  # fmt: skip
    choice = ToApply(Candidate("bfq", {"scheduler": "bfq", "x": 1, "y": 2}))
    records = apply._apply_disks(choice, Request(("/dev/sda", "sdb", "sda")), lines.append)
    assert pairs == [("sda", "sda"), ("sdb", "sdb")]
    assert checked == reloaded == [record.device for record in records] == ["sda", "sdb"]
    assert disks.calls == [(name, "bfq", {"x": 1, "y": 2}) for name in ("sda", "sdb")]
    for record in records:
        end = {Path(path).name: value for path, value in record.originals.items()}
        assert end["a"] == f"a of {record.device}" and record.setting == "bfq:x=1,y=2"
    assert lines == [
        *(f"note: {name}: {name} {n}" for name in ("sda", "sdb") for n in ("one", "two")),
        *(f"{name} {letter}" for name in ("sda", "sdb") for letter in "AB"),
    ]
    monkeypatch.setattr(apply, "planned", lambda *_: ["p1", "p2"])
    lines.clear()
    dry = Request(("sda",), dry_run=True)
    assert apply._apply_disks(choice, dry, lines.append) == [] and lines == ["p1", "p2"]


def test_what_belongs_to_disks_and_to_the_machine_is_both_applied(monkeypatch):
    monkeypatch.setattr(apply_machine, "values_of", lambda candidate: {
        key: "1" for key in candidate.settings if key.startswith("m")})  # fmt: skip
    monkeypatch.setattr(apply_machine, "knobs_of", dict)
    monkeypatch.setattr(apply, "_apply_disks", lambda choice, *_: [
        ("disk", dict(choice.candidate.settings)), ("disk2", {})])  # fmt: skip
    monkeypatch.setattr(apply, "_apply_machine", lambda values, *_: [("machine", values), "more"])
    monkeypatch.setattr(apply.settings, "scope_of", lambda name: "queue")
    choice = ToApply(Candidate("x", {"scheduler": "bfq", "m1": 1, "a": 2, "m2": 3, "b": 4}))
    done = apply.apply(choice, Request(("sda",)), print)
    assert done == [("disk", {"scheduler": "bfq", "a": 2, "b": 4}), ("disk2", {}),
                    ("machine", {"m1": "1", "m2": "1"}), "more"]  # fmt: skip
    monkeypatch.setattr(
        apply.settings, "scope_of", lambda name: "group" if name in "ab" else "queue"
    )
    as_is = ToApply(Candidate("x", {**choice.candidate.settings, "scheduler": "as-is"}))
    for each in (choice, as_is):
        with pytest.raises(SpecError, match="apply cannot set a, b: it ends"):
            apply.apply(each, Request(("sda",)), print)


def test_all_settings_of_the_machine_that_are_typed_are_chosen():
    typed = ["nr_migrate=8", "sched_rt_runtime_us=5", "x=y"]
    assert choice_of("sched_rr_timeslice_ms=20", typed).candidate.settings == {
        "sched_rr_timeslice_ms": "20", "nr_migrate": "8", "sched_rt_runtime_us": "5", "x": "y"
    }  # fmt: skip


def test_a_result_is_objected_to_for_all_that_does_not_fit(tmp_path, monkeypatch):
    result_of(monkeypatch, code="open", take="bfq", kind="sim", release="1.2",
              target=Target("scratch"))  # fmt: skip
    monkeypatch.setattr(knobs, "device_name", lambda path: Path(path).name)
    choice = choice_of_result(tmp_path, anyway=True, devices=("/dev/sdy", "sdz"))
    found = [each.split(" ")[0] for each in choice.caveats]
    assert found[-3:] == ["it", "it", "it"] and len(choice.caveats) in (3, 4)
    assert "answers unlike sdy" in choice.caveats[-2]
    two = Target("directory", "/srv", switch=("sda", "sdb"))
    for device in ("sda", "sdb"):
        assert apply._measured_elsewhere(two, ("sda", device)) == []
    told = apply._measured_elsewhere(two, ("sda", "sdc", "sdd"))
    assert told == ["it was measured on sda, sdb, not on sdc"]


def test_a_policy_of_the_machine_has_all_its_settings_or_names_all_that_it_cannot():
    candidate = Candidate("c", {"policy": "rr", "priority": 5, "slice_ms": 20, "autogroup": "off",
                                "sysctl.kernel.x": 3})  # fmt: skip
    found = apply_machine.of_result(candidate).settings
    assert found == {"sched_rr_timeslice_ms": 20, "sched_autogroup_enabled": 0,
                     "sysctl.kernel.x": 3}  # fmt: skip
    wrong = Candidate("c", {"policy": "batch", "nice": 5, "slice_ms": 20, "autogroup": "off",
                            "sysctl.kernel.x": 3})  # fmt: skip
    with pytest.raises(SpecError, match="cannot set policy=batch, nice=5, slice_ms=20") as raised:
        apply_machine.of_result(wrong)
    assert "schedlab apply sched_autogroup_enabled=0 --set sysctl.kernel.x=3" in raised.value.hint


def test_directories_that_others_made_too_are_known_with_those_that_are_missing(tmp_path):
    file = tmp_path / "one" / "two" / "rules"
    other = replace(RECORD, device="sdy", files={str(file): None}, made=("/shared", "/more"))
    applied.store(other)
    record = applied.with_file(replace(RECORD, made=("/mine", "/own")), file)
    assert record.made == ("/mine", "/own", "/shared", "/more", str(file.parent),
                           str(file.parent.parent))  # fmt: skip


def record_of(device, originals, values, **more):
    paths = [{f"/sys/block/{device}/queue/{name}": value for name, value in of.items()}
             for of in (originals, values)]  # fmt: skip
    return replace(RECORD, device=device, originals=paths[0], values=paths[1], **more)


def test_every_original_that_is_still_ours_comes_back_and_every_other_is_told(disks):
    names = ("nr_requests", "read_ahead_kb", "rq_affinity", "add_random")
    originals = {"scheduler": "none", **{name: f"old {name}" for name in names}}
    values = {"scheduler": "bfq", **{name: f"our {name}" for name in names}}
    now = values | {"rq_affinity": "other", "add_random": "others"}
    disks.queues["sda"] = dict(now)
    disks.set_scheduler = lambda device, name, *_: disks.queues["sda"].update(scheduler=name) or (
        Change(name, {}, queue={"scheduler": name}))  # fmt: skip
    lines = []
    undo._restore(record_of("sda", originals, values), lines.append, True)
    queue = "/sys/block/sda/queue"
    assert lines == [f"{queue}/{name} was changed by another program since: it is kept"
                     for name in ("add_random", "rq_affinity")]  # fmt: skip
    assert disks.calls == [(f"{queue}/read_ahead_kb", "old read_ahead_kb"),
                           (f"{queue}/nr_requests", "old nr_requests")]  # fmt: skip
    assert disks.queues["sda"] | {"scheduler": "none"} == {
        "scheduler": "none", "nr_requests": "old nr_requests",
        "read_ahead_kb": "old read_ahead_kb", "rq_affinity": "other", "add_random": "others",
    }  # fmt: skip


def test_under_a_scheduler_of_another_program_all_that_is_not_its_own_comes_back(disks):
    own = {"iosched/a": "1", "iosched/b": "2", "nr_requests": "3", "read_ahead_kb": "4",
           "rq_affinity": "5"}  # fmt: skip
    originals = {"scheduler": "none"} | {name: f"old {value}" for name, value in own.items()}
    values = {"scheduler": "bfq"} | own
    disks.queues["sda"] = {"scheduler": "kyber"} | own
    lines = []
    undo._restore(record_of("sda", originals, values), lines.append, True)
    assert len(lines) == 1 and "is kyber, which another program set" in lines[0]
    assert [value for _, value in disks.calls] == ["old 4", "old 5"]


def test_every_tunable_of_the_old_scheduler_may_have_changed(disks):
    originals = {"scheduler": "old-sda", "iosched/a": "a of sda", "iosched/b": "b of sda"}
    assert undo._made_fresh(disks, "sda", originals, dict(originals)) == {}
    for name in originals:
        fresh = undo._made_fresh(disks, "sda", originals, originals | {name: "other"})
        assert fresh == {"iosched/a": "fresh a", "iosched/b": "fresh b"}


def test_each_change_that_somebody_wrote_is_told_with_the_writer():
    old = {Path(f"/sys/block/sda/queue/{name}"): "1" for name in ("x", "y", "z", "scheduler")}
    new = {path: "2" if path.name in "xyz" else "1" for path in old}
    changes = list(watch._changes("sda", old, new, {}))
    assert [(each.key, each.before, each.now) for each in map(as_seen, changes)] == [
        (name, "1", "2") for name in "xyz"
    ]
    writers = {f"/sys/block/sda/queue/{name}": f"writer of {name}" for name in "yz"}
    told = [as_seen(each) for each in watch._changes("sda", old, new, writers)]
    assert [(each.key, each.by) for each in told] == [(n, f"writer of {n}") for n in "yz"]


def as_seen(change):
    _, _, key, before, now, by = vars(change).values()
    return SimpleNamespace(key=key, before=before, now=now, by=by)


def constraint(name, limit):
    return Constraint(name, float(limit), True, f"{name} < {limit}")


def test_every_objective_and_constraint_reaches_each_workload_that_has_it():
    works = tuple(Workload(label, "x", metric, secondary=more) for label, metric, more in (
        ("a", "iops", ("cpu_s",)), ("b", "elapsed_s", ()), ("c", "cpu_s", ("iops",)),
        ("d", "elapsed_s", ())))  # fmt: skip
    offered = {"a": ("iops", "cpu_s", "read_latency_ns_p99"), "b": ("elapsed_s",),
               "c": ("iops", "cpu_s"), "d": ("elapsed_s",)}  # fmt: skip
    asked = experiment(workloads=works, notes=("n1", "n2"))
    limits = (constraint("read_latency_ns_p99", 1), constraint("cpu_s", 2))
    found = goal.with_objective(asked, offered, "iops", True, limits)
    assert [(w.label, w.metric, w.secondary) for w in found.workloads] == [
        ("a", "iops", ("cpu_s", "read_latency_ns_p99")), ("c", "iops", ("cpu_s",))
    ]  # fmt: skip
    assert found.notes == ("n1", "n2", "omitted, as they do not measure iops: b, d")
    known = "their metrics: cpu_s, elapsed_s, iops, read_latency_ns_p99"
    with pytest.raises(SpecError, match="no workload measures x") as raised:
        goal.with_objective(asked, offered, "iops", True, (*limits, constraint("x", 1)))
    assert raised.value.hint == known


def test_a_block_has_failed_for_any_of_its_runs_and_gates():
    works = (Workload("v", "x", "iops"), Workload("w", "x", "iops"))
    asked = experiment(workloads=works)

    def run(candidate, workload, *gates, status="ok"):
        found = tuple(GateFinding(gate, "", fatal) for gate, fatal in gates)
        return Run(0, 0, workload, candidate, 1, 1, status, "", 1.0, {"iops": 5.0}, gates=found)

    ask = Match(0, 1, 0, {}, has_aa=False)
    good = [run(label, work) for label in ("old",) for work in "vw"]
    failing = sorted(goal.FAILURES)[0]
    for runs in (
        [run("new", "v", ("late", True), (failing, True), status="discarded"), run("new", "w")],
        [run("new", "v"), run("new", "w", (failing, True), ("late", True), status="discarded")],
        [run("new", "v", (failing, True), status="discarded"),
         run("new", "w", ("late", True), status="discarded")],
    ):  # fmt: skip
        assert goal.observed(ask, ("new", "old", "again"), asked, (), [*good, *runs]) is not None
    for runs in ([run("new", "v", ("late", True), (failing, False), status="discarded")],):
        assert goal.observed(ask, ("new", "old", "again"), asked, (), [*good, *runs]) is None


TWO = Space((
    SchedulerSpace("bfq", (Tunable("slice_idle", 0, 8), Tunable("low_latency", 0, 1))),
    SchedulerSpace("kyber", (Tunable("read_lat_nsec", 1, 9, unit="ns"), Tunable("w", 1, 5))),
))  # fmt: skip


def test_a_probe_tells_what_each_scheduler_lacks(monkeypatch):
    session = SimpleNamespace(queues=("sda", "sdb"), control=None)
    lacks = {("bfq", "slice_idle"), ("bfq", "low_latency"), ("kyber", "w")}
    monkeypatch.setattr(space, "_probed", lambda control, queue, scheduler, tunable: (
        None if (scheduler, tunable.name) in lacks else tunable))  # fmt: skip
    got, notes = space.probe(session, TWO)
    assert [(of.scheduler, [t.name for t in of.tunables]) for of in got.schedulers] == [
        ("bfq", []), ("kyber", ["read_lat_nsec"])
    ]  # fmt: skip
    text = "not tuned, because the kernel refuses it under"
    assert notes == [f"{text} bfq: low_latency, slice_idle", f"{text} kyber: w"]


def test_every_file_of_a_setting_of_the_machine_has_to_take_it(monkeypatch):
    paths = [(Path(f"/sys/{name}"), "5") for name in "ab"]
    monkeypatch.setattr(space.settings, "is_machine", lambda name: True)
    monkeypatch.setattr(space.settings, "resolve", lambda *_: paths)
    monkeypatch.setattr(space.knobs, "read_value", lambda path: f"found {path.name}")
    written = []
    control = SimpleNamespace(write_knob=lambda path, text: written.append((path.name, text)))
    assert space._takes(control, "sda", "bfq", "x", 5)
    assert written == [("a", "5"), ("a", "found a"), ("b", "5"), ("b", "found b")]


def test_a_search_is_previewed_with_all_that_it_has(monkeypatch):
    works = tuple(Workload(label, "x", "iops") for label in "vw")
    base = experiment(workloads=works, title="T", notes=("n1", "n2"))
    times = {"v": 1.0, "w": 2.0}
    monkeypatch.setattr(question, "admit", lambda *_: SimpleNamespace(
        estimate_s=times.__getitem__, writes=("f1", "f2"), notes=("n3", "n4")))  # fmt: skip
    limits = (constraint("cpu_s", 1), constraint("iops", 2))
    asked = question.TuningRequest(TWO, limits, 600.0, 1)
    lines = question.preview_lines(base, asked, None)
    blocks = int(600 * question.SEARCH_SHARE / 6)
    assert f"about {blocks} blocks of search" in lines[1]
    assert "  bfq: slice_idle 0..8, low_latency 0..1" in lines
    assert "  kyber: read_lat_nsec 1..9 ns, w 1..5" in lines
    assert [line.split(":")[0] for line in lines if line.startswith(("  v", "  w"))] == [
        "  v",
        "  w",
    ]
    assert lines[-8:] == ["", "writes:", "  f1", "  f2", *(f"note: n{n}" for n in range(1, 5))]
    assert [line for line in lines if line.startswith("subject")] == [
        "subject to: cpu_s < 1", "subject to: iops < 2"
    ]  # fmt: skip


def test_every_constraint_that_a_setting_misses_is_told_by_all_its_runs(tmp_path, monkeypatch):
    limits = (constraint("cpu_s", 1), constraint("elapsed_s", 2), constraint("iops", 900))
    tuning = tuning_of(tmp_path, constraints=limits)
    values = [{"cpu_s": 0.25, "elapsed_s": 1.0}, {"cpu_s": 16.0, "elapsed_s": 9.0}]
    runs = [SimpleNamespace(candidate=label, metrics=each) for each in values for label in "ab"]
    runs = [run if run.candidate == "a" else SimpleNamespace(candidate="b", metrics={})
            for run in runs]  # fmt: skip
    monkeypatch.setattr(view, "verdict_of", lambda tuning: SimpleNamespace(
        record=SimpleNamespace(analysed_runs=runs), answer=NOTHING))  # fmt: skip
    lines = view.missed(tuning, "a")
    assert [line.split(":")[0] for line in lines[:2]] == [
        "a misses cpu_s < 1",
        "a misses elapsed_s < 2",
    ]
    assert "2.00\u00a0s" in lines[0]
    assert "iops < 900 could not be checked" in lines[2] and len(lines) == 3
    assert len(view.missed(tuning, "b")) == 3


@pytest.mark.parametrize(
    ("setting", "devices", "undone"),
    [
        ("bfq:slice_idle=0,low_latency=1", "sda sdb", "sda sdb"),
        ("bfq:slice_idle=0,sched_rr_timeslice_ms=5", "sda sdb", "sda sdb machine"),
        ("as-is:sched_rr_timeslice_ms=5,nr_migrate=4", "", "machine"),
    ],
)
def test_the_winner_is_applied_to_and_undone_on_all_devices(tmp_path, setting, devices, undone):
    tuning = tuning_of(tmp_path)
    target = Target("directory", "/srv", switch=("sda", "sdb"))
    tuning.base = replace(tuning.base, target=target)
    apply_line, undo_line = view._commands(tuning, setting, False)
    assert apply_line == f"apply: schedlab apply {setting} {devices}".rstrip()
    assert undo_line == f"undo: schedlab undo {undone}"
    for text in ("bfq:slice_idle=0,workload.x=1", "bfq:workload.x=1,slice_idle=0",
                 "bfq:slice_idle=0,run=x"):  # fmt: skip
        assert view._commands(tuning, text, False) == []


def test_a_budget_knows_every_workload(tmp_path):
    works = tuple(Workload(label, "file-test", "iops", {"test": "read"}) for label in "uvw")
    planning = Planning(4, run_s={"u": 1.0, "v": 2.0}, ramp_s={"v": 0.5, "u": 0.25},
                        omitted={"w": "x"})  # fmt: skip
    asked = experiment(workloads=works)
    plan = budget.whole_plan(asked, budget.Plan(()), planning)
    assert {(c.workload, c.seconds, c.ramp_seconds) for c in plan.cells} == {
        ("u", 1.0, 0.25), ("v", 2.0, 0.5)
    }  # fmt: skip
    assert {cell.block for cell in plan.cells} == set(range(4)) and plan.ends == (4,)


def test_a_budget_is_planned_by_what_each_workload_is(monkeypatch):
    works = tuple(Workload(label, "file-test", "iops", {"test": "read"}, weight=weight,
                           negative_control=label in "vw")
                  for label, weight in zip("uvwx", (1.0, 2.0, 3.0, 4.0), strict=True))  # fmt: skip
    pilot, asked = [PilotRun("u", "none", 1.0, 1.0, 1.0)], experiment(workloads=works)
    monkeypatch.setattr(budget, "pilot_runs", lambda _: pilot)
    monkeypatch.setattr(budget, "ramps", lambda _: {})
    monkeypatch.setattr(budget, "nothing_to_order", lambda work: work.label in "wx")
    known = {}
    monkeypatch.setattr(budget, "plan_budget", lambda *_, **of: known.update(of) or {}["end"])
    with pytest.raises(KeyError):
        budget.plan_rest(SimpleNamespace(record=lambda: SimpleNamespace(experiment=asked)))
    assert known == {"weights": {"u": 1.0, "v": 2.0, "w": 3.0, "x": 4.0},
                     "controls": {"v", "w"}, "unordered": {"w", "x"}}  # fmt: skip


def test_every_workload_that_needs_a_longer_ramp_gets_its_own(monkeypatch):
    works = tuple(Workload(label, "random-reads", "iops") for label in "uvw")
    monkeypatch.setattr(budget, "usual_seconds", lambda work, name: {"u": 1.0, "v": 2.0, "w": 9.0}[
        work.label])  # fmt: skip

    def series(*values):
        return [SimpleNamespace(block=block, values=values, bin_s=0.5) for block in range(2)]

    record = SimpleNamespace(
        experiment=SimpleNamespace(workloads=works),
        series={("u", "a"): series(10), ("u", "b"): series(4), ("v", "a"): series(2),
                ("v", "b"): series(30), ("w", "a"): series(6)},
    )  # fmt: skip
    monkeypatch.setattr("schedlab.analyse.common_ramp",
                        lambda rows: (max(row[0] for row in rows), True))  # fmt: skip
    assert budget.ramps(record) == {"u": 5.0, "v": 15.0}


def test_a_disk_that_was_measured_is_known_by_all_its_names(monkeypatch):
    links = {"/dev/disk/one": "sda", "/dev/disk/two": "sdb"}
    monkeypatch.setattr(knobs, "device_name", lambda path: links.get(path, Path(path).name))
    monkeypatch.setattr(apply.targets, "disks_named", lambda target: tuple(links))
    here = Target("directory", "/srv")
    for device in ("sda", "sdb", "one", "two"):
        assert apply._measured_elsewhere(here, (device,)) == []
    told = apply._measured_elsewhere(here, ("sda", "sdc"))
    assert told == ["it was measured on one, sda, sdb, two, not on sdc"]


def test_a_record_has_every_setting_before_and_after(disks, monkeypatch):
    choice = ToApply(Candidate("bfq", {"scheduler": "bfq", "x": 1, "y": 2}))
    before, after = {"b": "1", "a": "2", "c": "3"}, {"b": "4", "c": "5", "a": "6"}
    record = apply._record("sda", choice, before, after)
    queue = Path("/sys/block/sda/queue")
    assert record.originals == {str(queue / name): text for name, text in before.items()}
    assert record.values == {str(queue / name): text for name, text in after.items()}


@pytest.mark.parametrize("stuck", ["a1", "b2", "c3"])
def test_any_setting_that_does_not_come_back_is_an_error(disks, stuck):
    names = ("a1", "b2", "c3")
    ours = {"scheduler": "bfq"} | dict.fromkeys(names, "ours")
    disks.queues["sda"] = dict(ours)
    disks.set_scheduler = lambda device, name, *_: disks.queues["sda"].update(scheduler=name) or (
        Change(name, {}, queue={"scheduler": name}))  # fmt: skip
    write = disks.write_knob
    disks.write_knob = lambda path, text: None if Path(path).name == stuck else write(path, text)
    originals = {"scheduler": "none"} | dict.fromkeys(names, "old")
    with pytest.raises(HostError, match=f"queue/{stuck} could not be restored to old"):
        undo._restore(record_of("sda", originals, ours), print, True)


def test_what_follows_a_scheduler_is_no_change_of_its_own_wherever_that_stands():
    queue = Path("/sys/block/sda/queue")
    old = {queue / name: "1" for name in ("nr_requests", "scheduler", "wbt_lat_usec", "zz")}
    new = dict.fromkeys(old, "2")
    told = [as_seen(each).key for each in watch._changes("sda", old, new, {})]
    assert told == ["scheduler", "zz"]


@pytest.mark.parametrize("name", ["bfq", "kyber"])
def test_nothing_can_be_tuned_under_one_scheduler_without_tunables(monkeypatch, name):
    session = SimpleNamespace(queues=("sda",), control=None)
    monkeypatch.setattr(space, "_probed", lambda *_: None)
    (one,) = (each for each in TWO.schedulers if each.scheduler == name)
    with pytest.raises(SpecError, match=f"nothing can be tuned under {name}"):
        space.probe(session, Space((one,)))
    got, notes = space.probe(session, TWO)
    assert len(got.schedulers) == len(notes) == 2


def test_every_arm_of_the_blocks_of_a_search_has_its_own_settings(tmp_path):
    tuning = tuning_of(tmp_path)
    settings = [{"scheduler": "as-is", "workload.workers": n} for n in (3, 5)]
    for each in settings:
        tuning.search._enter(each)
    asks = [Match(0, 1, 0, settings[0], has_aa=True), Match(1, 2, 1, settings[1], has_aa=True)]
    found = {c.label: dict(c.settings) for c in tuning.candidates(asks)}
    default = {"scheduler": "as-is"}
    assert found == {
        "as-is": default, "as-is #1": settings[0], f"as-is{AA_SUFFIX}": default,
        "as-is #2": settings[1], f"as-is #1{AA_SUFFIX}": settings[0],
    }  # fmt: skip


def test_a_file_of_an_earlier_version_keeps_no_later_one_from_being_removed(tmp_path):
    old, newer = tmp_path / "old.conf", tmp_path / applied.RULES.name
    record = replace(RECORD, files={str(old): None, str(newer): None})
    old.write_text("x")
    applied.write_file(newer, applied.HEADER + applied.rule_text(record))
    lines = []
    undo._remove_files(record, lines.append)
    assert old.exists() and not newer.exists() and len(lines) == 1
