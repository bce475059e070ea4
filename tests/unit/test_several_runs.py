"""Of several commands, runs, findings, groups, simulations and settings each counts."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import experiment

from schedlab.errors import HostError, SpecError
from schedlab.kinds import Outcome
from schedlab.kinds.command import Command
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.nouns import Candidate, Cell, GateFinding, Workload
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.run import candidate_settings
from schedlab.run.command import command_runs, confinement, launch
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.confinement import Wall
from schedlab.run.command.launch import Ended, WorkGroup
from schedlab.run.command.metrics_from_output import Reader
from schedlab.run.executor import Executor
from schedlab.run.io import io, io_commands
from schedlab.run.io.io_commands import CommandCells, Ran, Rehearsal
from schedlab_sim import checked
from schedlab_sim import session as sim

NONE, BFQ = (Candidate(name, {"scheduler": name}) for name in ("none", "bfq"))


def found(*names, **more):
    return tuple(GateFinding(name, f"{name} broke", **more) for name in names)


def names_of(findings):
    return [each.gate for each in findings]


def ended(**changes):
    usual = {"elapsed_s": 1.0, "status": 0, "signal": None, "timed_out": False,
             "output_exceeded": False, "stdout": b"", "stderr": b""}  # fmt: skip
    return Ended(**{**usual, **changes})


@pytest.fixture
def runs(tmp_path):
    made = CommandRuns.__new__(CommandRuns)
    made._readers, made.limits_s, made.work = {}, {}, WorkGroup(None, "command")
    return made


def command(*metrics, **more):
    return Command(argv=["a"], extract=list(metrics), **more)


RATE, COUNT = (f"{name}:1/s=stdout~{name} ([0-9]+)" for name in ("rate", "count"))


def test_all_that_is_wrong_with_a_run_of_a_command_is_found(runs, tmp_path):
    kind, work = command(RATE, COUNT), Workload("w", "command", "rate")
    failed = ended(status=3, output_exceeded=True, stderr=b"no")
    outcome = runs.outcome(work, kind, failed, tmp_path, 0.0)
    assert names_of(outcome.gates) == ["output", "no-value", "no-value"]
    failed = ended(status=3, stderr=b"no", usage={"cpu_s": 0.5, "own_read_bytes": 3.0, "x": 1.0})
    assert names_of(runs.outcome(work, kind, failed, tmp_path, 0.0).gates) == ["exit-status"]
    outcome = runs.outcome(work, command(RATE, COUNT, ignore_exit=True), failed, tmp_path, 0.0)
    assert names_of(outcome.gates) == ["exit-status", "no-value", "no-value"]
    assert outcome.metrics == {"elapsed_s": 1.0, "cpu_s": 0.5, "x": 1.0}
    good = ended(stdout=b"rate 5\ncount 7\n")
    assert runs.outcome(work, kind, good, tmp_path, 0.0).metrics == {
        "elapsed_s": 1.0, "rate": 5.0, "count": 7.0
    }  # fmt: skip
    runs.limits_s["w"] = 9.0
    late = ended(timed_out=True, output_exceeded=True)
    outcome = runs.outcome(work, kind, late, tmp_path, 0.0)
    assert names_of(outcome.gates) == ["output", "limit", "exit-status"]
    assert outcome.metrics == {"elapsed_s": 9.0, "elapsed_synced_s": 9.0}
    assert outcome.bounds == dict.fromkeys(outcome.metrics, "at-least")


@pytest.mark.parametrize("fatal", range(3))
def test_a_rehearsal_is_refused_for_any_of_its_gates(runs, fatal):
    each = [GateFinding(f"g{n}", f"{n} broke", fatal=n == fatal) for n in range(3)]
    outcome = Outcome({}, gates=tuple(each))
    with pytest.raises(HostError, match=f"w: in the rehearsal {fatal} broke"):
        runs.refuse("w", command(), ended(), outcome)


def test_each_command_has_its_own_limit_and_number(runs):
    runs._number = 0
    assert [runs.rehearsed(label, command(), s) for label, s in (("a", 1e3), ("b", 1e4))] == [
        command_runs.TIMEOUT_FACTOR * s for s in (1e3, 1e4)
    ]  # fmt: skip
    assert runs.limit_s("b", command()) == 10 * runs.limit_s("a", command())
    assert [runs.tokens(Path("/d"), "/dev/x", seed)["run"] for seed in (1, 2)] == [
        "000001", "000002"
    ]  # fmt: skip


def test_every_place_that_a_program_may_write_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(confinement, "_probe", lambda: ("", ["pid", "mount", "ipc"]))
    monkeypatch.setattr(confinement, "_left_out", lambda directory: ["/mnt"])
    wall = Wall()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
    places = [str(tmp_path / f"to-{name}") for name in ("one", "two")]
    kind = command(confine="files", writable=places, stdin=str(tmp_path / "to-in"))
    wall.resolve(kind)
    assert set(wall._places) == {*places, str(tmp_path / "to-in")}
    order = wall.order(kind, tmp_path)
    assert order == {"detached": ["/mnt"], "files": True, "writable": [
        str(tmp_path), *(str(tmp_path / name) for name in ("one", "two"))]}  # fmt: skip
    assert wall.facts(kind)["walls"] == ["ipc", "mount", "pid"]
    assert wall.facts(command(user="nobody"))["walls"] == ["ipc", "mount", "pid", "user"]


def test_all_mounts_that_others_need_are_left_out(tmp_path, monkeypatch):
    kinds = [("/a", "ext4"), ("/proc", "proc"), ("/b", "ext4"), ("/jail/proc", "proc"),
             ("/jail/cg", "cgroup2"), ("/sys/fs/cgroup", "cgroup2"),
             *((str(each), "ext4") for each in (tmp_path, *tmp_path.parents))]  # fmt: skip
    mounts = [SimpleNamespace(target=target, kind=kind) for target, kind in kinds]
    monkeypatch.setattr(confinement.kernel_paths, "mounts", lambda: mounts)
    monkeypatch.setattr(confinement.owned, "holds_files", lambda at: True)
    assert confinement._left_out(tmp_path) == ["/a", "/b", "/jail/proc", "/jail/cg"]


def test_a_rehearsal_tells_what_moved_on_every_queue_and_every_value():
    moved, values = {"sda": 4096, "sdb": 8192}, {"rate": 5.0, "count": 7.0}
    lines, idle = (Rehearsal(2.0, s, moved, 60.0, values, 6, 3).lines("w") for s in (0.9, 0.89))
    assert "4 KiB on sda, 8 KiB on sdb, rate 5, count 7;" in lines[0]
    assert lines[1] == "w: 6 runs take about 12 s" and (len(lines), len(idle)) == (4, 3)


def test_what_moved_is_that_of_each_queue_and_all_others(monkeypatch):
    now = {"sda": (5, 7), "sdb": (100, 20), "sdc": (1000, 3000)}
    monkeypatch.setattr(io_commands.gates, "device_bytes", now.__getitem__)
    before = {"sda": (1, 1), "sdb": (0, 0), "sdc": (1000, 0)}
    moved = io_commands._moved_since(before, ["sda", "sdb"])
    assert moved == ({"sda": 10, "sdb": 120}, {"sdc": 3000})
    monkeypatch.setattr(io_commands, "_moved", lambda queues: {"sda": (5, 7)})
    with pytest.raises(HostError, match="sdb was removed"):
        io_commands._moved_since({"sda": (1, 1)}, ["sda", "sdb"])


class Room:
    """All that a session of commands asks; each call is noted."""

    def __init__(self, monkeypatch, tmp_path, works):
        self.calls, self.lines, self.patch = [], [], monkeypatch
        kinds = {label: command(warm_up=2, servers=["one", "two"]) for label in works}
        asked = experiment(
            workloads=tuple(Workload(each, "command", "elapsed_s") for each in works)
        )
        admitted = SimpleNamespace(
            experiment=asked, kind=lambda workload, candidate: kinds[workload.label]
        )
        cells = self.cells = CommandCells.__new__(CommandCells)
        cells.session = SimpleNamespace(
            admitted=admitted, queues=("sda", "sdb"), set_again=lambda candidate: {"x": "y"},
            target=SimpleNamespace(size_bytes=1 << 40, device="sda", raw_path="/dev/sda"),
            settings=SimpleNamespace(as_found=lambda: self.calls.append("as found")),
        )  # fmt: skip
        cells.report = self.lines.append
        cells.kinds, cells.rehearsals, cells.launch_cost_s = kinds, {}, 0.001
        cells.control = SimpleNamespace(check=lambda: found("mine", "yours"))
        cells.wall = SimpleNamespace(missing="", device_path=lambda kind: "", facts=lambda kind: {})
        place = dict.fromkeys(("refresh", "open", "flush", "let_go"), lambda *_: None)
        cells.place = SimpleNamespace(
            directory=tmp_path, flushed=tmp_path, set_cache=lambda kind: "kept", **place
        )

        def noted(name):
            return lambda label, *_: self.calls.append((name, label))

        members = [(11, "sleep"), (12, "tail")]
        cells.runs = SimpleNamespace(
            set_up=noted("set up"), phase=lambda label, kind, name, _: self.calls.append(
                (name, label)), tokens=lambda *_: {}, groups=(), limit_s=lambda *_: 60.0,
            work=SimpleNamespace(members=lambda: members, end=lambda: ["tail", "sleep", "tail"]),
            standing=SimpleNamespace(members=lambda: [(21, "a"), (22, "b")]),
            clean_up=lambda commands: self.calls.extend(label for label, *_ in commands),
            failures=SimpleNamespace(note=lambda *_: None), refuse=lambda *_: None,
            rehearsed=lambda *_: 60.0,
        )  # fmt: skip
        cells._syncs, cells._no_syncs = None, ""


@pytest.fixture
def room(monkeypatch, tmp_path):
    return Room(monkeypatch, tmp_path, ("one", "two"))


def test_every_command_is_set_up_before_any_is_rehearsed_and_all_are_cleaned_up(room, monkeypatch):
    cells = room.cells
    watched = SimpleNamespace()
    monkeypatch.setattr(io_commands.durability, "places_of", lambda *_: None)
    monkeypatch.setattr(io_commands.durability, "watch", lambda *_, **__: (watched, ""))
    syncs = iter([0, 3, 0, 0])

    def rehearsed(workload, kind):
        room.calls.append(("rehearse", workload.label))
        told = [f"{workload.label} {n}" for n in (1, 2)]
        return SimpleNamespace(
            syncs=next(syncs), lines=lambda label: [f"{label}: {each}" for each in told]
        )

    cells._rehearse = rehearsed
    cells.open()
    assert room.calls == [(what, label) for what in ("set up", "rehearse")
                          for label in ("one", "two")]  # fmt: skip
    assert room.lines[1:] == ["one: one 1", "one: one 2", "two: two 1", "two: two 2"]
    assert list(cells.rehearsals) == ["one", "two"] and cells._syncs is watched
    room.calls.clear()
    cells.close()
    assert room.calls == ["one", "two"]
    cells.open()
    assert cells._syncs is None
    cells.wall.missing = "none here"
    room.lines.clear()
    cells._rehearse = lambda *_: SimpleNamespace(syncs=0, lines=lambda label: [])
    cells.open()
    assert [line.split(":")[0] for line in room.lines[1:]] == ["one", "two"]


@pytest.mark.parametrize(("ignored", "times"), [(True, 1), (False, 2)])
def test_a_command_that_may_fail_is_rehearsed_once(room, monkeypatch, ignored, times):
    ran = []

    def done():
        raise SystemExit

    ended = Ended(1.0, 7, None, False, False, b"", b"")
    room.cells._run = lambda *_: ran.append(1) or SimpleNamespace(ended=ended)
    for name, answer in (("drain", 0.0), ("queues_of_all", ()), ("_moved", {})):
        monkeypatch.setattr(io_commands, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(io_commands, "_moved_since", lambda *_: done())
    with pytest.raises(SystemExit):
        room.cells._rehearse(Workload("one", "command", "elapsed_s"), command(ignore_exit=ignored))
    assert len(ran) == times


def test_the_files_of_every_fio_job_are_looked_at_before_any_and_marked_after_it(
    room, monkeypatch, tmp_path
):
    class Fio(SimpleNamespace):
        pass

    cells, done = room.cells, []
    monkeypatch.setattr(io_commands, "FioJob", Fio)
    monkeypatch.setattr(io_commands.durability, "places_of", lambda *_: None)
    monkeypatch.setattr(io_commands.durability, "watch", lambda *_, **__: (None, ""))
    cells.kinds = {
        label: Fio(
            check_room=lambda *_: None, knows_its_time=lambda: False,
            check_files=lambda label, place, is_ours: done.append(("looked", label)),
            mark_files=lambda place, label=label: done.append(("marked", label)),
        ) for label in ("one", "two")
    }  # fmt: skip
    cells._rehearse = lambda work, _: done.append(("ran", work.label)) or SimpleNamespace(
        syncs=1, lines=lambda label: [])  # fmt: skip
    cells.open()
    assert done == [("looked", "one"), ("looked", "two"), ("ran", "one"), ("marked", "one"),
                    ("ran", "two"), ("marked", "two")]  # fmt: skip


def test_every_candidate_warms_every_command_up_as_often_as_asked(room):
    measured = []
    room.cells.measure = lambda kind, cell, workload, candidate: measured.append(
        (cell.workload, candidate.label)
    )
    room.cells.warm_up((NONE, BFQ))
    assert measured == [(w, c) for w in ("one", "two") for c in ("none", "bfq") for _ in range(2)]


def test_a_run_of_a_command_has_all_that_broke_and_all_that_moved(room, monkeypatch):
    cells = room.cells
    looks = iter([{"sda": (10, 20), "sdb": (30, 40)}, {"sda": (11, 22), "sdb": (33, 44)}])
    monkeypatch.setattr(io_commands, "_moved", lambda queues: next(looks))
    monkeypatch.setattr(io_commands, "drain", lambda *_: 0.25)
    monkeypatch.setattr(io_commands.gates, "snapshot", lambda *_: None)
    monkeypatch.setattr(io_commands.gates, "findings", lambda *_: found("swap", "thermal"))
    monkeypatch.setattr(
        io_commands.gates, "neighbour_findings", lambda *_: found("steal", "others")
    )
    monkeypatch.setattr(io_commands.gates, "cpu_facts", lambda *_: {"window_s": 1.0})
    monkeypatch.setattr(io_commands.gates, "warm_findings", lambda *_: found("not-warm"))
    foreign = []
    monkeypatch.setattr(io_commands, "foreign_reads", lambda *given: foreign.append(given)
                        or found("foreign", "more"))  # fmt: skip
    monkeypatch.setattr(io_commands.DirtyPeak, "findings", lambda self: found("dirty-limit"))
    read = iter([100, 400])
    asked = []
    monkeypatch.setattr(io_commands, "read_bytes_of", lambda pids: asked.append(pids) or next(read))
    called = {"one": [31, 32], "two": [33]}
    monkeypatch.setattr(io_commands.processes, "called", called.__getitem__)
    cells.rehearsals = {
        "one": SimpleNamespace(elapsed_s=1.0),
        "two": SimpleNamespace(elapsed_s=2.0),
    }
    ran = Ran(ended(usage={"own_read_bytes": 7.0}), 1.0, None)
    cells._run = lambda *_: ran
    cells._outcome = lambda *_: Outcome({"elapsed_s": 1.0}, gates=found("own", "more-own"))
    kind = command(servers=["one", "two"], cache="warm")
    work = cells.session.admitted.experiment.workloads[1]
    outcome = cells.measure(kind, Cell(0, 0, "two", "none", 1), work, NONE)
    assert names_of(outcome.gates) == [
        "mine", "yours", "swap", "thermal", "not-warm", "steal", "others", "foreign", "more",
        "dirty-limit", "own", "more-own",
    ]  # fmt: skip
    assert [each.gate for each in outcome.gates if not each.fatal] == ["steal", "others"]
    assert asked == [{21, 22, 31, 32, 33}] * 2
    assert foreign == [({"sda": 1, "sdb": 3}, 307.0, False)]
    assert outcome.metrics == {"elapsed_s": 1.0, "read_bytes": 4.0, "written_bytes": 6.0}
    assert outcome.properties["moved_bytes"] == {"sda": [1, 2], "sdb": [3, 4]}
    assert outcome.properties["left_behind"] == ["sleep", "tail"]
    assert outcome.properties["rehearsed_s"] == 2.0


def test_what_moved_elsewhere_names_the_two_nearest(room):
    own = ended(usage={"own_read_bytes": 3e9, "own_dirtied_bytes": 1e9})
    moved, elsewhere = (
        {"sda": 1 << 20, "sdb": 1 << 21},
        {"sdc": 10, "dm-0": 4 << 30, "sdd": 3 << 30},
    )
    with pytest.raises(HostError) as raised:
        room.cells._check_queues("w", command(), own, moved, elsewhere)
    assert "3072 KiB were on sda, sdb; dm-0 moved" in str(raised.value)
    assert "; sdd moved" in str(raised.value) and "sdc" not in str(raised.value)
    with pytest.raises(HostError, match="moved nothing on sda, sdb"):
        room.cells._check_queues("w", command(), own, dict.fromkeys(moved, 0), elsewhere)
    room.cells._check_queues("w", command(), own, {"sda": 0, "sdb": 4 << 30}, elsewhere)


@pytest.fixture
def session(monkeypatch):
    made = io.IoSession.__new__(io.IoSession)
    made.control = SimpleNamespace(check=lambda: found("mine", "yours"))
    made.target = SimpleNamespace(device="sda", directory=None, path=Path("/"), counts_alone=True)
    made.described, made.fidelity, made.commands, made.emulated = set(), {}, None, None
    made._settle_s = 0.0
    made.set_again = lambda candidate: {"scheduler": candidate.label}
    before = SimpleNamespace(findings=found("unsettled", "other"), snapshot=None)
    made._watch = SimpleNamespace(before=lambda s: before,
                                  findings=lambda *given: found("swap", "steal"))  # fmt: skip
    monkeypatch.setattr(io, "device_facts", lambda device: {"disk": device})
    monkeypatch.setattr(io.gates, "snapshot", lambda device: None)
    monkeypatch.setattr(io.gates, "cpu_facts", lambda *_: {})
    monkeypatch.setattr(io.os, "geteuid", lambda: 1)
    return made


def test_a_run_has_all_findings_of_all_that_looked(session):
    outcome = Outcome({"iops": 1.0}, {"errors": 3}, found("own", "more-own"))
    kind = SimpleNamespace(groups=lambda: (), estimate_s=lambda: 1.0,
                           measure=lambda *given: outcome)  # fmt: skip
    cell = Cell(0, 0, "w", "none", 1)
    measured = session._measured(kind, cell, Workload("w", "x", "iops"), NONE)
    assert names_of(measured.gates) == [
        "own", "more-own", "unsettled", "other", "mine", "yours", "swap", "steal", "io-errors"
    ]  # fmt: skip
    device = SimpleNamespace(account=lambda: {"a": 1}, facts={"tags": 3},
                             gate_findings=lambda account: found("late", "busy"))  # fmt: skip
    judged = io._judged(measured, device)
    assert judged.gates == (*measured.gates, *found("late", "busy"))


def test_a_workload_waits_less_each_time_that_it_was_not_quiet(session):
    kind = SimpleNamespace(groups=lambda: (), estimate_s=lambda: 9.0,
                           measure=lambda *given: Outcome({}))  # fmt: skip
    session._settle_s, waited = io.SETTLE_S, []
    looks = iter([("unsettled",), ("other", "unsettled"), ("other",), ()])
    session._watch.before = lambda s: waited.append(s) or SimpleNamespace(
        findings=found(*next(looks)), snapshot=None)  # fmt: skip
    for _ in range(4):
        session._measured(kind, Cell(0, 0, "w", "none", 1), Workload("w", "x", "iops"), NONE)
    assert waited == [io.SETTLE_S, io.SETTLE_S / 2, io.SETTLE_S / 4, io.SETTLE_S]


def test_each_workload_is_described_once_by_a_run_that_counts(session):
    session.fidelity = {"v": {"device": "a"}, "w": {"device": "b"}}
    good, bad = Outcome({}), Outcome({}, gates=found("late"))
    told = [session._with_description(outcome, None, label).properties.get("fidelity")
            for label, outcome in (("v", bad), ("v", good), ("w", bad), ("w", good), ("v", good),
                                   ("w", good))]  # fmt: skip
    v, w = session.fidelity.values()
    assert told == [v, v, w, w, None, None]


def test_a_run_has_all_its_groups(session):
    session._groups = SimpleNamespace(directory=lambda group: f"/groups/{group.name}")
    groups = [SimpleNamespace(name=name) for name in ("readers", "writers")]
    session.target = ResolvedTarget(Path("/x"), 1, None, 512, False, Path("/x"), 1)
    target = session._with_groups(SimpleNamespace(groups=lambda: groups))
    assert target.groups == {"readers": "/groups/readers", "writers": "/groups/writers"}


def test_any_workload_may_need_files_and_any_disk_below_may_have_heads(monkeypatch):
    target = SimpleNamespace(filesystem="", rotational=io.AS_IS)
    for needs in ((True, False), (False, True)):
        kinds = [SimpleNamespace(needs_files=each) for each in needs]
        assert not io.is_bare(target, kinds)
    assert io.is_bare(target, [SimpleNamespace(needs_files=False)] * 2)
    monkeypatch.setattr(io.knobs, "queue_of", Path)
    monkeypatch.setattr(io.devices, "disks_below", lambda directory: ("sda", "sdb"))
    for heads in ("sda", "sdb"):
        monkeypatch.setattr(io.knobs, "read_value", lambda path, of=heads: f"{of in str(path):d}")
        assert io.says_rotational(target, "/")


def test_each_work_joins_the_groups_of_each_controller(monkeypatch):
    monkeypatch.setattr(candidate_settings, "cpu_hierarchy", lambda: Path("/cpu"))
    monkeypatch.setattr(candidate_settings, "io_hierarchy",
                        lambda: SimpleNamespace(root=Path("/io")))  # fmt: skip
    made = []
    control = SimpleNamespace(cgroup=lambda name, root: made.append(root) or root / name)
    works = [WorkGroup(None, "command") for _ in range(2)]
    group = candidate_settings.groups_of_work(control, *works)
    assert [group(each) for each in ("cpu", "io", "cpu", "io")] == [
        Path("/cpu/work"), Path("/io/work")
    ] * 2  # fmt: skip
    assert made == [Path("/cpu"), Path("/io")]
    assert [work.files for work in works] == [
        ("/cpu/work/cgroup.procs", "/io/work/cgroup.procs")
    ] * 2  # fmt: skip


def test_the_words_and_streams_of_a_program_are_all_its_own():
    tokens = {"dir": "/d", "device": "/dev/x", "run": "7", "seed": "9"}
    replaced = [launch.replaced(word, tokens) for word in ("@dir@/@run@", "@device@@seed@")]
    assert replaced == ["/d/7", "/dev/x9"]


def queued(label, **parameters):
    return Workload(label, "host-queue", "iops", {"device": "nvme", **parameters})


def test_all_numbers_of_a_simulation_are_kept(monkeypatch):
    numbers = {"iops": 5.0, "x": 1.0, "y": 2.0, "latency_ns_mean": 7.0, "z": float("inf")}

    class Ran(dict):
        def metrics_of(self, process):
            return numbers

        def histograms(self, process):
            return ()

    class Simulation:
        def run(self, stop):
            return Ran()

    monkeypatch.setattr(sim, "_applied", lambda *work: work)
    monkeypatch.setattr(sim, "simulation_of", lambda *_: Simulation())
    monkeypatch.setattr(sim.dataclasses, "replace", lambda simulation, log: simulation)
    monkeypatch.setattr(sim, "merge", lambda rows: [])
    outcome = sim.outcome_of((Workload("w", "x", "iops"), NONE), 3)
    assert outcome.metrics == {"iops": 5.0, "latency_ns_mean": 7.0}
    assert outcome.properties == {"simulation_seed": 3, "x": 1.0, "y": 2.0}


def test_every_cell_of_a_simulation_begins_with_its_own_work(monkeypatch):
    asked = experiment(kind="sim", workloads=(queued("v"), queued("w")))
    begun = []
    monkeypatch.setattr(sim, "outcome_of", lambda work, seed, *_: begun.append(
        (work[0].label, work[1].label, seed)))  # fmt: skip

    class Pool:
        def submit(self, function, *given):
            future = Future()
            function(*given)
            future.set_result(given)
            return future

    class Opened:
        def __enter__(self):
            return Pool(), None

        def __exit__(self, *_):
            return False

    monkeypatch.setattr(sim, "threads", Opened)
    cells = [Cell(block, at, work, arm, 1) for block in range(2)
             for at, (work, arm) in enumerate(
                 (work, arm) for work in "vw" for arm in ("none", "bfq"))]  # fmt: skip
    with sim.open_session(SimpleNamespace(experiment=asked), cells, None) as session:
        assert len(session._begun) == 8
    assert begun == [(cell.workload, cell.candidate, 1 + cell.block) for cell in cells]


def test_a_policy_of_any_candidate_in_python_needs_processes(monkeypatch):
    opened = []

    class Pool:
        def __enter__(self):
            opened.append("processes")
            return SimpleNamespace()

        def __exit__(self, *_):
            return False

    monkeypatch.setattr(sim, "processes", Pool)
    monkeypatch.setattr(sim, "threads", lambda: pytest.fail("no threads"))
    for policies in (("x.py:P", "fcfs"), ("fcfs", "x.py:P")):
        arms = tuple(Candidate(f"c{n}", {"policy": each}) for n, each in enumerate(policies))
        asked = experiment(kind="sim", candidates=arms, baseline="c0")
        with sim.open_session(SimpleNamespace(experiment=asked), [], None):
            pass
    assert opened == ["processes"] * 2


def test_doubts_and_lengths_are_those_of_all_cells(monkeypatch):
    asked = experiment(kind="sim", workloads=(queued("v"), Workload("u", "ssd", "x"), queued("w")))
    monkeypatch.setattr(sim, "_applied", lambda *work: work)
    monkeypatch.setattr(
        sim, "simulation_of",
        lambda work, arm, seed: SimpleNamespace(trace=None, processes=work.label, of=arm.label),
    )  # fmt: skip
    monkeypatch.setattr(
        checked, "expected_of",
        lambda each: SimpleNamespace(lines=lambda rates: ["  near", f"  {each[0].of}"]),
    )  # fmt: skip
    assert sim.doubts(asked) == ["v: near", "v: none", "v: bfq", "w: near", "w: none", "w: bfq"]
    lengths = {("v", "none"): 1.0, ("v", "bfq"): 2.0, ("u", "none"): 4.0, ("u", "bfq"): 8.0,
               ("w", "none"): 16.0, ("w", "bfq"): 32.0}  # fmt: skip
    monkeypatch.setattr(sim, "_run_s", lambda work, seed: lengths[work[0].label, work[1].label])
    monkeypatch.setattr(sim.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(sim, "CALIBRATED", 6)
    expected = 10 * (63 / 6 + sim.STORED_S) + sim.REPORTED_S
    assert sim.seconds_of(asked, 10) == pytest.approx(expected)


def test_every_workload_and_candidate_of_a_simulation_is_checked(monkeypatch):
    seen, refused = [], []
    monkeypatch.setattr(sim, "outcome_of", lambda work, seed, stop: seen.append(
        (work[0].label, work[1].label)))  # fmt: skip
    monkeypatch.setattr(sim, "map_threads", lambda begin, cells: [begin(c, None) for c in cells])
    monkeypatch.setattr(sim, "refuse_idle_parameters", lambda names, policies: refused.append(
        (*names.items(), tuple(policies))))  # fmt: skip
    both = {"policy_set": {"q": 1, "r": 2}}
    works = tuple(Workload(label, "ssd", "elapsed_s", {f"p{label}": 1, **both}) for label in "vw")
    arms = tuple(Candidate(label, {"policy": label, f"s{label}": 1}) for label in "ab")
    asked = experiment(kind="sim", workloads=works, candidates=arms, baseline="a")
    sim.check(asked)
    assert seen == [(work, arm) for work in "vw" for arm in "ab"]
    assert {pair[0]: policies for pair, policies in refused} == {
        **dict.fromkeys(("policy", "policy_set", "policy_set.q", "policy_set.r"), (*"abab",)),
        "sa": ("a", "a"), "sb": ("b", "b"), "pv": ("a", "b"), "pw": ("a", "b"),
    }  # fmt: skip
    for at in range(2):
        traced = tuple(Workload(each.label, "ssd", "elapsed_s", {"trace": "x"} if n == at else {})
                       for n, each in enumerate(works))  # fmt: skip
        with pytest.raises(SpecError, match=f"{works[at].label}: a trace is one sample"):
            sim.check(experiment(kind="sim", workloads=traced, candidates=arms, baseline="a"))


@pytest.mark.parametrize("at", range(2))
def test_any_workload_of_a_simulation_may_have_a_metric_without_requests(monkeypatch, at):
    monkeypatch.setattr(sim, "outcome_of", lambda *_: None)
    monkeypatch.setattr(sim, "map_threads", lambda begin, cells: None)
    monkeypatch.setattr(sim, "refuse_idle_parameters", lambda *_: None)
    monkeypatch.setattr(sim, "_applied", lambda work, arm: (work, arm))
    metric = sorted(sim.SSD_METRICS)[0]
    monkeypatch.setattr(sim, "simulation_of", lambda work, arm, seed: work.label)
    monkeypatch.setattr(sim, "metrics_of_requests", lambda label: (
        ("other", "more") if label == "vw"[at] else (metric,)))  # fmt: skip
    works = tuple(Workload(label, "ssd", metric) for label in "vw")
    arms = tuple(Candidate(label, {"policy": label}) for label in "ab")
    with pytest.raises(SpecError, match=f"{'vw'[at]}: metric {metric}") as raised:
        sim.check(experiment(kind="sim", workloads=works, candidates=arms, baseline="a"))
    assert raised.value.hint == 'for example metric = "other"'


@pytest.mark.parametrize("over", [(0,), (0, 1), (1,), (0, 1, 2)])
def test_a_block_is_over_when_all_its_cells_are(over):
    blocks = [[0, 1, 2], [3, 4], [5]]
    done = {cell for block in over for cell in blocks[block]}
    asked = SimpleNamespace(blocks=blocks, _is_over=done.__contains__)
    expected = next((n for n in range(3) if n not in over), 3)
    assert Executor._next(asked) == expected
    if over != (0, 1, 2):
        for cell in blocks[expected][:-1]:
            done.add(cell)
        assert Executor._next(asked) == expected


def test_what_is_left_is_counted_for_each_workload():
    cells = [Cell(0, at, work, "none", 1) for at, work in enumerate("vvwuw")]
    asked = SimpleNamespace(left=cells)
    Executor._count_left(asked)
    assert asked.left_of == {"v": 2, "w": 2, "u": 1}


def test_each_metric_is_read_where_it_is_printed():
    texts = {"stdout": b"n 1\n", "stderr": b"n 2\n", "one": b"n 3\n", "two": b"n 4\n"}
    sources = ("stdout", "stderr", "file:one", "file:two", "file:three")
    metrics = [parse_output_metric(f"{name}:1/s={source}~n ([0-9]+)")
               for name, source in zip("abcde", sources, strict=True)]  # fmt: skip
    values, missing = Reader(metrics).read(texts["stdout"], texts["stderr"], texts.get)
    assert values == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert [each.detail.split(":")[0] for each in missing] == ["e"]
