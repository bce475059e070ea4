"""Of several devices, sessions, workloads, processes or CPUs each has its line, and its own."""

import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import answers
import numpy as np
import pytest
import reports
from calls import run
from experiments import experiment
from numpy.lib import recfunctions as rfn

from schedlab import result
from schedlab.app.apply import machine
from schedlab.app.live import live
from schedlab.app.measure import labs
from schedlab.app.trace import block_io
from schedlab.cli.fleet import host_lines
from schedlab.guest import image
from schedlab.host import doctor
from schedlab.host.queues import Node, QueueSet
from schedlab.host.safety import journal
from schedlab.kinds import Outcome
from schedlab.nouns import Candidate, Target, Workload
from schedlab.nouns.metrics import METRICS
from schedlab.report import fleet_table, gantt, moments, play, screen, sentences, words
from schedlab.report.texts import NO_BREAK
from schedlab.run.command import launch
from schedlab.run.command.launch import Launch
from schedlab.run.cpu import cpu_policies
from schedlab.run.live import live_own_figure
from schedlab.store.bursts import Scheduling
from schedlab_sim import cpu_validate

ORDERS = [1, -1]


@pytest.mark.parametrize("order", ORDERS)
def test_each_session_is_that_of_its_own_process(order, tmp_path, monkeypatch):
    owners = {tmp_path / "alive": "1 x", tmp_path / "dead": "2 y"}
    monkeypatch.setattr(journal, "sessions", lambda _: [*owners][::order])
    monkeypatch.setattr(journal, "read", lambda path: SimpleNamespace(owner=owners[path]))
    monkeypatch.setattr(journal, "is_alive", lambda process: process == "1")
    alive, dead = [*doctor.session()][::order]
    assert alive.found == f"{tmp_path / 'alive'} of process 1 x"
    assert (dead.found, dead.command) == (
        f"{tmp_path / 'dead'} of a session that died", "schedlab recover"
    )  # fmt: skip


def test_what_a_live_comparison_does_is_told_of_every_queue_and_file_system(tmp_path, monkeypatch):
    below = QueueSet(str(tmp_path), Node("x"), ("sda", "sdb"), ("/srv (ext4)", "/home (xfs)"), {})
    monkeypatch.setattr(live, "queues_below", lambda path: below)
    monkeypatch.setattr(live, "blocks_of", lambda question: 5)
    monkeypatch.setattr(live, "check_settings", lambda of, target, queues, _: [*queues])
    both = (Candidate("none", {}), Candidate("bfq", {}))
    question = SimpleNamespace(path=tmp_path, candidates=both, for_s=60.0, switch=())
    first, *others = live.what_it_does(question)
    assert first.startswith("sda, sdb: switched 15 times between none, bfq, in ")
    assert others == ["it also affects /srv (ext4)", "it also affects /home (xfs)", "sda", "sdb"]


def test_a_policy_is_judged_by_the_tasks_of_all_groups_that_it_covers(monkeypatch):
    session = object.__new__(cpu_policies.PolicySession)
    rows = {"a": [(1, 0, 0, 0)], "b": [(2, 0, 0, 0), (3, 0, 0, 0)], "other": [(4, 0, 0, 0)]}
    groups = {name: SimpleNamespace(attributes=of) for name, of in rows.items()}
    session._run_mix = lambda *_: SimpleNamespace(of=groups.get)
    roles = [SimpleNamespace(name=name, is_load=name != "other") for name in rows]
    kind = SimpleNamespace(outcome=lambda mixed: Outcome({}), task_groups=lambda cpus: roles,
                           ramp_seconds=0, seconds=1)  # fmt: skip
    judged = []
    monkeypatch.setattr(cpu_policies, "_cpus", lambda kind: (0,))
    monkeypatch.setattr(cpu_policies, "_share_under", lambda policy, tasks: judged.extend(tasks))
    monkeypatch.setattr(cpu_policies, "_policy_gate", lambda policy, share: ())
    session._mix(kind, SimpleNamespace(covers=lambda is_load: is_load), 1)
    assert judged == [*rows["a"], *rows["b"]]


