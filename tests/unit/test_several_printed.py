"""Commands print a line for each of several hosts, files, kernels, devices, plays or facts."""

import dataclasses
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from calls import call, document, run

from schedlab.app import first
from schedlab.app.apply import undo
from schedlab.app.fleet.fleet import HostState, Measured
from schedlab.cli import show
from schedlab.cli.cpu import sweep
from schedlab.cli.sections import OneRule, heeded, section, together
from schedlab.host.doctor import Fact
from schedlab.host.emulated.keeper import Kept
from schedlab_sim.cli import play
from schedlab_sim.cli.options import warn

ORDERS = [1, -1]


@pytest.mark.parametrize("order", ORDERS)
def test_each_host_has_all_its_lines_and_one_that_failed_is_enough(order, monkeypatch):
    hosts = [("a", HostState(output="1\n2")), ("b", HostState("lost", failed=True))][::order]
    monkeypatch.setattr("schedlab.app.fleet.fleet.play", lambda *_: dict(hosts))
    assert run("fleet", "status", "-i", "x", code=1).stdout.splitlines() == [
        "a: 1", "a: 2", "b: lost"
    ]  # fmt: skip
    assert list(document("fleet", "status", "-i", "x", code=1)["hosts"]) == [n for n, _ in hosts]


def test_every_missing_host_is_named_and_the_rest_is_measured_with_all_that_was_typed(
    tmp_path, monkeypatch
):
    asked = []

    def measure(file, machines, out, tell):
        asked.append(machines.variables)
        return tmp_path, Measured((tmp_path / "c",), {"a": "it is off", "b": "it has no bfq"})

    monkeypatch.setattr("schedlab.app.fleet.fleet.measure", measure)
    words = ["fleet", "run", "e.toml", "-i", "x", "--limit", "y", "--wheel", "w.whl", "--trust"]
    lines = call(*words)[1].splitlines()
    assert lines[:2] == ["missing: a: it is off", "missing: b: it has no bfq"]
    assert "1 of 3 machines" in lines[-2]
    again = shlex.join(["schedlab", *words, "--out", str(tmp_path)])
    assert lines[-1].endswith(f"when they are well again: {again}")
    assert asked == [{"schedlab_options": ["--trust"],
                      "schedlab_wheel": str(Path("w.whl").resolve())}]  # fmt: skip


def test_every_file_of_a_report_is_written_and_named(tmp_path, monkeypatch):
    made = []
    result = SimpleNamespace(
        record=None, answer=None,
        write_html=lambda path, lang: made.append(path),
        write_xlsx=lambda path, lang: made.append(path) or f"{path}.t",
    )  # fmt: skip
    monkeypatch.setattr("schedlab.result.Result.load", lambda *_: result)
    done = run("report", tmp_path, "--html", "a", "--xlsx", "b")
    assert done.stderr.splitlines() == ["timeline: b.t", "html: a", "xlsx: b"]
    assert made == [Path("a"), Path("b")]


@pytest.mark.parametrize("order", ORDERS)
def test_no_run_of_any_candidate_is_a_failure(order):
    unfit = [SimpleNamespace(runs=3), SimpleNamespace(runs=0)][::order]
    result = SimpleNamespace(answer=SimpleNamespace(unfit=unfit))
    context = click.Context(click.Command("x"))
    with context, pytest.raises(click.exceptions.Exit):
        show._finish(result, {"as_json": False}, lambda *_: None)
    unfit[:] = [one for one in unfit if one.runs] * 2
    with context:
        show._finish(result, {"as_json": False}, lambda *_: None)


