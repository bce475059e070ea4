"""A queue that is played: every pick is the simulator's, for the reason that is printed."""

import base64
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import zlib

import pytest
from click.testing import CliRunner

from schedlab.errors import SpecError
from schedlab.report.play import beside, block, page
from schedlab.report.texts import LANGUAGES, Texts
from schedlab_sim import cpu_schedule
from schedlab_sim._simulators import sim_names
from schedlab_sim.cli.sim import sim
from schedlab_sim.play import _Follower, play_of
from schedlab_sim.simulation import Simulation

STEPS = 2000
SCORED = ("s", "sb", "ts", "tsb")
AGING = {"alpha": 0.9, "aging": "dispatch-overtake"}


def ssd(policy, requests=STEPS, **more):
    return Simulation(
        policy=policy, workload="A", requests=requests, log=True, policy_set=AGING,
        device_set={"buffer.size": "64MiB"}, **more,
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["fcfs", "s", "tsb", "stb"])
def test_every_pick_of_an_ssd_is_that_of_the_log(policy):
    one = ssd(policy)
    play = play_of(one, policy)
    log = one.run().log
    order = sorted(zip(log["dispatched_ns"], range(len(log)), log["index"], strict=True))
    assert [int(pick.picked.name) for pick in play.picks] == [int(each[2]) for each in order]
    assert [pick.at_ns for pick in play.picks] == [int(each[0]) for each in order]
    rows = {int(row["index"]): row for row in log}
    for pick in play.picks[:: STEPS // 100]:
        waiting = {int(one.name) for one in pick.waiting}
        assert all(rows[index]["admitted_ns"] <= pick.at_ns for index in waiting)
        assert all(rows[index]["dispatched_ns"] >= pick.at_ns for index in waiting)


def test_a_run_that_is_not_that_of_the_log_is_refused(monkeypatch):
    monkeypatch.setattr(_Follower, "select", lambda self, queue, now_ns, device: 0)
    with pytest.raises(SpecError, match="hide its order") as caught:
        play_of(ssd("tsb", 300), "tsb")
    assert "--service serial" in caught.value.hint


def score(waiting):
    """The number that a reason works out: `3 missing x 0.02 ms x 0.9^2`."""
    found = re.fullmatch(r"(\d+) \w+(?: x ([\d.]+) ms)? x ([\d.]+)\^(\d+)", waiting.why)
    count, time, alpha, age = found.groups()
    return int(count) * float(time or 1) * float(alpha) ** int(age)


@pytest.mark.parametrize("policy", SCORED)
def test_the_reason_of_a_pick_is_the_least_score(policy):
    play = play_of(ssd(policy), policy)
    assert len(play.picks) == STEPS and len(play.choices()) > STEPS / 2
    for pick in play.picks:
        least = min(map(score, pick.waiting))
        assert score(pick.picked) == pytest.approx(least, rel=1e-9), pick


def test_planes_are_those_of_the_pages():
    (pick, *_) = [
        one for one in play_of(ssd("fcfs", 50), "fcfs").picks if one.picked.cells[1] == "4"
    ]
    log = ssd("fcfs", 50).run().log
    (row,) = log[log["index"] == int(pick.picked.name)]
    first = int(row["first_page"]) % 128 / 128
    assert pick.picked.places[0][0] == first
    assert sum(end - start for start, end in pick.picked.places) == pytest.approx(4 / 128)


@pytest.mark.parametrize("policy", ["fcfs", "sstf", "clook", "sptf"])
def test_every_pick_of_a_disk_is_that_of_the_log(policy):
    one = Simulation(device="disk7200", policy=policy, requests=STEPS, depth=8, log=True)
    play = play_of(one, policy)
    log = one.run().log
    order = sorted(zip(log["dispatched_ns"], log["index"], strict=True))
    assert [int(pick.picked.name) for pick in play.picks] == [int(index) for _, index in order]
    assert {len(pick.waiting) for pick in play.picks[:-8]} == {8}
    if policy == "fcfs":
        assert {pick.chosen for pick in play.picks} == {0}
    if policy == "clook":  # upwards, else back to the lowest
        for pick in play.choices():
            above = [w for w in pick.waiting if w.places[0][0] >= pick.head] or pick.waiting
            assert pick.picked.places[0][0] - min(w.places[0][0] for w in above) < 1e-4


def test_a_disk_chooses_among_as_many_as_its_queue_holds():
    one = Simulation(device="disk7200", policy="sptf", requests=200, depth=50)
    waiting = [len(pick.waiting) for pick in play_of(one, "sptf").picks]
    assert max(waiting) == waiting[0] == 32


def test_what_is_left_is_that_of_the_burst_and_not_the_io():
    (play,) = cpu_schedule.plays_of(options("--tasks", "A:0:3/50/5,B:0:60", "--quantum", "2ms"))
    assert play.picture == "queue" and play.quantum == pytest.approx(2 / 60)
    assert [one.places for one in play.picks[0].waiting] == [((0, 3 / 60),), ((0, 1),)]
    rows = [one.cells for pick in play.picks for one in pick.waiting if one.name == "A"]
    assert rows[0] == ("0 ms", "0 ms", "3 ms", "0")
    assert {row[1:3] for row in rows} >= {("2 ms", "1 ms"), ("3 ms", "5 ms"), ("5 ms", "3 ms")}


def options(*words):
    """The options of `sim cpu` as they are parsed."""
    context = sim.get_command(None, "cpu").make_context("cpu", [*words])
    return {name: value for name, value in context.params.items() if name not in ("play", "lang")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policy", ["fcfs", "sjf", "srtf", "rr", "priority", "eevdf"])
def test_every_pick_of_a_cpu_is_that_of_the_schedule(policy):
    tasks = ",".join(f"T{i}:{3 * i}:{400 + 7 * i}:prio={i % 4}" for i in range(9))
    chosen = options("--policy", policy, "--tasks", tasks, "--quantum", "1ms")
    (play,) = cpu_schedule.plays_of(chosen)
    (result,) = cpu_schedule.document(chosen)["results"]
    names = [task["name"] for task in result["tasks"]]
    segments = [(s["start_ns"], names[s["task"]]) for s in result["segments"] if "task" in s]
    assert [(p.at_ns, p.picked.name) for p in play.picks] == segments[:STEPS]
    if policy == "rr":
        assert len(play.picks) == STEPS
    key = {"sjf": 2, "srtf": 2, "priority": 3}.get(policy)
    for pick in play.choices():
        if key is not None:  # milliseconds left, or the priority
            keys = [float(each.cells[key].split()[0]) for each in pick.waiting]
            assert keys[pick.chosen] == min(keys), pick


@pytest.mark.parametrize("cpus", ["1", "2"])
def test_a_switch_begins_with_the_pick_of_its_task(cpus):
    chosen = options("--tasks", "A:0:9,B:0:9,C:0:9,D:0:9", "--switch-cost", "100us",
                     "--cpus", cpus)  # fmt: skip
    (play,) = cpu_schedule.plays_of(chosen)
    segments = cpu_schedule.document(chosen)["results"][0]["segments"]
    ran = ["ABCD"[s["task"]] for s in segments if "task" in s]
    assert [pick.picked.name for pick in play.picks] == ran
    switched = {s["start_ns"] for s in segments if "switch" in s}
    assert switched <= {pick.at_ns for pick in play.picks}


def test_what_cannot_be_played_is_refused():
    for words, said in (
        ("--scheduler none", "queue of the device"), ("--out r", "--out would change nothing"),
        ("--json", "--json would change nothing"), ("--seeds 2", "--seeds would change nothing"),
        ("--device disk7200", "never more than one"),
    ):  # fmt: skip
        asked = ["run", "--play", *words.split()]
        with pytest.raises(SpecError, match=said) as caught:
            CliRunner().invoke(sim, asked, catch_exceptions=False)
        assert caught.value.hint
    asked = ["cpu", "--play", "--quiz", "--count", "3", "--out", "x.html"]
    with pytest.raises(SpecError, match="--count would change nothing"):
        CliRunner().invoke(sim, asked, catch_exceptions=False)


def test_a_quiz_is_played_with_the_tasks_of_its_seed(tmp_path):
    """The second of two policies, too; each pick is that of the schedule which the quiz reveals."""
    words = ["cpu", "--policy", "fcfs,rr", "--quiz", "--seed", "3"]
    quiz = json.loads(CliRunner().invoke(sim, [*words, "--json"]).output)
    file = tmp_path / "exercise.html"
    done = CliRunner().invoke(sim, [*words, "--play", str(file), "--lang", "ru"])
    assert done.exit_code == 0, done.output
    shown = plays_of(file.read_text())
    plays = cpu_schedule.plays_of(options(*words[1:]))
    for number, (policy, command) in enumerate(quiz["reveal"].items()):
        again = shlex.split(command)[3:]
        (revealed,) = cpu_schedule.plays_of(options(*again))
        assert revealed == plays[number] and revealed.policy == policy
        assert [each[1][each[3]][0] for each in shown[number]["picks"]] == [
            pick.picked.name for pick in revealed.choices()
        ]


def plays_of(text):
    """The plays that are packed in a page."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    return json.loads(zlib.decompress(base64.b64decode(data["plays"])))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_rule_and_reason_is_in_the_language_of_the_page(language):
    texts = Texts(language)
    rules = {rule for kind in ("policy", "disk policy", "cpu policy")
             for rule in dict(sim_names(kind)).values()}  # fmt: skip
    known = {
        key.removeprefix("play.rule.") for key in texts.entries if key.startswith("play.rule.")
    }
    assert known == rules
    (rr,) = cpu_schedule.plays_of(options("--tasks", "A:0:9,B:0:9", "--policy", "rr"))
    shown = page([play_of(ssd("s", 60), "s"), play_of(ssd("fcfs", 60), "fcfs"), rr], texts)
    pages = texts("play.column.pages")
    s, fcfs, cpu = (play["picks"] for play in plays_of(shown))
    assert all(re.fullmatch(rf"\d+ {re.escape(pages)} x 0.9\^\d+", each[4]) for each in s)
    assert {each[4] for each in fcfs} == {texts("play.rule.arrival order")}
    assert {each[4] for each in cpu} == {
        f"{texts('play.rule.round robin')}, {texts('quiz.quantum', ms='4')}"
    }
    kinds = {texts("timeline.kind_read"), texts("timeline.kind_write")}
    assert {row[1] for each in fcfs for row in each[1]} == kinds


@pytest.mark.sampled(2)
def test_a_page_has_all_of_2000_choices_or_says_how_many(monkeypatch):
    disk = Simulation(device="disk7200", policy="sptf", requests=STEPS + 40, depth=16)
    play = play_of(disk, "sptf")
    text = page([play, play], Texts("en"))
    assert [len(one["picks"]) for one in plays_of(text)] == [STEPS] * 2
    assert len(text) < 3_000_000 and "are in this page" not in text
    monkeypatch.setattr("schedlab.report.play.ROWS_MAX", 16 * 70 + 1)
    text = page([play], Texts("en"))
    assert "sptf: the first 70 of 2000 choices are in this page." in text
    assert len(plays_of(text)[0]["picks"]) == 70


def test_lines_and_pages_show_the_pick_and_hide_it(tmp_path, golden):
    (play,) = cpu_schedule.plays_of(options("--policy", "srtf", "--tasks", "A:0:8,B:1:4,C:2:9"))
    fcfs = play_of(ssd("fcfs", 60), "fcfs")
    tsb = play_of(ssd("tsb", 60), "tsb")
    two = beside([block(one, 9) for one in (fcfs, tsb)], 160)
    hidden = block(tsb, 9, hidden=True)
    assert not any("picked" in line or line.startswith(">") for line in hidden)
    golden("play.txt", "\n".join([*block(play, 0), "", *two, *hidden, *block(play, 99)]))
    (data,) = plays_of(page([play], Texts("en")))
    assert (data["picture"], data["quantum"]) == ("queue", 0)
    for language in LANGUAGES:
        text = page([fcfs, tsb], Texts(language))
        assert {one["picture"] for one in plays_of(text)} == {"planes"}
        assert "://" not in text.replace("http://www.w3.org", "") and len(text) < 3_000_000
        picks = plays_of(text)[1]["picks"]
        assert [one[1][one[3]][0] for one in picks] == [p.picked.name for p in tsb.choices()]


def test_a_prediction_is_checked_in_a_terminal(tmp_path):
    words = ["sim", "cpu", "--policy", "srtf", "--tasks", "A:0:8,B:1:4,C:2:9", "--play"]
    command = [sys.executable, "-m", "schedlab", *words]
    master, slave = pty.openpty()
    with os.fdopen(master, "r+b", buffering=0) as terminal:
        done = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        terminal.write(b"B\nB\nq\n")
        shown = b""
        while True:
            try:
                shown += (part := terminal.read(4096))
            except OSError:
                break
            if not part:
                break
    assert done.wait() == 0
    text = shown.decode()
    assert "1 of 1 predictions right" in text and "1 of 2 predictions right" in text


@pytest.mark.parametrize("words", [
    ["cpu", "--policy", "rr", "--tasks", "A:0:8,B:1:4"],
    ["run", "--device", "disk7200", "--scheduler", "none", "--processes", "copy-direct",
     "--seconds", "0.1", "--seeds", "1"],
])  # fmt: skip
def test_the_page_of_a_gantt_chart_is_in_the_language_that_is_named(words, tmp_path):
    file = tmp_path / "g.html"
    done = CliRunner().invoke(sim, [*words, "--gantt", str(file), "--lang", "ko"])
    assert done.exit_code == 0, done.output
    assert '<html lang="ko">' in file.read_text()
