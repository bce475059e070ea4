"""All that further pages say, drawn at random with several of everything: timelines, results
beside each other, many results, tuning."""

import base64
import json
import random
import re
import zlib
from dataclasses import replace

import answers
import pytest
import reports
import strangers
from whole import sum_of, words_of

from schedlab.nouns import METRICS
from schedlab.report import difference_page, gantt, index_page, play, timeline, tune_page
from schedlab.report.bars import Scene, bars_of
from schedlab.report.difference_page import BootCounts, Recommended
from schedlab.report.texts import Texts
from schedlab.result import answer_of

PARTS = (("tag", "plug", "scheduler", "device"), ("wait", "device"), ("ready", "runs"), ("whole",))
LANGUAGES = ("en", "ko", "ru")


def drawn_run(rng, name, parts, unit):
    """A run of up to four processes, of which one may wait while many others are served."""
    count, span = rng.choice((40, 180, 260)), rng.choice((900_000_000, 40_000_000))
    labels = [rng.choice(("tar", "dd", "cp 2", "cp 1")) for _ in range(count - 1)]
    borders = [sorted(rng.randint(0, span) for _ in range(count - 1))]
    for _ in parts:
        borders.append([at + rng.randint(0, 4_000_000) for at in borders[-1]])
    ends = (200, *(500 + 30 * n for n in range(len(parts)))) if span > 1e8 else [0] * len(borders)
    for border, at in zip(borders, ends, strict=True):
        border.append(1_000_000 * at)
    kind = [rng.randrange(4) for _ in range(count)]
    places = {} if unit == "burst" else {
        "offset_bytes": [512 * rng.randint(0, 9999) for _ in range(count)],
        "size_bytes": [512 * rng.randint(1, 64) for _ in range(count)],
    }  # fmt: skip
    notes = tuple(f"{name}: note {n}" for n in range(rng.randint(0, 2)))
    return bars_of(name, [*labels, "last"], borders, kind=kind, notes=notes, **places)


def drawn_scene(rng, number):
    parts = rng.choice(PARTS)
    unit = "burst" if "runs" in parts else "request"
    names = rng.sample(strangers.NAMES, rng.randint(1, 4))
    runs = tuple(drawn_run(rng, name, parts, unit) for name in names)
    pair = tuple(rng.sample(names, min(2, len(names)))) if rng.random() < 0.4 else ()
    return Scene(f"work {number}", parts, runs, unit, (f"scene {number}",), pair)


def packed(scripts):
    """The facts and the columns in the scripts of a timeline."""
    facts = re.search(r'id="timeline-data">(.*?)</script>', scripts)[1]
    columns = re.findall(r'octet-stream" id="([^"]+)">(.*?)</script>', scripts)
    return facts + "".join(f"{name} {zlib.decompress(base64.b64decode(data)).hex()}"
                           for name, data in columns)  # fmt: skip


@pytest.mark.parametrize("most", [timeline.BARS_MAX, 900])
def test_timelines_say_what_they_said(most, golden, monkeypatch):
    monkeypatch.setattr(timeline, "BARS_MAX", most)
    rng, said = random.Random(5), []
    for language in LANGUAGES:
        scenes = tuple(drawn_scene(rng, n) for n in range(rng.randint(2, 3)))
        page = timeline.Timeline(scenes, Texts(language))
        said += [
            f"# {language}: {page.counts}",
            *words_of(page.render()),
            sum_of(packed(page._scripts())),
        ]
    golden(f"pages/timelines-{most}.txt", "\n".join(said).replace("\u00a0", " "))


OF_TWO = ("keep", "best", "one-run", "starved", "price", "same-0", "unbounded", "wild", "exact")


def test_results_beside_each_other_say_what_they_said(golden):
    said, of = [], {name: answers.EXAMPLES[name] for name in OF_TWO}
    record = reports.record_of(answers.BEST)
    machines = {"kernel": ("6.1", "6.2"), "cpu": ("x", "y"), "governor": (None, "z")}
    options = (("sessions", None), ("runs", None), ("sessions", BootCounts((1, 3), 5, 0.25)),
               ("sessions", BootCounts((2, 1), None, 0.5)))  # fmt: skip
    for language, (units, boots) in zip((*LANGUAGES, "en"), options, strict=True):
        both = difference_page.changed(record, of, ("old", "new"), machines, units, boots, language)
        said += [
            f"# {language}",
            *both.lines(70),
            both.markdown(),
            *words_of(both.page()),
            both.code,
        ]
        of = dict(reversed(of.items()))
    drawn = {f"c{seed}": strangers.drawn_answer(random.Random(seed)) for seed in range(30)}
    said += sorted({f"{of.of}: {of.text}" for of in difference_page.cases(record, drawn, set())})
    worse = {("best", "w0"), ("price", "w0: cpu_s"), ("keep", "w0")}
    cases = difference_page.cases(record, of, worse)
    said.append(difference_page.junit(("old", "new"), cases).decode().replace("<testcase", "\n<"))
    golden("pages/differences.txt", "\n".join(said).replace("\u00a0", " "))


