"""Of several hosts, sessions, boots, kernels or sides of a comparison each counts."""

import json
import math
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import experiment, run_of
from test_boots import NEW, OLD
from test_diff import HOST, difference_of
from test_merge import Steady, measured

from schedlab.analyse.answer import answer
from schedlab.app.compare import difference
from schedlab.app.fleet import boots, fleet, merge
from schedlab.design.boots import BootKind, plan_boots
from schedlab.design.plan import make_plan
from schedlab.errors import HostError, SpecError
from schedlab.nouns import (
    AA_SUFFIX,
    METRICS,
    Candidate,
    Record,
    Samples,
    Stopping,
    Target,
    Workload,
)  # fmt: skip
from schedlab.store.folder import Folder

TIME = METRICS["elapsed_s"]


def test_the_mean_of_each_candidate_is_that_of_its_own_units():
    labels = ("a", "b", f"a{AA_SUFFIX}", "b", "a", "b")
    blocks, sessions = (0, 0, 1, 1, 2, 2), ("x", "x", "x", "y", "y", "y")
    values = tuple(math.exp(n) for n in (1, 2, 4, 8, 16, 32))
    bounds = ("", "", "", "", "at-least", "at-most")
    sample = Samples("w", TIME, labels, blocks, values, bounds=bounds, sessions=sessions)
    near = pytest.approx
    arms = {f"a{AA_SUFFIX}": {"1": (near(4), "")}}
    assert difference._means(sample, by_block=True) == arms | {
        "a": {"0": (near(1), ""), "1": (near(4), ""), "2": (near(16), "at-least")},
        "b": {"0": (near(2), ""), "1": (near(8), ""), "2": (near(32), "at-most")},
    }
    assert difference._means(sample, by_block=False) == {f"a{AA_SUFFIX}": {"x": (near(4), "")}} | {
        "a": {"x": (near(2.5), ""), "y": (near(16), "at-least")},
        "b": {"x": (near(2), ""), "y": (near(20), "at-most")},
    }


def test_a_change_is_the_ratio_to_the_baseline_of_the_same_unit():
    sides = [{"a": {"0": (2.0, ""), "1": (3.0, ""), "2": (9.0, "")},
              "base": {"1": (2.5, ""), "0": (1.0, "at-least")}},
             {"a": {"5": (4.0, ""), "6": (1.0, "at-most")},
              "base": {"5": (4.0, ""), "6": (0.25, "")}}]  # fmt: skip
    plain = difference._samples(("o", "n"), "w", TIME, "a", "", sides)
    assert plain.candidates == ("o", "o", "o", "n", "n") and plain.blocks == (0, 1, 2, 0, 1)
    assert [math.log(v) for v in plain.values] == pytest.approx([2, 3, 9, 4, 1])
    assert plain.bounds == ("", "", "", "", "at-most")
    beside = difference._samples(("o", "n"), "w", TIME, "a", "base", sides)
    assert [math.log(v) for v in beside.values] == pytest.approx([1, 0.5, 0, 0.75])
    assert beside.bounds == ("at-least", "", "", "at-most")
    assert difference._samples(("o", "n"), "w", TIME, "base", "", [sides[0], {}]) is None


def several(path, factors, sessions=2):
    """A folder with two workloads, in whose second block all takes e times as long."""
    works = tuple(Workload(label, "command", "elapsed_s", {"argv": ["x"]}) for label in "vw")
    asked = experiment(workloads=works, stopping=Stopping(blocks=2, sessions=sessions))
    folder = Folder.create(path, asked, make_plan(asked), HOST)
    for cell in folder.plan.cells:
        name = cell.candidate.removesuffix(AA_SUFFIX)
        value = math.exp(factors.get((name, cell.workload), 0.0) + cell.block)
        folder.append(run_of(cell, {"elapsed_s": value}, session=f"{path.name}{cell.block}-0"))
    return folder.record()