@pytest.mark.parametrize("order", ORDERS)
def test_the_longest_switch_is_any_of_them(order):
    view = reports.view_of(answers.TRADE)
    held = [0.01, 0.02, 0.9][::order]
    runs = [replace(run, properties={"switch_s": s})
            for run, s in zip(view.record.runs, held, strict=False)]  # fmt: skip
    shown = replace(view.record, runs=tuple(runs))
    (line,) = sentences.switches(type(view)(shown, view.answer, view.texts, view.folder))
    assert line == "A switch held requests for 20\xa0ms (median), at most 900\xa0ms."


@pytest.mark.parametrize("order", ORDERS)
def test_a_task_that_ran_most_on_any_cpu_counts_as_on_one(order):
    def stay(cpu, begin, end):
        of = Scheduling(**dict.fromkeys(Scheduling._fields, 0) | {"cpu": cpu})
        return cpu_validate.Stay(0, begin, end, False, None, of)

    spread = "CPUs 0, 1"
    assert spread not in cpu_validate._reason([stay(0, 0, 1), stay(1, 1, 1000)][::order], {})
    assert spread in cpu_validate._reason([stay(1, 0, 500), stay(0, 500, 1000)][::order], {})


def test_every_time_of_every_file_of_an_image_is_fixed(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    done = []
    monkeypatch.setattr(image.subprocess, "run", lambda *_, **more: done.append(more["input"]))
    image._set_times(tmp_path / "new", tmp_path)
    assert done[0].decode().splitlines() == [
        f'set_inode_field "{name}" {field} @1'
        for name in ("/", "/a", "/a/b") for field in ("ctime", "atime")
    ]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_metrics_that_only_some_runs_have_are_those_of_each_workload(order):
    own = {"v": ("cpu_s", "system_s"), "w": ("user_s",), "x": ()}
    works = [Workload(name, "file-test", "iops", secondary=of) for name, of in own.items()][::order]
    asked = experiment(workloads=tuple(works), target=Target("none"))
    runs = [
        SimpleNamespace(workload=name, metrics={"iops": 1.0} | dict.fromkeys(of[:block], 2.0))
        for name, of in own.items() for block in range(3)
    ]  # fmt: skip
    record = SimpleNamespace(experiment=asked, analysed_runs=runs)
    flags = result._lacking_rows(record, SimpleNamespace(rows=()))
    found = [(flag.workload, flag.values["metric"], flag.values["runs"]) for flag in flags]
    assert sorted(found) == [
        ("v", "cpu_s", 2), ("v", "system_s", 1), ("w", "user_s", 2)
    ]  # fmt: skip


@pytest.mark.parametrize("row", [answers.NEWCOMER, answers.READER, answers.SEQ])
def test_the_pair_of_a_chart_is_that_of_its_own_workload(row):
    view = reports.view_of(answers.TRADE)
    cells = answers.TRADE.cells[row]
    best, worst = (end(cells, key=lambda name: cells[name].loss) for end in (min, max))
    wanted = worst if best == view.baseline else best
    assert moments._pair(view, row) == (view.baseline, wanted)
    assert len({moments._pair(view, each) for each in answers.TRADE.cells}) > 1


def test_every_host_that_a_fleet_leaves_alone_is_named(tmp_path, monkeypatch):
    played = []
    left = {"a": "bfq is worse", "b": "it has no bfq"}
    monkeypatch.setattr("schedlab.app.fleet.fleet.settings", lambda path: ({"c": "bfq"}, left))
    monkeypatch.setattr("schedlab.cli.fleet._play", lambda *words: played.append(words[3]))
    lines = run("fleet", "apply", tmp_path, "-i", "x", "--persist", "--dry-run").stderr
    assert [line for line in lines.splitlines() if "left as" in line] == [
        f"{host}: left as it is: {why}" for host, why in left.items()
    ]
    assert played == [{"schedlab_apply_options": ["--persist", "--dry-run"],
                       "schedlab_settings": {"c": "bfq"}}]  # fmt: skip


def test_a_statement_about_quanta_names_all_of_its_own():
    asked = experiment(
        candidates=tuple(Candidate(f"rr {ms}", {"slice_ms": ms}) for ms in (1, 4, 10)),
        workloads=(Workload("w", "cpu-calculations", "cpu_s"),),
    )
    rows = [{"says": "it", "metric": "cpu_s", "candidates": ["4 ms", "10 ms"], "over": "1 ms"},
            {"says": "no", "metric": "cpu_s", "candidates": ["1 ms", "99 ms"]},
            {"says": "too", "metric": "cpu_s", "candidates": ["10 ms"], "over": "4 ms"},
            ]  # fmt: skip
    found = labs._of_quanta(asked, rows)
    assert [(each.says, each.candidates, each.over) for each in found] == [
        ("it", ("rr 4", "rr 10"), "rr 1"), ("too", ("rr 10",), "rr 4")
    ]  # fmt: skip


def test_both_files_of_each_setting_of_the_machine_are_recorded(monkeypatch):
    """The kernel sets a second file with some: both have to be given back."""
    a, b, c, d = (Path(f"/{name}") for name in "abcd")
    now = dict.fromkeys((a, b, c, d), "old")

    class Known(SimpleNamespace):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    def write(path, text):
        now.update({path: text, {a: b, c: d}[path]: "0"})

    monkeypatch.setattr(machine, "knobs_of", lambda values: {a: "1", c: "2"})
    monkeypatch.setattr(machine.knobs, "companion", {a: b, c: d}.get)
    monkeypatch.setattr(machine.settings, "read", now.get)
    monkeypatch.setattr(machine, "Control", lambda **_: Known(write_knob=write))
    monkeypatch.setattr(machine.applied, "find", lambda device: None)
    monkeypatch.setattr(machine.applied, "stored", lambda records, control: Known())
    monkeypatch.setattr(machine.applied, "record_now", lambda *_, **more: Known(files={}, **more))
    monkeypatch.setattr(machine, "_onto", lambda record, _: record)
    monkeypatch.setattr(machine, "SYSCTL", Path("/"))
    record = machine.apply({}, ("", ""), False, Path("/"), print)
    assert record.originals == dict.fromkeys(("/a", "/b", "/c", "/d"), "old")
    assert record.values == {"/a": "1", "/b": "0", "/c": "2", "/d": "0"}


def test_a_recording_names_all_that_it_lacks(tmp_path):
    lacks = {"lost": 1, "missed": 2, "unfinished": 3, "untraced": 0}
    account = {"gap_sectors": 0, "device_sectors": (0, 0)}
    line = block_io.recorded_line({"records": 9, **lacks, "accounting": account}, tmp_path)
    assert line == (
        f"{tmp_path}: 9 requests; 1 lost, 2 begun before it, 3 not completed at its end"
    )


def test_a_terminal_keeps_the_line_of_each_host(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with host_lines() as show:
        for host, text in (("b", "measures"), ("c", "waits"), ("a", "is ready")):
            show(host, text)
    last = terminal.getvalue()[terminal.getvalue().rindex("a  is ready") :]
    assert "b  measures" in last and "c  waits" in last


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("program", "cannot execute ./x as eve: "), ("directory", "/d cannot be entered as eve: "),
        ("input", "cannot read /in: "), ("user", "cannot become eve: "),
        ("confinement", "cannot confine ./x: "), ("cgroup", "cannot join the cgroup: "),
        ("policy", "the kernel refuses the policy {'name': 'fifo'}: "),
        ("affinity", "no such CPU: [7, 8]: "), ("?", "cannot start ./x as eve: "),
    ],
)  # fmt: skip
def test_each_step_at_which_a_start_is_refused_names_what_it_is_about(step, words):
    typed = Launch(["./x"], Path("/d"), {}, "eve", "/in", scheduling={"name": "fifo"}, cpus=[7, 8])
    error = launch._refused(OSError(13, "Denied", step), typed)
    assert (str(error), bool(error.hint)) == (f"{words}Denied", True)