def test_a_machine_has_its_abilities_its_next_command_and_each_fact(monkeypatch):
    facts = [Fact("kernel", "6.1", "all works", "x"), Fact("swap", "on", "it swaps", "")]
    asked = []
    monkeypatch.setattr("schedlab.host.doctor.summary", lambda _: ("reads", "writes", "go"))
    monkeypatch.setattr(
        "schedlab.host.doctor.examine", lambda _, wanted: asked.append(wanted) or facts
    )
    heads = ["Can measure     reads", "Cannot measure  writes", "Next            go"]
    assert run("doctor").stdout.splitlines() == heads
    assert run("doctor", "--quanta", "1,5").stdout.splitlines() == [
        *heads, "kernel: 6.1; all works  [x]", "swap: on; it swaps"
    ]  # fmt: skip
    assert asked[1] == [1, 5]
    assert document("doctor")["facts"] == [dataclasses.asdict(fact) for fact in facts]
    below = SimpleNamespace(queues=("sda", "sdb"), lines=lambda: ["md0", "  sda", "  sdb"])
    monkeypatch.setattr("schedlab.host.queues.queues_below", lambda path: below)
    assert run("doctor", "--path", "/").stdout.splitlines() == below.lines()
    assert document("doctor", "--path", "/") == {"queues": ["sda", "sdb"], "tree": below.lines()}


def test_all_questions_and_disks_are_offered_and_all_that_lacks_is_told(monkeypatch):
    monkeypatch.setattr("schedlab.host.devices.with_queues", lambda: ["loop0", "sda", "sdb"])
    monkeypatch.setattr(first, "command_of", lambda *_, **__: ["do it", "no root", "no disk"])
    told, asked = {False: [], True: []}, []
    monkeypatch.setattr(click, "echo", lambda text, err=False: told[err].append(text))
    answers = iter([1, "sdb", "2m"])
    monkeypatch.setattr(click, "prompt", lambda text, **_: asked.append(text) or next(answers))
    from schedlab.cli.first import ask

    ask()
    assert told[False][1:-2] == [f"  {n}  {q.text}" for n, q in enumerate(first.QUESTIONS, 1)]
    assert asked[1].endswith("(sda, sdb)")
    assert told[True] == ["no root", "no disk"]


@pytest.mark.parametrize("order", ORDERS)
def test_every_pick_of_every_play_is_asked_and_counted(order, monkeypatch):
    """Of two queues, one with a choice more than the other."""

    def queue(name, *picks):
        choices = [SimpleNamespace(picked=SimpleNamespace(name=pick)) for pick in picks]
        return SimpleNamespace(policy=name, choices=lambda: choices)

    plays = [queue("fcfs", "A", "B", "C"), queue("sptf", "B", "A")][::order]
    printed, told, asked = [], [], []
    monkeypatch.setattr(play, "_print", lambda of, number, hidden=False: printed.append(number))
    monkeypatch.setattr(click, "echo", told.append)

    def answer(text, **_):
        asked.append(text.partition(" ")[0])
        return {"fcfs": "B", "sptf": "A"}[asked[-1]]

    monkeypatch.setattr(click, "prompt", answer)
    play._ask(plays)
    both = ["fcfs", "sptf"][::order]
    assert (asked, printed) == ([*both, *both, "fcfs"], [0, 0, 1, 1, 2, 2])
    assert told == [
        f"{right} of {of} predictions right\n" for right, of in ((0, 2), (2, 4), (2, 5))
    ]
    printed.clear()
    play.show_plays(plays, play.TERMINAL)
    assert printed == [0, 1, 2]


def test_every_device_that_is_up_is_listed_and_all_are_taken_down(monkeypatch):
    facts = {"model": "disk7200", "size_bytes": 1 << 30, "queue_depth": 1, "dilation": 1.0}
    kept = [Kept(name, f"/dev/{name}", facts, 0.0, 1) for name in ("loop7", "loop8")]
    monkeypatch.setattr("schedlab.host.emulated.keeper.kept", lambda: kept)
    monkeypatch.setattr(Kept, "line", lambda each: each.path)
    assert [of["name"] for of in document("device", "list")["devices"]] == ["loop7", "loop8"]
    assert run("device", "list").stdout.count("/dev/loop") == 2
    monkeypatch.setattr(
        "schedlab.host.emulated.keeper.down_all",
        lambda names, _, tell: [tell(each) for each in names],
    )
    assert run("device", "down", "--all").stdout.split("\n")[:2] == [
        "loop7 is down", "loop8 is down"
    ]  # fmt: skip