def test_the_largest_change_of_any_candidate_on_any_row_needs_the_fewest_boots():
    def of(*logs):
        rows = [replace(difference_of(log), workload=f"w{at}") for at, log in enumerate(logs)]
        return answer(rows, baseline="x", blocked=False, among=2)

    few, many = (difference.boots_needed(dict.fromkeys("ab", of(log, log))) for log in (0.4, 0.1))
    assert few < many
    for logs in ((0.4, 0.1), (0.1, 0.4)):
        for both in ((logs, (0.1, 0.1)), ((0.1, 0.1), logs)):
            found = {label: of(*each) for label, each in zip("ab", both, strict=True)}
            assert difference.boots_needed(found) == few
    both = {"a": of(0.2), "b": of(*[0.05] * 40)}  # the level is that of the one with most rows
    assert [difference.boots_needed(dict(each)) for each in (both, reversed(both.items()))] == [
        5,
        5,
    ]


def test_every_place_where_two_experiments_differ_is_found():
    one = {"a": [1, {"b": 2, "c": 3}, 4], "d": 5, "e": [1]}
    other = {"a": [0, {"b": 2, "c": 0}, 0], "d": 6, "e": [1, 2], "f": 7}
    assert merge._differences(one, other) == {
        "a[0]": (1, 0), "a[1].c": (3, 0), "a[2]": (4, 0), "d": (5, 6), "e": ([1], [1, 2]),
        "f": (None, 7),
    }  # fmt: skip


def test_the_facts_of_hosts_are_common_where_all_share_them():
    def record(target, devices, **more):
        asked = SimpleNamespace(target=target)
        return SimpleNamespace(experiment=asked, host={"devices": devices, "x": 1, **more})

    disk = {"model": "M", "firmware": "F", "size": 1}
    switched = Target("directory", "/srv", switch=("sda", "sdb"))
    records = [record(switched, {"sdb": disk}, y=2, z=3), record(switched, {"sda": disk}, y=2, z=4),
               record(switched, {}, y=5, z=3)]  # fmt: skip
    facts = merge._facts(["one", "two", "three"], records)
    assert {k: v for k, v in facts.items() if k != "hosts"} == {"x": 1}
    own = {"model": "M", "firmware": "F"}
    assert {name: of["measured_device"] for name, of in facts["hosts"].items()} == {
        "one": {"name": "sdb", **own}, "two": {"name": "sda", **own}, "three": {}
    }  # fmt: skip
    assert [facts["hosts"][name]["z"] for name in ("one", "two", "three")] == [3, 4, 3]
    both = record(switched, {"sda": {}, "sdb": disk})
    assert merge._measured_device(both)["name"] == "sda"


def test_a_session_or_a_folder_is_known_whichever_it_is():
    def record(*sessions):
        return SimpleNamespace(runs=[SimpleNamespace(session=each) for each in sessions])

    paths = [Path("a"), Path("b"), Path("c")]
    for again in ("p", "q", "r"):
        with pytest.raises(SpecError, match="have the same session"):
            merge._require_own_sessions(paths, [record("p", "q"), record("r"), record("s", again)])
    merge._require_own_sessions(paths, [record("p", "q"), record("r", "r"), record("s", "")])
    for names in (["h/x", "h/y", "g/x"], ["h/y", "h/x", "g/x"]):
        with pytest.raises(SpecError, match="two folders are called x"):
            merge._host_names([*map(Path, names)])
    two = Candidate("c", {"scheduler": "bfq", "wbt_lat_usec": 0})
    assert merge._settings(two) == "scheduler=bfq,wbt_lat_usec=0"


def test_what_all_folders_measured_is_joined_with_every_block_and_session(tmp_path):
    works = tuple(Workload(label, "file-test", "iops") for label in "uvw")
    records = []
    for number, omitted in enumerate(("uv", "vw")):
        path = measured(tmp_path / f"h{number}", f"s{number}", workloads=works[:1], seed=number)
        one = Folder.open(path).record()
        cells = tuple(replace(c, workload=label) for c in one.plan.cells for label in "uvw")
        runs = tuple(replace(run, session=f"s{run.block}") for run in one.runs)
        asked = replace(one.experiment, workloads=works, omitted=tuple(omitted))
        records.append(
            replace(one, experiment=asked, plan=replace(one.plan, cells=cells), runs=runs)
        )
    asked, joined, moved = merge._joined(records)
    assert [work.label for work in asked.workloads] == ["u", "w"] and moved == [0, 3]
    assert {cell.workload for cell in joined} == {"u", "w"}
    assert {cell.block for cell in joined} == set(range(6))
    assert asked.stopping.sessions == asked.stopping.blocks == 6
    kept = [("u", 0), ("w", 0)]
    assert [(c.workload, c.block) for c in joined[:2]] == kept
    fewer = [replace(one, runs=tuple(replace(r, session="s") for r in one.runs)) for one in records]
    assert merge._joined(fewer)[0].stopping.sessions == 2