def test_the_settings_of_every_directory_count_and_the_last_name_wins(tmp_path):
    knob = machine.SYSCTL / "kernel/sched_x"
    places = ("etc", "run", "usr/local/lib", "usr/lib")
    for at, place in enumerate(places):
        file = tmp_path / place / f"sysctl.d/{9 - at}.conf"
        file.parent.mkdir(parents=True)
        file.write_text(f"kernel.sched_x = {at}\n")
    assert [value for _, value in machine.settings_in(tmp_path, knob)] == ["3", "2", "1", "0"]


def test_no_time_of_a_cpu_is_a_wait():
    cpu = ("cpu_s", "user_s", "system_s", "cpu_per_request_ns")
    assert {words.sort(METRICS[name]) for name in cpu} == {"count"}
    assert words.sort(METRICS["elapsed_s"]) == "time"


def test_of_many_machines_the_first_are_named_and_the_rest_counted():
    view, hosts = reports.view_of(answers.BEST), tuple("abcdefgh")
    named = [fleet_table._named(view, hosts[:count]).replace(NO_BREAK, " ") for count in (2, 6, 8)]
    assert named == ["a and b", "a, b, c, d, e and f", "a, b, c, d, e and 3 more machines"]


def test_the_place_of_a_head_is_drawn_upwards():
    log = np.array([(10, 0), (20, 900)], dtype=[("dispatched_ns", "<i8"), ("sector", "<i8")])
    log = rfn.append_fields(log, "process", [0, 1], usemask=False)
    canvas = gantt.Canvas((0, 30), 0.0, 300.0)
    gantt._draw_head(canvas, log, 50)
    dots = re.findall(r'cx="([0-9.]+)" cy="([0-9.]+)"', "".join(canvas.parts))
    assert [(float(x), float(y)) for x, y in dots] == [(100.0, 152.0), (200.0, 58.0)]