def test_a_fitted_device_has_all_lines_of_its_model_and_of_what_is_next(monkeypatch):
    @dataclasses.dataclass
    class Fitted:
        name: str = "x"

    monkeypatch.setattr("schedlab_sim.fit.fitted.lines", lambda of: ["a", "b"])
    monkeypatch.setattr("schedlab_sim.predict.fit.closing", lambda of: ["c", "d"])
    monkeypatch.setattr("schedlab_sim.predict.fit.fit_datasheet",
                        lambda *_: SimpleNamespace(fitted=Fitted()))  # fmt: skip
    done = run("device", "fit", "--datasheet", "x")
    assert done.stdout.splitlines() == ["a", "b", "", "c", "d"]


def test_every_kernel_that_is_here_has_its_line(monkeypatch):
    found = [SimpleNamespace(release=name, offers=["bfq", "kyber"], options={"a": "y"},
                             lacks=lacks, as_json=lambda name=name: name)
             for name, lacks in (("6.1", ()), ("6.12", ("EXT4", "VIRTIO")))]  # fmt: skip
    monkeypatch.setattr("schedlab.app.measure.kernels.known", lambda: found)
    assert [line.split(None, 1) for line in run("kernel", "list").stdout.splitlines()] == [
        ["6.1", "bfq, kyber"], ["6.12", "bfq, kyber; cannot be booted: it lacks EXT4, VIRTIO"]
    ]  # fmt: skip
    assert document("kernel", "list")["kernels"] == ["6.1", "6.12"]


def test_all_that_a_live_comparison_does_is_told_before_it_begins(monkeypatch):
    monkeypatch.setattr("schedlab.app.live.live.question", lambda *_: None)
    monkeypatch.setattr("schedlab.app.live.live.what_it_does", lambda _: ["sda: 5", "sdb: 6"])
    words = ("live", "/x", "--schedulers", "none,bfq", "--dry-run")
    assert run(*words).stderr.splitlines() == ["sda: 5", "sdb: 6"]


def test_every_chart_of_a_sweep_is_named(monkeypatch):
    result = SimpleNamespace(record=None, answer=None)
    monkeypatch.setattr("schedlab.app.compare.quanta.with_charts", lambda _: (result, ["a", "b"]))
    monkeypatch.setattr("schedlab.cli.show.present", lambda *_: None)
    monkeypatch.setattr("schedlab.report.tables_text", lambda *_: "table")
    told = []
    monkeypatch.setattr(click, "echo", told.append)
    sweep.present_quanta(result, False)
    assert told == ["\ntable", "chart:    a", "chart:    b"]


def test_each_device_that_was_undone_is_told(monkeypatch):
    monkeypatch.setattr(undo, "undo", lambda *_: ["sda", "sdb"])
    assert run("undo", "--all").stdout == "undone: sda\nundone: sdb\n"


def test_every_warning_is_told(capsys):
    warn(["a", "b", "c"])
    assert capsys.readouterr().err == "warning: a\nwarning: b\nwarning: c\n"


def test_every_option_of_several_sections_keeps_its_place_and_its_rule():
    @click.command(cls=OneRule)
    @section("One", click.option("--a", "-x"), click.option("--b", "-y"), usual="--b --d")
    @section("Two", together(click.option("--c"), click.option("--d")), usual="--b --d")
    @heeded("--a, --b", "--e", "-z")
    def command(**typed):
        click.echo(json.dumps(typed))

    assert [(one.name, one.section, one.is_usual) for one in command.params[:4]] == [
        ("a", "One", False), ("b", "One", True), ("c", "Two", False), ("d", "Two", True)
    ]  # fmt: skip
    last = command.params[4]
    assert (last.works_with, last.opts) == (("--a", "--b"), ["--e", "-z"])
    params = command.get_params(click.Context(command))
    assert "--help-all" in {word for one in params for word in one.opts}


def test_each_device_that_is_set_has_its_own_undo(monkeypatch):
    records = [SimpleNamespace(device="sdb", setting="bfq", files={}),
               SimpleNamespace(device="sda", setting="none", files={"f": None})]  # fmt: skip
    monkeypatch.setattr("schedlab.app.apply.apply.choice_of", lambda *_: None)
    monkeypatch.setattr("schedlab.app.apply.apply.apply", lambda *_: records)
    assert run("apply", "bfq", "sdb", "sda").stdout.splitlines() == [
        "sdb: bfq, until the next reboot", "undo: schedlab undo sdb",
        "sda: none, also after a reboot", "undo: schedlab undo sda",
    ]  # fmt: skip