def test_a_fleet_tells_all_that_went_wrong_and_what_was_printed_last():
    output = "error: first\nmore\nerror: second\nhint: no"
    assert fleet.reason("task", {"stdout": output}) == "second"
    assert fleet.reason("task", {"stdout": "a\nb", "stderr": "x\nerror: third\ny"}) == "third"
    assert fleet.reason("task", {"stdout": "error: one", "stderr": "error: two"}) == "two"


def test_no_number_of_files_or_bytes_is_counted_anew(tmp_path, monkeypatch):
    archive = tmp_path / "a.tar.gz"
    for name in ("one", "two", "three"):
        (tmp_path / name).write_bytes(bytes(3000))
    with tarfile.open(archive, "w:gz") as packed:
        for name in ("one", "two", "three"):
            packed.add(tmp_path / name, name)
    (tmp_path / "out").mkdir()
    fleet._unpack(archive, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one", "three", "two"]
    monkeypatch.setattr(fleet, "MEMBERS_MAX", 2)
    with pytest.raises(SpecError, match="more than 2 files"):
        fleet._unpack(archive, tmp_path / "out")


def test_all_variables_reach_ansible_as_data(tmp_path):
    fleet.write_variables(tmp_path / "env", {"one": "{{ a }}", "two": ["b", 2]})
    assert (tmp_path / "env" / "extravars").read_text() == (
        'one: !unsafe "{{ a }}"\ntwo: !unsafe ["b", 2]\n'
    )


def plan(rounds=2, kinds=None, arms=("x", "y")):
    asked = experiment(
        kind="cpu", target=Target("none"), baseline=arms[0], stopping=Stopping(blocks=2),
        candidates=tuple(Candidate(name, {"policy": "other", "n": at})
                         for at, name in enumerate(arms)),
    )  # fmt: skip
    kinds = kinds or [BootKind("old", OLD), BootKind("new", NEW), BootKind("one", NEW, "maxcpus=1")]
    return plan_boots(asked, kinds, rounds, "")


def test_every_kind_has_every_candidate_and_any_two_labels_differ():
    three = plan()
    assert [(c.label, dict(c.settings)) for c in three.candidates] == [
        (f"{label} × {arm}", {"policy": "other", "n": at, "kernel": kernel, "cmdline": line})
        for label, kernel, line in (("old", OLD, ""), ("new", NEW, ""), ("one", NEW, "maxcpus=1"))
        for at, arm in enumerate("xy")
    ]  # fmt: skip
    for labels in ("aab", "abb", "aba"):
        with pytest.raises(SpecError, match="two boots are labelled"):
            plan(kinds=[BootKind(label, OLD) for label in labels])
    with pytest.raises(SpecError, match="boot"):
        plan(kinds=[BootKind("a", OLD), BootKind("b × c\n", NEW)])


def boot_record(number, of):
    asked = of.experiment_of(number)
    cells = make_plan(asked)
    runs = tuple(run_of(cell, {"calculations": number + cell.block / 10}, session=f"boot{number}-f")
                 for cell in cells.cells)  # fmt: skip
    own = {"same": 1, "kernel": {"release": of.kind_of(number).kernel, "arch": "x"},
           "number": number}  # fmt: skip
    return Record(asked, cells, runs, host=own)


class Kept:
    """A folder of one boot."""

    def __init__(self, record):
        self.record = lambda: record
        self.raw_of: object = lambda run: {"raw": json.dumps([run.block, run.metrics])}


def test_the_boots_of_a_plan_are_one_result_with_every_run_and_its_raw_data(tmp_path, monkeypatch):
    of, kept = plan(), []
    records = [boot_record(number, of) for number in range(of.boots)]
    monkeypatch.setattr(Folder, "append", lambda self, run, raw=None: kept.append((run, raw)))
    folder = boots.join(of, [Kept(record) for record in records], tmp_path / "out", {"more": 1})
    cells, ends = folder.plan.cells, folder.plan.ends
    assert len(cells) == len(kept) == sum(len(record.runs) for record in records) == 24
    assert {cell.block for cell in cells} == set(range(4)) and ends == (4,)
    expected = [({"calculations": n + run.block / 10}, {"boot": f"boot{n}"},
                 {"raw": json.dumps([run.block, run.metrics])})
                for n, record in enumerate(records) for run in record.runs]  # fmt: skip
    assert [(run.metrics, run.properties, raw) for run, raw in kept] == expected
    stopping = folder.experiment.stopping
    assert (stopping.blocks, stopping.sessions) == (4, 2)
    assert folder.experiment.baseline == "old × x"
    first = {kind.label: next(n for n in range(of.boots) if of.kind_of(n) == kind)
             for kind in of.kinds}  # fmt: skip
    host = folder.host
    assert host["same"] == host["more"] == 1 and host["kernel"] == {"arch": "x"}
    assert "number" not in host
    assert {label: facts["number"] for label, facts in host["boots"].items()} == first


def test_what_is_common_to_all_tables_is_found_at_every_depth():
    tables = [{"a": {"x": 1, "y": number, "z": {"u": 3, "v": number}}, "b": 2, "c": number,
               "d": 1 if number < 2 else 9} for number in range(3)]  # fmt: skip
    assert boots._common(tables) == {"a": {"x": 1, "z": {"u": 3}}, "b": 2}


def test_every_boot_that_was_measured_is_done_and_all_that_went_wrong_is_told(
    tmp_path, monkeypatch
):
    made = boots.Boots.__new__(boots.Boots)
    made.path, made.plan = tmp_path, plan()
    made.events = [
        {"event": "done", "number": 0, "boot": "b0"}, {"event": "done", "number": 2, "boot": "b2"},
        {"event": "killed", "number": 1, "boot": "b3", "of": "boot1"},
        {"event": "failed", "number": 1, "boot": "b4", "detail": "it broke"},
        {"event": "foreign", "number": 3, "boot": "b5"}, {"event": "given-up", "boot": "b6"},
    ]  # fmt: skip
    assert made.done == {0, 2} and made.due == 1 and made.rounds == 0
    lines = made.lines(["--quick"])
    kind = made.plan.kind_of(1).label
    assert lines[:-1] == [f"2 of 6 boots of {tmp_path} are measured",
                          f"  2 {kind}: killed in boot boot1",
                          f"  2 {kind}: failed in boot b4: it broke",
                          f"  4 {made.plan.kind_of(3).label}: foreign in boot b5"]  # fmt: skip
    monkeypatch.setattr(boots.journal, "boot_id", lambda: "b2")
    made.events.append({"event": "chosen", "number": 1, "boot": "b2"})
    assert f"reboot, then schedlab boots next {tmp_path}" in made.lines()[-1]
    monkeypatch.setattr(boots, "is_other", lambda *_: "")
    assert made._is_here(4, None) is False  # another boot of the plan was measured in it
    assert lines[-1].endswith(f"schedlab boots next {tmp_path} --quick")
    document = made.as_json()
    assert (document["done"], document["due"]) == ([0, 2], 1)
    assert document["order"] == [made.plan.kind_of(n).label for n in range(6)]


def test_all_keys_of_both_sides_may_differ():
    assert merge._differences({"a": 1, "b": 2}, {"c": 3, "d": 4}) == {
        "a": (1, None), "b": (2, None), "c": (None, 3), "d": (None, 4)
    }  # fmt: skip
    tables = [{"a": {"x": 1}}, {"a": 5}, {"a": {"x": 1}}]
    assert boots._common(tables) == {} == boots._common(tables[1:])


def test_what_is_joined_has_the_candidates_of_all_and_the_blocks_that_were_measured(tmp_path):
    records = []
    for number, names in enumerate((("a", "b"), ("b", "c", "d"))):
        arms = tuple(Candidate(name, {"scheduler": name}) for name in names)
        path = measured(tmp_path / f"h{number}", f"s{number}", candidates=arms, baseline=names[0],
                        stopping=Stopping(blocks=4), seed=number)  # fmt: skip
        one = Folder.open(path).record()
        budgeted = replace(one.experiment, stopping=Stopping(blocks=4, budget_s=9.0))
        runs = tuple(run for run in one.runs if run.block in (0, 1 + number))
        records.append(replace(one, experiment=budgeted, runs=runs))
    asked, cells, moved = merge._joined(records)
    assert [c.label for c in asked.candidates] == ["a", "b", "c", "d"]
    assert moved == [0, 2] and sorted({cell.block for cell in cells}) == [0, 1, 2, 4]
    assert {cell.candidate for cell in cells if cell.block >= 2} >= {"b", "c", "d"}


def test_the_sessions_of_all_workloads_and_both_sides_are_counted(tmp_path):
    changed = several(tmp_path / "b", {})
    for at in ("v", "w"):
        runs = tuple(replace(run, session="one") if run.workload == at else run
                     for run in changed.runs)  # fmt: skip
        once = replace(changed, runs=runs)
        for sides in ((changed, once), (once, changed)):
            assert difference.changes(*sides, ("a", "b"))[1] == "blocks"
    assert difference.changes(changed, changed, ("a", "b"))[1] == "sessions"


def test_a_boot_fails_too_often_by_its_own_failures_since_it_was_given_up(tmp_path, monkeypatch):
    made = boots.Boots.__new__(boots.Boots)
    made.path, made.root, made.plan, made.events, done = tmp_path, tmp_path, plan(), [], []
    monkeypatch.setattr(made, "append", lambda event, number, **_: done.append((event, number)))
    monkeypatch.setattr(made, "hold", lambda *_, **__: None)
    monkeypatch.setattr(boots, "give_back", lambda: [""])
    loader = SimpleNamespace(check=lambda *_: "entry", boot_once=lambda *given: done.append(given))
    monkeypatch.setattr(boots.loaders, "bootloader", lambda *_: loader)

    def failed(number, times, event="killed"):
        made.events += [{"event": event, "number": number, "boot": "b"}] * times

    failed(0, boots.ATTEMPTS_MAX)
    failed(1, boots.ATTEMPTS_MAX - 1, "foreign")
    kind = made.plan.kind_of(1)
    made._choose(1)
    assert done == [("chosen", 1), (kind.label, kind.kernel, kind.cmdline)]
    done.clear()
    made.events.append({"event": "foreign", "number": 1, "boot": "b", "detail": "it was not it"})
    of = f"boot 2 .*failed {boots.ATTEMPTS_MAX} times: it was not it"
    with pytest.raises(HostError, match=of):
        made._choose(1)
    assert done == [("given-up", 1)]
    failed(1, 1, "given-up")
    failed(1, boots.ATTEMPTS_MAX - 1)
    done.clear()
    made._choose(1)
    assert done[0] == ("chosen", 1)


def test_a_merged_folder_has_the_histograms_of_all(tmp_path):
    class Known(Steady):
        def __init__(self, low):
            self.low = low

        def measure(self, cell, workload, candidate):
            outcome = super().measure(cell, workload, candidate)
            return replace(outcome, histograms={"latency_ns": [[self.low, self.low + 1, 5]]})

    paths = [measured(tmp_path / f"h{n}", f"s{n}", source=Known(10 * n), seed=n) for n in range(3)]
    found = merge.merge(paths, tmp_path / "all").record()
    assert found.histograms["w", "bfq"] == tuple((10 * n, 10 * n + 1, 15) for n in range(3))


def test_a_label_that_means_two_things_names_the_two_folders():
    def record(**labels):
        arms = tuple(Candidate(label, {"scheduler": name}) for label, name in labels.items())
        return SimpleNamespace(experiment=SimpleNamespace(candidates=arms))

    paths = [Path("one"), Path("two"), Path("three")]
    records = [record(a="none"), record(a="none", b="bfq", c="x"), record(c="x", b="kyber")]
    with pytest.raises(SpecError, match="b is scheduler=kyber in three, and scheduler=bfq in two"):
        merge._require_one_meaning(paths, records)
    merge._require_one_meaning(paths[:2], records[:2])