def test_a_pick_far_behind_takes_the_last_line_of_those_that_are_shown():
    waiting = tuple(play.Queued(f"r{at}", (str(at),)) for at in range(20))
    picks = (play.Pick(5, waiting, 15),)
    shown = play.block(play.Play("p", "rule", ("request", "place"), picks), 0)
    assert [line.split() for line in shown[12:14]] == [["r10", "10"], [">", "r15", "15"]]


def test_a_command_that_fails_is_told_with_its_last_lines():
    lines = "\n".join(f"line {at}" for at in range(9)).encode()
    ended = launch.Ended(1.0, 3, None, False, False, b"", lines)
    assert live_own_figure._failure(ended).endswith(": line 5 / line 6 / line 7 / line 8")


def test_a_value_below_its_step_may_be_anything_up_to_it():
    of, view = replace(answers.BEST.rows[0], step=100.0), reports.view_of(answers.BEST)
    cells = (replace(answers.behind(value, 1, 1, None), open=True) for value in (50.0, 51.0, 0.0))
    shown = [screen.value(view, of, cell).replace(NO_BREAK, " ") for cell in cells]
    assert shown == ["at most 100 s", "51 s", "0 µs"]


def test_the_scenes_of_a_timeline_are_the_parts_that_most_recordings_tell_apart(monkeypatch):
    view = reports.view_of(answers.TRADE)
    recording = SimpleNamespace(path=Path("x"), tasks={}, zero_ns=0)
    view.record = replace(view.record, recordings=dict.fromkeys(
        (("w0", name) for name in view.names), recording))  # fmt: skip
    parts = iter([("device",), *[("tag", "device")] * (len(view.names) - 1)])
    monkeypatch.setattr(moments, "read_requests", lambda *_: None)
    monkeypatch.setattr(moments, "request_bars", lambda name, *_: (next(parts), name))
    monkeypatch.setattr(moments, "since", lambda bars, zero_ns: bars)
    monkeypatch.setattr(moments, "_pair", lambda *_: None)
    (scene,) = moments.timeline_of(view).scenes
    assert (scene.parts, scene.runs) == (("tag", "device"), tuple(view.names[1:]))
