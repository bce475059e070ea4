"""The one door: what is refused, with its hint; targets, options and stopping rules."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from calls import refusals, refused, shown
from commands import typed as typed_words

from schedlab.app import admit as door
from schedlab.app import options, targets
from schedlab.app.admit import admit, admit_candidates
from schedlab.app.compare import comparison
from schedlab.app.compare.calls import sweep_experiment
from schedlab.app.compare.comparison import (
    Load,
    Place,
    families_of,
    labelled,
    stopping_of,
    target_of,
)
from schedlab.app.measure import budget
from schedlab.design.candidates import parse_candidates
from schedlab.host import devices, processes
from schedlab.host.settings import knobs
from schedlab.kinds import typed
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
from schedlab.run.admitted import Permission

TRUSTED = Permission(trust=True)
READS = Workload("reads", "file-test", "iops", {"test": "random-read"})
WRITES = Workload("writes", "file-test", "iops", {"test": "random-write"})
COMMAND = Workload("c", "command", "elapsed_s", {"argv": ["true", "x"]})


def experiment(directory, **changes):
    """Reads and writes of files under the setting that there is."""
    usual = Experiment(
        "t", "io", Target("directory", str(directory), 1 << 20),
        (Candidate("as-is", {"scheduler": "as-is"}),), (READS, WRITES), "as-is", 1,
    )  # fmt: skip
    return replace(usual, **changes)


WAKEUP = Workload("w", "wakeup", "response_ns_p99")
COUNTED = Workload("c", "calculation", "calculations_per_cpu_s")
CONTROL = replace(WAKEUP, label="k", negative_control=True)


def weighted(*weights):
    return tuple(replace(WAKEUP, label=str(n), weight=weight) for n, weight in enumerate(weights))


def test_what_the_door_refuses(tmp_path, golden):
    def asked(changes):
        admit(experiment(tmp_path, **changes), TRUSTED)

    cases = [
        {"notes": ("a\x1bb",)}, {"schema": 2}, {"schema": 0}, {"kind": "import"}, {"margin": 0.0},
        {"margin": 1.0}, {"seed": -1}, {"seed": 2**64}, {"candidates": ()}, {"workloads": ()},
        {"workloads": (READS, READS)}, {"baseline": "as-it"},
        {"workloads": (READS, replace(WRITES, weight=-1.0))},
        {"workloads": (replace(READS, metric="iopz"),)},
        {"workloads": (replace(READS, secondary=("reader_latency_ns_mean",)),)},
        {"kind": "cpu", "target": Target("none")},
        *({"stopping": Stopping(**stopping)} for stopping in (
            {"blocks": 0}, {"blocks": 10_001}, {"mode": "precision"}, {"budget_s": -0.5},
            {"mode": "precision", "precision": 1.0}, {"budget_s": math.nan}, {"budget_s": math.inf},
            {"sessions": 0}, {"sessions": -3}, {"blocks": 2, "sessions": 3},
            {"mode": "until-decided", "sessions": 3}, {"may_extend": -1})),
        *({"candidates": (Candidate("a", settings),), "baseline": "a"} for settings in (
            {"scheduler": "as-is", "../x": "1"}, {"scheduler": "as-is", "workload.a/b": "1"},
            {"scheduler": "as-is", "nr_requests": "6\n4"})),
    ]  # fmt: skip
    golden("refusals/door.txt", refusals(asked, ((case,) for case in cases)))


def cpu(works, settings):
    """One candidate, `a`."""
    return Experiment("t", "cpu", Target("none"), (Candidate("a", settings),), works, "a", 1)


def test_what_the_door_refuses_of_cpu_time(golden):
    """Before the first run: a weight that is none, settings that no policy has."""
    flip = replace(COUNTED, parameters={"flip": True})
    cases = [
        *((works, {}) for works in (
            weighted(1.0, math.nan), weighted(1.0, math.inf), weighted(0.0, 0.0),
            weighted(0.0, -1.0), (CONTROL, *weighted(0.0)), (WAKEUP, COUNTED))),
        *(((WAKEUP,), settings) for settings in (
            {"policy": "foo"}, {"scheduler": "none"}, {"slice_ms": "abc"})),
        *(((COUNTED,), settings) for settings in (
            {"policy": "foo"}, {"nice": 5}, {"slice_ms": -5}, {"policy": "rr", "slice_ms": 1.5})),
        ((flip,), {"policy": "rr", "slice_ms": 4}),
    ]  # fmt: skip
    golden("refusals/door-cpu.txt", refusals(lambda *case: admit(cpu(*case)), cases))
    for works, settings in (
        (weighted(0.0, 1.0), {}),
        ((replace(CONTROL, weight=0.0),), {}),  # a control has no part in the verdict
        ((WAKEUP,), {"policy": "batch", "slice_ms": 3, "group_idle": 1, "workload.load": 1}),
        ((COUNTED,), {}),
        ((COUNTED,), {"policy": "rr", "slice_ms": 4, "workload.processes": 3}),
        ((flip,), {"policy": "rr", "slice_ms": 4, "effective_ms": 4.0}),
    ):
        assert admit(cpu(works, settings)).kinds


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 0, "margin": 0.999, "stopping": Stopping(blocks=10_000)},
        {"seed": 2**64 - 1, "stopping": Stopping(blocks=1)},
        {"stopping": Stopping("precision", precision=0.5), "margin": 0.001},
        {"workloads": (replace(READS, weight=0.0, secondary=("latency_ns_p99",)), WRITES)},
        {"stopping": Stopping(blocks=3, sessions=3, may_extend=6, budget_s=0.5)},
    ],
)
def test_what_the_door_lets_in(tmp_path, changes):
    admitted = admit(experiment(tmp_path, **changes), TRUSTED)
    arms = {label for _, label in admitted.kinds}
    assert arms == {"as-is", "as-is (A/A)"}
    assert admitted.queues == () and admitted.programs == ()
    assert admitted.writes == (f"a new subdirectory of {tmp_path}, 1 MiB, removed at the end",)


def test_a_candidate_for_a_device_names_a_scheduler(tmp_path, say):
    bare = Candidate("bfq:x=1", {"x": 1})
    asked = experiment(tmp_path, candidates=(bare,), baseline="bfq:x=1")
    for kind in ("device", "scratch"):
        target = Target(kind, "/dev/null", 1 << 20)
        say(door._check_settings, bare, replace(asked, target=target))
    door._check_settings(bare, asked)  # a directory may have none
    fair = Candidate("f", {"knob.fair_server/cpu0/runtime": 5})
    door._check_settings(fair, asked)  # a setting of the machine, whose name has a path
    other = Candidate("f", {"knob.fair_server/cpu0/other": 5})
    cpu = replace(asked, kind="cpu")
    say(door._check_settings, other, cpu)


def test_what_a_file_asks_for_needs_a_yes(tmp_path, say):
    asked = experiment(tmp_path, workloads=(COMMAND,))
    say(admit, asked)
    assert admit(asked, TRUSTED).programs == ("true x",)
    two = (COMMAND, replace(COMMAND, label="d", parameters={"argv": ["false"]}),
           replace(COMMAND, label="e"))  # fmt: skip
    said, _ = refused(admit, replace(asked, workloads=two))
    assert said == "this experiment wants to run true x and run false"
    admitted = admit(asked, TRUSTED)
    target = Target("device", "/dev/sdb", switch=("sda", "sdc"))
    wider = replace(admitted, permission=Permission(trust=False),
                    experiment=replace(asked, target=target))  # fmt: skip
    say(door._check_trust, wider)
    for allowed, other in (("sda", "sdc"), ("sdc", "sda")):
        asked_of = replace(wider, permission=Permission(trust=False, switch=(allowed,)))
        assert refused(door._check_trust, asked_of)[0].endswith(f"scheduler of {other}")
    door._check_trust(replace(wider, permission=TRUSTED))
    quiet = admit(experiment(tmp_path))  # nothing is asked for
    assert quiet.permission == Permission(trust=False)


def test_the_policy_file_of_each_candidate_needs_a_yes():
    policies = [Candidate(name, {"policy": f"{name}.py:P"}) for name in ("a", "b", "c")]
    work = Workload("A", "ssd", "iops", {"requests": 50})
    asked = Experiment("t", "sim", Target("none"), tuple(policies), (work,), "a", 1)
    said, _ = refused(admit, asked)
    assert said == "this experiment wants to run a.py:P, run b.py:P and run c.py:P"


def test_what_the_door_refuses_of_a_second_candidate(tmp_path, say):
    usual = Candidate("a", {"scheduler": "as-is"})
    for other in (usual, Candidate("b", {"scheduler": "as-is", "nr_requests": "6\n4"})):
        say(admit, experiment(tmp_path, candidates=(usual, other), baseline="a"), TRUSTED)
    asked = cpu((WAKEUP,), {"policy": "other"})
    huge = Candidate("huge", {"policy": "batch", "thp": "always"})
    say(admit, replace(asked, candidates=(*asked.candidates, huge)))


def test_each_server_of_a_command_must_run(tmp_path):
    runs = processes.name_of("self")
    for servers in ([runs, "gone"], ["gone", runs]):
        parameters = {**COMMAND.parameters, "servers": servers}
        works = (COMMAND, replace(COMMAND, label="d", parameters=parameters))
        said, _ = refused(admit, experiment(tmp_path, workloads=works), TRUSTED)
        assert said == "d: no process of the server 'gone' runs"


def test_other_candidates_of_what_was_admitted(tmp_path, say):
    admitted = admit(experiment(tmp_path), TRUSTED)
    others = (Candidate("x", {"scheduler": "as-is", "workload.workers": 2}),
              Candidate("y", {"scheduler": "as-is"}))  # fmt: skip
    again = admit_candidates(admitted, others)
    assert (again.experiment.baseline, again.experiment.aa_arm) == ("x", False)
    assert {label for _, label in again.kinds} == {"x", "y"}
    assert again.writes == admitted.writes
    say(admit_candidates, admitted, (others[0],) * 2)


def test_keys_of_another_target(golden):
    cases = [
        Target("scratch", destroy_data=True), Target("scratch", switch=("a",)),
        Target("directory", rotational="1"), Target("device", filesystem="ext4"),
        Target("scratch", model="disk7200"), Target("directory", queue_depth=2),
        Target("scratch", dilate=2.0),
    ]  # fmt: skip
    golden("refusals/targets.txt", refusals(targets._check_keys, ((case,) for case in cases)))


def test_keys_of_their_own_target():
    for target in (
        Target("device", destroy_data=True, rotational="1"),
        Target("directory", switch=("a",)),
        Target("emulated", model="m", queue_depth=1, filesystem="ext4", rotational="0", dilate=2.0),
        Target("scratch", filesystem="none", rotational="0"),
    ):
        targets._check_keys(target)


def test_sizes_of_targets_and_records(say):
    check = targets._check_sizes
    reads = typed(READS)
    for size in (1 << 20, (1 << 20) + 4096):
        check(Target("scratch", size_bytes=size), [reads])
    for size in ((1 << 20) - 4096, (1 << 20) + 2048, 0):
        say(check, Target("scratch", size_bytes=size), [])
    target = Target("scratch", size_bytes=1 << 20)
    kind = SimpleNamespace(kind="k", device_commands=lambda: 1, used_bytes=lambda size: size)
    say(check, target, [kind])
    check(replace(target, kind="emulated"), [kind])
    kind.device_commands = lambda: 0
    check(target, [kind])
    kind.used_bytes = lambda size: size + 1024
    help_size = "use a larger target, or smaller records"
    assert refused(check, target, [kind]) == (
        "k: uses 1025 KiB of a target of 1 MiB", help_size
    )  # fmt: skip
    kind.used_bytes, kind.record_bytes = (lambda size: 8192), 8192
    check(target, [kind])
    kind.record_bytes = 16384
    assert refused(check, target, [kind]) == (
        "k: a record of 16 KiB does not fit into 8 KiB", help_size
    )  # fmt: skip
    kind.record_bytes, kind.block_bytes = 0, 12288
    say(check, target, [kind])
    kind.used_bytes, kind.block_bytes = (lambda size: 0), 1 << 20
    check(target, [kind])
    kind.block_bytes = 2 << 20
    say(check, target, [kind])


def test_what_cannot_work_on_a_bare_device(tmp_path, say):
    check = targets._check_bare
    files = SimpleNamespace(kind="k", needs_files=True)
    say(check, "/dev/x", [typed(READS), files])
    check("/dev/x", [typed(READS), typed(COMMAND)])
    for parameters in ({"copy_in": str(tmp_path)}, {"fresh": "run"}):
        own = replace(COMMAND, parameters={**COMMAND.parameters, **parameters})
        say(check, "/dev/x", [typed(own)])


def test_what_a_directory_needs(tmp_path, say):
    resolve = targets.resolve
    own = experiment(tmp_path, workloads=(COMMAND,))
    written = resolve(own, [typed(COMMAND)], TRUSTED).writes
    assert written == (f"whatever files the commands write in {tmp_path}",)
    filled = resolve(own, [typed(READS), typed(COMMAND)], TRUSTED).writes
    assert filled == (f"a new subdirectory of {tmp_path}, 1 MiB, removed at the end",)
    gone = replace(own, target=Target("directory", str(tmp_path / "x"), 1 << 20))
    say(resolve, gone, [typed(COMMAND)], TRUSTED)
    fresh = replace(COMMAND, parameters={"argv": ["true"], "fresh": "run"})
    say(resolve, own, [typed(fresh)], TRUSTED)
    both = (
        {"scheduler": "bfq"}, {"scheduler": "as-is", "nr_requests": 4}
    )  # fmt: skip
    for settings in both:
        as_it_is = Candidate("b", {"scheduler": "as-is"})
        named = replace(own, candidates=(Candidate("x"), Candidate("a", settings), as_it_is))
        said, hint = refused(resolve, named, [typed(COMMAND)], TRUSTED)
        assert said == f"{tmp_path}: no scheduler would be set, because no request queue is named"
        assert hint.startswith("name the queue that may be switched: --switch ")
    plain = replace(own, candidates=(Candidate("a", {"workload.x": 1}), Candidate("b", {})))
    assert resolve(plain, [typed(COMMAND)], TRUSTED).queues == ()


def test_targets_of_other_experiments(tmp_path, say):
    cpu = experiment(tmp_path, kind="cpu")
    say(targets.resolve, cpu, [], TRUSTED)
    assert targets.resolve(replace(cpu, target=Target("none")), [], TRUSTED) == (
        targets.Resolution()
    )
    nowhere = experiment(tmp_path, target=Target("none"))
    say(targets.resolve, nowhere, [], TRUSTED)


def test_targets_in_words():
    describe = targets.describe
    assert describe(Target("scratch", size_bytes=3 << 30)) == "a temporary loop device of 3 GiB"
    emulated = Target("emulated", size_bytes=1 << 30, model="disk7200")
    assert describe(emulated) == "an emulated disk7200 of 1 GiB"
    assert describe(Target("device", "/dev/sdb", 5 << 20)) == "/dev/sdb (5 MiB)"


def test_schedulers_that_are_offered(monkeypatch, say):
    choices = {"a": ("none", "kyber", "bfq"), "b": ("bfq", "mq-deadline", "none")}
    monkeypatch.setattr(knobs, "offered", lambda queue: choices[queue])
    on = Target("directory", "/srv")
    assert targets.offered(on, ()) == ("as-is",)
    assert targets.offered(on, ("a",)) == ("none", "kyber", "bfq")
    assert targets.offered(on, ("a", "b")) == ("none", "bfq")
    monkeypatch.setattr(devices, "loop_schedulers", lambda: ("none", "mq-deadline"))
    scratch = Target("scratch", size_bytes=1 << 30)
    assert targets.offered(scratch, ("a",)) == ("none", "mq-deadline")
    check = targets.check_offered
    named = parse_candidates("none,mq-deadline,deadline,noop,as-is")
    assert check(named, scratch, ()) == (
        "deadline is its name in older kernels: measured as mq-deadline",
        "noop is its name in older kernels: measured as none",
    )
    place = "a temporary loop device of 1 GiB"
    say(check, parse_candidates("bfq"), scratch, ())
    said, hint = refused(check, parse_candidates("none,noop,cfq"), scratch, ())
    assert "'cfq' is not offered" in said and "bfq, after modprobe bfq" in hint
    said, hint = refused(check, parse_candidates("mq-deadlin"), scratch, ())
    assert hint == "did you mean 'mq-deadline'?" and place in said


def place(**changes):
    return replace(Place(), **changes)


def test_places_that_contradict(golden):
    cases = [
        {"scratch_bytes": 1, "device": "d"}, {"scratch_bytes": 0, "directory": "d", "model": "m"},
        {"device": "b", "destroy_data": "c"}, {"device": "c", "destroy_data": "b"},
        {"device": "c", "destroy_data": "c", "read_only": True}, {"read_only": True},
        {"queue_depth": 1}, {"dilate": 0.5},
    ]  # fmt: skip
    told = refusals(lambda options: target_of(place(**options)), ((case,) for case in cases))
    golden("refusals/places.txt", told)


def test_places_become_targets(monkeypatch):
    gib = 1 << 30
    assert target_of(Place()) == Target("scratch", "/var/tmp", gib)
    small = place(scratch_bytes=5 << 20, scratch_directory="/x", filesystem="xfs", rotational="1")
    assert target_of(small) == Target(
        "scratch", "/x", 5 << 20, rotational="1", filesystem="xfs"
    )  # fmt: skip
    below = place(directory="/srv", switch=("sda",))
    assert target_of(below) == Target("directory", "/srv", gib, switch=("sda",))
    assert target_of(replace(below, size_bytes=4096)).size_bytes == 4096
    model = place(model="disk7200", queue_depth=4, dilate=2.0, filesystem="ext4")
    assert target_of(model) == Target(
        "emulated", "", gib, model="disk7200", queue_depth=4, dilate=2.0, filesystem="ext4"
    )
    assert target_of(replace(model, size_bytes=8192)).size_bytes == 8192
    assert target_of(replace(model, size_bytes=8192, scratch_bytes=4096)).size_bytes == 4096
    monkeypatch.setattr(devices, "size_bytes", lambda device: 77)
    disk = place(device="/dev/x", read_only=True, rotational="0")
    assert target_of(disk) == Target("device", "/dev/x", 77, False, rotational="0")
    gone = place(device="/dev/x", destroy_data="/dev/x")
    assert target_of(gone) == Target("device", "/dev/x", 77, True)


def test_queues_whose_schedulers_are_offered():
    assert comparison.queues_of(Target("device", "/dev/sdx")) == ("sdx",)
    below = Target("directory", "/srv", switch=("sda", "sdb"))
    assert comparison.queues_of(below) == ("sda", "sdb")
    assert comparison.queues_of(Target("scratch", "/var/tmp")) == ()


def test_candidates_have_the_users_names(say):
    pair = parse_candidates("none,bfq")
    named = labelled(pair, " before , after")
    assert [c.label for c in named.candidates] == ["before", "after"]
    assert named.notes == ("before is none", "after is bfq")
    for labels in ("a", "a,b,c", "a,a", "a,", ","):
        say(labelled, pair, labels)


def test_families_of_workloads():
    usual = families_of(None, None)
    assert usual[0] == "newcomer" and len(usual) == 6
    assert families_of(None, ["read"]) == ["file-tests"]
    assert families_of(["weights"], ["read"]) == ["weights"]
    said, helps = refused(families_of, ["weight"], None)
    assert (said, helps) == ("workloads 'weight' are not known", "did you mean 'weights'?")


@pytest.mark.parametrize(
    ("options", "stopping"),
    [
        ({}, Stopping("fixed", 12)),
        ({"blocks": 5, "sessions": 3}, Stopping("fixed", 15, sessions=3)),
        ({"budget_s": 60.0}, Stopping("fixed", 40, budget_s=60.0)),
        ({"blocks": 7, "budget_s": 60.0}, Stopping("fixed", 7, budget_s=60.0)),
        ({"quick": True}, Stopping("fixed", 40, budget_s=60.0)),
        ({"quick": True, "budget_s": 5.0}, Stopping("fixed", 40, budget_s=5.0)),
        ({"quick": True, "blocks": 3}, Stopping("fixed", 3)),
        ({"quick": True, "until_decided": True}, Stopping("until-decided", 20)),
        ({"quick": True, "precision": 0.5}, Stopping("precision", 20, 0.5)),
        ({"until_decided": True, "blocks": 9, "budget_s": 8.0},
         Stopping("until-decided", 9, 0.0, 8.0)),
        ({"blocks": 4, "may_extend": 8}, Stopping("fixed", 4, may_extend=8)),
        ({"sessions": 2, "budget_s": 9.0}, Stopping("fixed", 80, budget_s=9.0, sessions=2)),
    ],
)  # fmt: skip
def test_stopping_rules(options, stopping):
    assert stopping_of(**options) == stopping


@pytest.mark.parametrize("rule", [{"until_decided": True}, {"precision": 0.1}, {"may_extend": 9}])
def test_sessions_repeat_a_fixed_plan(rule):
    assert refused(stopping_of, sessions=2, **rule) == (
        "--sessions repeats a fixed plan", "omit --until-decided, --precision and --may-extend"
    )  # fmt: skip
    assert stopping_of(sessions=1, **rule).sessions == 1
    if "may_extend" not in rule:
        message, _ = refused(stopping_of, may_extend=9, **rule)
        assert message == "--may-extend announces a second end of a fixed plan"
    both = refused(stopping_of, until_decided=True, precision=0.1)
    assert both == ("--until-decided and --precision cannot be used together", "use one of them")


def compared(monkeypatch, options, **design):
    monkeypatch.setattr(devices, "size_bytes", lambda device: 1 << 30)
    load = design.pop("load", Load(tests=("read", "random-write")))
    return comparison.comparison(place(**options), load, schedulers="none,bfq", **design)


def test_a_comparison_of_schedulers(monkeypatch, golden, say):
    disk, seven = {"device": "/dev/x"}, {"load": Load(), "families": ["file-tests"]}
    asked = {
        "scratch": ({"scratch_bytes": 1 << 30}, {"seed": 0, "margin": 0.125}),
        "a disk": (disk, {"labels": "a,b"}),
        "a disk, only read": (disk | {"read_only": True}, {}),
        "a disk, its data lost": (disk | {"destroy_data": "/dev/x"}, {}),
        "the seven tests": ({}, seven),
    }
    made = {n: compared(monkeypatch, of, **{"seed": 1} | how) for n, (of, how) in asked.items()}
    golden("experiments/schedulers.txt", shown(made))
    assert compared(monkeypatch, {}).seed != compared(monkeypatch, {}).seed
    say(compared, monkeypatch, disk, load=Load(tests=("write",)))
    said, hint = refused(compared, monkeypatch, {}, load=Load(tests=("red",)))
    assert said == "test 'red' is not known" and hint.startswith("did you mean 're")


def test_a_comparison_keeps_what_fits(monkeypatch):
    monkeypatch.setattr(budget, "shortest_s", lambda work: 1.0)
    # Six blocks of none, bfq and the A/A arm take 18 s for each workload.
    short = compared(monkeypatch, {}, stopping=Stopping(budget_s=35.0))
    assert len(short.workloads) == 1
    assert short.notes[0].startswith("omitted: six blocks do not fit into 35 s: ")
    assert len(compared(monkeypatch, {}, stopping=Stopping(budget_s=36.0)).workloads) == 2
    without = {"stopping": Stopping(budget_s=24.0), "aa_arm": False}
    assert len(compared(monkeypatch, {}, **without).workloads) == 2


def sweep(**changes):
    usual = {
        "block_sizes": [512, 8192], "modes": ["sync", "direct"], "same_bytes": None, "calls": None,
        "direction": "write", "blocks": 4, "seed": 3,
    }  # fmt: skip
    return sweep_experiment(Place(), **usual | changes)


def test_a_sweep_of_block_sizes_and_modes(golden, say):
    asked = {"same bytes": {}, "calls": {"calls": 9}, "both": {"calls": 9, "same_bytes": 4096}}
    made = {name: sweep(**changes) for name, changes in asked.items()}
    golden("experiments/block-sizes.txt", shown(made))
    say(sweep, modes=["synk"])


def test_options_become_a_place_and_a_load(tmp_path):
    assert options.place_of(typed_words("compare")) == Place()
    words = "--scratch 6 --scratch-directory /x --device /d --destroy-data /e --read-only "
    words += "--allow-unknown-data --directory /f --size 5 --switch a,,b --model m --queue-depth 4 "
    words += "--dilate 2 --rotational 1 --fs xfs"
    assert options.place_of(typed_words("compare", *words.split())) == Place(
        6, "/x", "/d", "/e", True, True, "/f", 5, ("a", "b"), "m", 4, 2.0, "1", "xfs"
    )  # fmt: skip
    assert options.load_of(typed_words("compare")) == Load()
    (tmp_path / "a").touch()
    words = "--tests read --records 512 --seconds 2.5 --depth 3 --workers 2 --buffered --program p "
    words += f"--archive {tmp_path}/a --archive-size 7 --decompressor xz"
    assert options.load_of(typed_words("compare", *words.split())) == Load(
        ("read",), (512,), 0, 2.5, 3, 2, True, f"{tmp_path}/a", 7, "xz", "p"
    )


def test_options_become_a_permission(monkeypatch):
    asked = []
    monkeypatch.setattr(options, "consent_to", lambda *a, **named: asked.append((a, named)))
    assert options.permission_of(Place()) == Permission((), trust=True)
    assert options.permission_of(place(read_only=True)).in_use
    disk = place(device="/d", destroy_data="/d", allow_unknown_data=True)
    assert len(options.permission_of(disk).consents) == 1
    assert len(options.permission("/d", trust=False).consents) == 1
    assert asked == [(("/d",), {"allow_unknown_data": over}) for over in (True, False)]


def test_options_become_an_experiment(monkeypatch):
    monkeypatch.setattr(options, "usual_user", lambda: "")
    words = ("--margin", "12.5%", "--seed", "9")

    def compared(*more, command=()):
        typed = typed_words("compare", "--schedulers", "none,bfq", *words, *more)
        return options.comparison(Place(), command, typed, print)

    found = compared("--workloads", "random-reads", "--no-aa", "--explain")
    design = (found.objective, found.margin, found.seed, found.aa_arm, found.stopping)
    assert design == ("throughput", 0.125, 9, False, Stopping(blocks=12)) and found.explain
    assert [c.label for c in found.candidates] == ["none", "bfq"]
    assert compared("--goal", "latency").objective == "latency"
    searched = typed_words("tune", *words, "--goal", "fairness")
    tuned = options.tuned_work(Place(), (), searched, print)("kyber")
    assert (tuned.baseline, tuned.stopping, tuned.aa_arm) == ("kyber", Stopping(blocks=1), False)
    assert tuned.objective == "fairness"
    hint = ("--workloads and --tests cannot be used with a COMMAND",
            "write both into an experiment file")  # fmt: skip
    for option, work in (("--workloads", "readers"), ("--tests", "read")):
        assert refused(compared, option, work, command=("true",)) == hint
    assert compared(command=("true",)).workloads[0].kind == "command"
    cpu = typed_words("cpu compare", *words, "--load", "2", "--cpus", "1", "--explain",
                      "--policies", "other,batch")  # fmt: skip
    policies = options.policy_comparison((), cpu, print)
    assert (policies.objective, policies.explain, policies.margin) == ("latency", True, 0.125)
    assert policies.workloads[0].parameters == {"cpus": [1], "load": 2}