def test_replays_beside_their_load_say_what_they_said(golden):
    factors = {"iops": 1.5, "latency_ns_p99": 1, "latency_ns_mean": 0.4}
    rows = [{"metric": name, "recorded": 1e6, "replayed": 1e6 * by, "is_like": by == 1}
            for name, by in factors.items()]  # fmt: skip
    said = []
    of = (("open", "keep", "same"), ("agree", "best", "exact"), ("disagree", "same", "price"))
    for at, (code, live, other) in enumerate(of):
        sides = []
        for name, answer in (("live", answers.EXAMPLES[live]), ("again", answers.EXAMPLES[other])):
            record = reports.record_of(answer)
            runs = [replace(run, properties={"fidelity": {
                "scheduler": f"s{at}", "device": "sda", "rows": rows[: 3 * (run.workload == "w0")],
            }}) for run in record.runs]  # fmt: skip
            labels = answer.candidates[: 1 + (name == "live")]
            sides.append(Recommended(name, replace(record, runs=tuple(runs)), answer, labels,
                                     name == "again" or at == 1))  # fmt: skip
        facts = {"disk": ("a", "b"), "kernel": (1, 2)}
        both = difference_page.agreed(code, *sides, facts, LANGUAGES[at])
        said += [f"# {code}", *both.lines(60), both.markdown(), *words_of(both.page())]
    golden("pages/agreements.txt", "\n".join(said).replace("\u00a0", " "))


def test_the_page_of_many_results_says_what_it_said(golden):
    said = []
    for language in LANGUAGES:
        entries = [index_page.IndexedResult("z.html", "broken", reason="no runs")]
        for seed in (2, 8, 3, 10):
            record = strangers.Stranger(seed).record
            started = [replace(run, started_at=f"20{30 - at:02}-0{1 + seed % 7}-01T0{at % 10}:00")
                       for at, run in enumerate(record.runs[:9])]  # fmt: skip
            record = replace(record, runs=(*started, *record.runs[9:]))
            entries.append(index_page.IndexedResult(f"{seed}.html", f"n{seed}", record,
                                                    answer_of(record, flags=False)))  # fmt: skip
        said += [f"# {language}", *words_of(index_page.render(entries, "results", language))]
    golden("pages/index.txt", "\n".join(said).replace("\u00a0", " "))


def test_the_page_of_tuning_says_what_it_said(golden, tmp_path):
    rng, said = random.Random(4), []
    for metrics in (("iops", "latency_ns_p99"), ("elapsed_s", "throughput_bytes_per_s"), None):
        trials = []
        for at in range(9):
            mean = None if rng.random() < 0.1 else rng.gauss(0, 0.5)
            ends = (None, None) if mean is None else (mean - 0.1, mean + 0.2)
            values = [None if rng.random() < 0.1 else of * rng.random() for of in (1e5, 1e8)]
            trials.append(tune_page.Trial(
                f"t{at}", f"x={rng.randint(1, 9)}", rng.randint(1, 6), mean, *ends,
                rng.random() < 0.8, rng.random() < 0.3, *values))  # fmt: skip
        view = tune_page.TuneView(
            "Tuning", "Take x.", ["line 1", "line 2"], ["apply a", "apply b"], trials,
            {name: rng.random() for name in ("fifo_batch", "a", "read_expire", "z", "q", "w")},
            metrics and tuple(METRICS[name] for name in metrics), "verdict.html", "Six blocks.",
        )  # fmt: skip
        tune_page.write_page(view, tmp_path / "page.html")
        said += [f"# {json.dumps(metrics)}", tune_page.text(view)]
        said += words_of((tmp_path / "page.html").read_text())
        said.append(f"of one: {tune_page.pareto_chart(replace(view, trials=trials[:1]))}")
    golden("pages/tuning.txt", "\n".join(said).replace("\u00a0", " "))


def test_schedules_and_plays_beside_each_other_have_room_for_the_longest(golden):
    tasks = [{"name": name, "arrival_ns": at * 10**6, "finish_ns": end, "io": [(at, 10**6 + at)]}
             for at, (name, end) in enumerate((("a", 10**7), ("the longest of them", None),
                                               ("middle", 2 * 10**7)))]  # fmt: skip
    parts = [{"cpu": n % 2, "start_ns": n * 10**6, "end_ns": (n + 1) * 10**6, of: n % 3}
             for n, of in enumerate(("task", "switch", "task", "task", "idle"))]  # fmt: skip
    result = {"tasks": tasks, "cpus": 2, "policy": "rr", "quantum_effective": 10**6,
              "segments": parts, "summary": {"makespan_ns": 2 * 10**7}}  # fmt: skip
    bursts = [{"task": n % 3, "start_ns": n * 10**6, "duration_ns": 5 * 10**5} for n in (4, 1, 2)]
    said = [gantt.schedule_chart(result, (0, 2 * 10**7), 700, of) for of in ((), bursts)]
    blocks = [["a" * 10, "b"], ["c" * 12, "d", "e"], ["f"]]
    said += [line for width in (28, 29, 30) for line in (f"# {width}", *play.beside(blocks, width))]
    golden("pages/beside.txt", "\n".join(said))
