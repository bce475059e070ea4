"""The timeline: what a page holds is what a file holds, in every form of file."""

import base64
import json
import random
import re
import zlib

import answers
import numpy as np
import pytest
import reports
from click.testing import CliRunner
from recordings import WRITE, Recorded, recording

from schedlab.app.trace.timeline import write_timeline
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.report import bars, timeline
from schedlab.report.bars import Scene, bars_of, stretches
from schedlab.report.moments import moments
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.view import View

EN = Texts("en")


def unpacked(page):
    """The scenes of a page as its script reads them: each run with its columns."""
    meta = json.loads(re.search(r'id="timeline-data">(.*?)</script>', page)[1])
    for scene in meta["scenes"]:
        for run in scene["runs"]:
            packed = re.search(rf'id="{run["id"]}">(.*?)</script>', page)[1]
            numbers = numbers_of(zlib.decompress(base64.b64decode(packed)))
            columns = [[next(numbers) for _ in range(run["count"])]
                       for _ in range(3 + len(scene["parts"]) + 2 * run["has_places"])]  # fmt: skip
            borders = [np.cumsum(columns[1])]
            for spent in columns[2 : 2 + len(scene["parts"])]:
                borders.append(borders[-1] + spent)
            run["rows"] = [scene["rows"][row] for row in columns[0]]
            run["borders"] = np.array(borders).T.tolist()
            run["kinds"] = columns[-1]
            since, spent = [[next(numbers) for _ in range(run["idle"])] for _ in "ab"]
            run["idle"] = [
                (int(b), int(b) + n) for b, n in zip(np.cumsum(since), spent, strict=True)
            ]
            if run["has_places"]:
                steps = [(-(n + 1) if n % 2 else n) // 2 for n in columns[-3]]
                run["offsets"] = (np.cumsum(steps) * run["unit"]).tolist()
                run["sizes"] = [size * run["unit"] for size in columns[-2]]
            assert next(numbers, None) is None
    return meta["scenes"]


def numbers_of(stream):
    value = shift = 0
    for byte in stream:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def page_of(tmp_path, *files):
    out = tmp_path / "page.html"
    write_timeline([str(file) for file in files], out, "en")
    return out.read_text()


def test_the_first_request_of_each_file_is_at_second_0(tmp_path):
    files = [recording(tmp_path / f"{name}.trace", [Recorded(at, at + 9, steps_us=(at, at, at))])
             for name, at in (("late", 5000), ("early", 1), ("last", 9000))]  # fmt: skip
    (scene,) = unpacked(page_of(tmp_path, *files))
    assert [run["borders"][0][0] for run in scene["runs"]] == [0, 0, 0]


def random_requests(count, seed=1):
    draw = random.Random(seed)
    for number in range(count):
        steps = sorted(draw.randint(1, 10**6) for _ in range(5))
        yield Recorded(
            steps[0], steps[4], 512 * draw.randint(0, 2**40), 512 * draw.randint(1, 2048),
            draw.choice((0, WRITE)), thread=1 + number % 3, command="dd", steps_us=steps[1:4],
        )  # fmt: skip


def test_a_page_has_the_steps_of_every_request(tmp_path):
    sent = sorted(random_requests(500), key=lambda one: one.start_us)
    page = page_of(tmp_path, recording(tmp_path / "a.trace", sent, "bfq"))
    (scene,) = unpacked(page)
    assert scene["parts"] == ["tag", "plug", "scheduler", "device"]
    (run,) = scene["runs"]
    assert run["name"] == "a: bfq"
    zero = sent[0].start_us
    seen = sorted(zip(run["borders"], run["offsets"], run["sizes"], run["kinds"], strict=True))
    wanted = sorted(
        ([round((us - zero) * 1e3) for us in (one.start_us, *one.steps_us, one.end_us)],
         one.offset, one.size, one.operation)
        for one in sent
    )  # fmt: skip
    assert seen == wanted
    assert set(run["rows"]) == {"dd 1", "dd 2", "dd 3"}


def test_steps_that_were_not_seen_take_no_time(tmp_path):
    """One was merged, one went past the scheduler; older files know the issue alone."""
    at_once = [Recorded(0, 100, steps_us=(0, 0, 60)), Recorded(10, 100, steps_us=(20, 0, 60))]
    (scene,) = unpacked(page_of(tmp_path, recording(tmp_path / "new.trace", at_once)))
    merged, direct = scene["runs"][0]["borders"]
    assert merged == [0, 0, 0, 60_000, 100_000]
    assert direct == [10_000, 20_000, 60_000, 60_000, 100_000]
    old = recording(tmp_path / "old.trace", [Recorded(5, 9)], version=1)
    (scene,) = unpacked(page_of(tmp_path, old))
    assert (scene["parts"], scene["runs"][0]["borders"]) == (["wait", "device"], [[0, 0, 4000]])


def test_who_waited_longest_is_the_headline_in_every_language(tmp_path):
    late = Recorded(10, 900_010, thread=2, command="late", steps_us=(10, 20, 800_000))
    file = recording(tmp_path / "x.trace", [Recorded(0, 5), late])
    page = page_of(tmp_path, file)
    assert "<h1>x: none: late waited longest, 900" in page.replace("\u00a0", " ")
    assert "in the scheduler, from 0.000" in page
    for language in LANGUAGES:
        write_timeline([str(file)], tmp_path / "y.html", language)
        assert f'<html lang="{language}">' in (tmp_path / "y.html").read_text()


def test_the_longest_wait_of_a_request_is_its_whole_way(tmp_path):
    queued = Recorded(0, 900, thread=2, command="queued", steps_us=(10, 20, 800))
    slow = Recorded(0, 5000, thread=3, command="slow", steps_us=(0, 0, 1))
    page = page_of(tmp_path, recording(tmp_path / "x.trace", [queued, slow])).replace("\u00a0", " ")
    assert "<h1>x: none: slow waited longest, 5.00 ms in the device, from 0.000" in page
    waits = page.split('id="waits"')[1]
    assert waits.index("slow") < waits.index("queued")


def starving(passed, wait_us):
    """Two readers: `late 1` ends at once, `late 2` after so many later requests of a writer."""
    step = wait_us / (passed + 1)
    late = [Recorded(0, 5, thread=2, command="late"),
            Recorded(10, 10 + wait_us, thread=3, command="late")]  # fmt: skip
    writes = [
        Recorded(20 + step * i, 21 + step * i, operation=WRITE, thread=4, command="writer")
        for i in range(passed)
    ]
    return [*late, *writes]


@pytest.mark.parametrize("passed, wait_us, is_starved", [
    (100, 500_000, True), (99, 500_000, False), (100, 99_000, False), (400, 101_000, True),
])  # fmt: skip
def test_the_page_says_which_process_starved_or_that_none_did(
    passed, wait_us, is_starved, tmp_path
):
    page = page_of(tmp_path, recording(tmp_path / "x.trace", starving(passed, wait_us), "bfq"))
    page = page.replace("\u00a0", " ")
    time = f"{f'{wait_us / 1e3:#.3g}'.rstrip('.')} ms"
    starved = f"bfq, late 2 starved: from 0.000 s on it waited {time} without being served, "
    nobody = f"bfq, nobody starved: the longest time without being served was {time} (late 2, "
    assert (starved in page, nobody in page) == (is_starved, not is_starved)
    assert f"asked later were served {passed} times" in page


def test_one_that_always_gets_something_served_does_not_starve():
    """Its oldest request waits for all the others, which are served one by one; and one alone."""
    start = np.arange(200) * 1_000_000
    end = start + 10
    end[0] = start[-1] + 20
    other = np.arange(200) * 1_000_000 + 5
    both = bars_of("a", ["p"] * 200 + ["q"] * 200, [np.append(start, other),
                                                    np.append(end, other + 5)])  # fmt: skip
    assert not any(each.is_starved for each in stretches(both, "request"))
    alone = bars_of("a", ["p"] * 200, [start, end])
    line = timeline.Timeline((Scene("w", ("whole",), (alone,)),), EN)
    assert line.starved(line.scenes[0], alone) == []


def test_a_name_cannot_leave_the_data(tmp_path):
    evil = Recorded(0, 5, command="</script>&x", steps_us=(1, 2, 3))
    page = page_of(tmp_path, recording(tmp_path / "x.trace", [evil]))
    assert "</script>&x" not in page
    (scene,) = unpacked(page)
    assert scene["rows"] == ["</script>&x"]


def test_runs_share_their_rows_and_what_does_not_fit_is_cut_at_one_time(monkeypatch):
    monkeypatch.setattr(timeline, "BARS_MAX", 8)
    monkeypatch.setattr(timeline, "ROWS_MAX", 3)

    def run(name, rows, step):
        start = np.arange(len(rows)) * step
        return bars_of(name, rows, [start, start + 5])

    scene = Scene("w", ("whole",), (run("a", list("pqrst"), 10), run("b", list("ts"), 7)))
    (shown,) = timeline.Timeline((scene,), EN).shown
    assert {bars.rows for bars in shown.runs} == {("p", "q", "others (3)")}
    assert [len(bars.row) for bars in shown.runs] == [4, 2]
    assert any("4 of 5" in note for note in shown.notes)


def test_logs_of_simulations_have_the_runs_of_the_first_seed(tmp_path):
    log = tmp_path / "log.csv"
    asked = ["sim", "run", "--device", "nvme", "--scheduler", "none;bfq", "--processes",
             "reader-writers", "--seconds", "0.05", "--seeds", "2"]  # fmt: skip
    for more in (["--log", str(log)], ["--gantt", str(tmp_path / "own.html")]):
        done = CliRunner().invoke(cli, [*asked, *more])
        assert done.exit_code == 0, done.output
    (scene,) = unpacked(page_of(tmp_path, log))
    (own,) = unpacked((tmp_path / "own.html").read_text())
    assert [run["name"] for run in scene["runs"]] == ["none", "bfq"]
    for run, same in zip(scene["runs"], own["runs"], strict=True):
        first = run["borders"][0][0], same["borders"][0][0]
        times = [[np.array(each["borders"]) - start] for each, start in
                 zip((run, same), first, strict=True)]  # fmt: skip
        assert np.array_equal(*times) and run["rows"] == same["rows"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [(["--device", "ncq2014", "--workload", "A"], ["tag", "scheduler", "device"]),
     (["--device", "disk7200"], ["scheduler", "device"])],
)  # fmt: skip
def test_logs_of_an_ssd_and_a_disk(options, parts, tmp_path):
    log = tmp_path / "log.csv"
    more = ["--requests", "200", "--seeds", "1", "--log", str(log)]
    done = CliRunner().invoke(cli, ["sim", "run", *options, *more])
    assert done.exit_code == 0, done.output
    (scene,) = unpacked(page_of(tmp_path, log))
    assert scene["parts"] == parts
    assert all(run["count"] == 200 for run in scene["runs"])


def test_a_schedule_says_how_long_a_task_waited_and_why_it_stopped(tmp_path):
    asked = ["sim", "cpu", "--policy", "rr", "--quantum", "4ms", "--tasks", "A:0:8,B:1:4/2/1"]
    done = CliRunner().invoke(cli, [*asked, "--gantt", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    (scene,) = unpacked((tmp_path / "page.html").read_text())
    (run,) = scene["runs"]
    ms = [[each / 1e6 for each in borders] for borders in run["borders"]]
    assert list(zip(run["rows"], ms, run["kinds"], strict=True)) == [
        ("A", [0, 0, 4], 3), ("B", [1, 4, 8], 1), ("A", [4, 8, 12], 4), ("B", [10, 12, 13], 4)
    ]  # fmt: skip


def test_bursts_wait_from_their_wakeup_or_preemption(tmp_path):
    csv = tmp_path / "bursts.csv"
    csv.write_text(
        "end_ns,duration_ns,task,preempted,cpu,woken_ns,policy,nice,slice_ns\n"
        "100,50,7,1,0,20,0,0,0\n200,100,8,0,0,0,0,0,0\n260,60,7,0,0,0,0,0,0\n"
    )
    (scene,) = unpacked(page_of(tmp_path, csv))
    (run,) = scene["runs"]
    assert scene["unit"] == "burst"
    assert sorted(zip(run["rows"], run["borders"], strict=True)) == [
        ("task 7", [0, 30, 80]), ("task 7", [80, 180, 240]), ("task 8", [80, 80, 180])
    ]  # fmt: skip


def test_what_has_no_length_or_other_parts_is_refused_with_a_hint(tmp_path):
    text = tmp_path / "requests.csv"
    text.write_text("arrival_ms,is_write,first_page,pages\n0,0,0,1\n1,1,5,1\n")
    new = recording(tmp_path / "new.trace", [Recorded(0, 9, steps_us=(1, 2, 3))])
    old = recording(tmp_path / "old.trace", [Recorded(0, 9)], version=1)
    cut = tmp_path / "cut.csv"
    cut.write_text("policy,seed,arrival_ns,dispatched_ns,completed_ns,operation\nfcfs,1,0,5\n")
    for files, words in (
        ([text], "no completions"), ([cut], "cut.csv:2: the line is cut off"),
        ([new, old], "other parts"), ([new, new], "same name"),
        ([tmp_path / "absent"], "absent"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=words) as refused:
            page_of(tmp_path, *files)
        assert refused.value.hint
        assert not (tmp_path / "page.html").exists()
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("process,start_ns,duration_ns\n")
    with pytest.raises(SpecError, match="cannot recognise") as refused:
        page_of(tmp_path, nothing)
    assert refused.value.hint == f"name its format: {nothing}:FORMAT"  # and not what refuses it too


def test_a_report_without_a_page_beside_it_reads_no_recording():
    view = View(reports.record_of(answers.TRADE), answers.TRADE, EN)
    assert moments(view, answers.TRADE.rows[0].workload) == ""
    assert "timeline" not in vars(view)


def test_the_library_is_that_of_the_lock():
    """After a change of tools/vendor/package-lock.json: tools/vendor/build."""
    root = timeline.PACKAGE.parents[1]
    lock = json.loads((root / "tools" / "vendor" / "package-lock.json").read_text())
    library = (timeline.PACKAGE / "report" / "vendor" / "d3-zoom.js").read_text()
    versions = dict(re.findall(r"d3js\.org/(d3-\w+)/ v([\d.]+)", library))
    assert versions == {
        name.removeprefix("node_modules/"): package["version"]
        for name, package in lock["packages"].items() if name
    }  # fmt: skip
    assert library.startswith("/*!") and "Permission to use, copy, modify" in library


@pytest.mark.parametrize("order", [1, -1])
def test_processes_of_one_name_are_numbered_and_one_alone_is_not(order):
    names = {1: "solo", 2: "twin", 3: "twin", 4: "kworker/a", 5: "kworker/b"}
    numbers = [*names][::order]
    rows = np.array([(n, n, at) for at, n in enumerate(numbers)],
                    [("thread", "u4"), ("process", "u4"), ("arrival_ns", "u8")])  # fmt: skip
    found = dict(zip(numbers, bars._task_names(rows, names, {}), strict=True))
    twins = ("twin 1", "twin 2")[::order]
    assert [found[n] for n in names] == ["solo", *twins, "kworker", "kworker"]
