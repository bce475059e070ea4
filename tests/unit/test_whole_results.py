"""All that a result says, of records with two or more of everything: every word and figure of the
page, the workbook and the tables, which no line that forgets the second one leaves as they are."""

import io
import json
import random
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import answers
import openpyxl
import pytest
import report_simulation as simulation
import reports
import strangers
from whole import plain, rounded, sum_of, words_of

from schedlab import __version__, report
from schedlab.nouns import (
    AA_SUFFIX,
    METRICS,
    Candidate,
    Experiment,
    Explanation,
    Flag,
    GateFinding,
    Plan,
    RateSeries,
    Record,
    Run,
    Stopping,
    Target,
    Workload,
    to_json,
)
from schedlab.nouns.answer import Requirement, Unfit
from schedlab.nouns.results import LatencySeries
from schedlab.report import sentences, standalone, steps, why
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import answer_of as answered

READER, NEWCOMER, SEQ = answers.READER, answers.NEWCOMER, answers.SEQ
BOTH = ("none", "bfq")
MEASURED_BY_ALL = ("read 4 KiB", "write 4 KiB")
MEASURED = ("read 4 KiB", "read 8 KiB", "write 8 KiB", "reader beside writers")


def waited(name, factor):
    return Explanation(name, 2e-3 * factor, 1e-3, 4e-3 / factor, 8.0 * factor, 2.0, 1000,
                       depth_series=(4.0, 8.0 * factor), plug_s=1e-5)  # fmt: skip


def enriched():
    """A trade with two of each: explained workloads, groups, notes, unfit rows, gates, wishes."""
    answer = replace(
        answers.TRADE,
        flags=(Flag("unbalanced", READER, BOTH, {"runs": {"none": 5, "bfq": 6}, "most": 7}),
               Flag("starved", SEQ, BOTH, {"counts": {"none": 1, "bfq": 2}, "runs": 7}),
               Flag("starved", READER, BOTH, {"counts": {"none": 2, "bfq": 3}, "runs": 7})),
        unfit=(Unfit("kyber", SEQ, 3, 7, ("late", "others")), Unfit("bfq", SEQ, 4, 7, ("clock",))),
        requirements=(Requirement(READER, 6e6, True, {"none": "missed", "bfq": "open"}),
                      Requirement(SEQ, 1e9, False, {"none": "met", "bfq": "met"})),
    )  # fmt: skip
    record = reports.record_of(answer)
    gates = (GateFinding("late", "2 ms late", True), GateFinding("others", "1 s of CPU", False))
    runs = [replace(run, gates=gates if run.block == 1 else (),
                    properties={**run.properties, "engine": "psync", "cpu_share": 0.1 * run.block})
            for run in record.runs]  # fmt: skip
    lost = [replace(run, attempt=0, status="discarded") for run in runs if run.block == 1]
    why = {(work, name): (waited("readers", 1 + at), waited("writers", 3 - at))
           for work in (NEWCOMER, READER) for at, name in enumerate(BOTH)}  # fmt: skip
    host = {**record.host, "memory_bytes": 4 << 30,
            "block_devices": {name: {"model": f"Disk {name}", "rotational": 0, "scheduler": "none"}
                              for name in ("sda", "sdb")}}  # fmt: skip
    experiment = replace(record.experiment, notes=("a first note", "a second note"))
    runs = (*runs, *lost)
    return replace(record, experiment=experiment, runs=runs, explanations=why, host=host), answer


def measured():
    """Four workloads, and three blocks of four candidates with two arms of the first."""
    record = simulation.io_record(sizes=2, blocks=3)
    works = tuple(w for w in record.experiment.workloads if w.label in MEASURED)
    runs = tuple(run for run in record.runs if run.workload in MEASURED)
    cells = tuple(cell for cell in record.plan.cells if cell.workload in MEASURED)
    record = replace(record, experiment=replace(record.experiment, workloads=works), runs=runs,
                     plan=replace(record.plan, cells=cells))  # fmt: skip
    return record, simulation.answered(record)


def of_cpus():
    record = simulation.cpu_record()
    return record, simulation.answered(record)


def of_simulations():
    record = simulation.sim_record()
    return record, simulation.answered(record)


def chain(part, who):
    """Calls that waited most for a part, while one program wrote most."""
    waits = {f"{each}_s": 3.0 if each == part else 1.0 for each in ("data", "journal", "flush")}
    return {"calls": 4, **waits, "written": {who: 3 << 20, "": 1 << 20, "cat": 1 << 20}}


def fidelity(label, *factors):
    names = ("iops", "latency_ns_mean", "latency_ns_p99")
    rows = [{"metric": name, "recorded": 1e6, "replayed": 1e6 * factor, "is_like": factor == 1}
            for name, factor in zip(names, factors, strict=True)]  # fmt: skip
    return {"scheduler": label, "device": "sda", "rows": rows}


def replayed():
    """Commands and replays on an emulated device: rates, latencies and waits of two groups each."""
    answer = answers.TRADE
    record = reports.record_of(answer)
    works = tuple(
        replace(work, parameters={"argv": ["cp", f"from {at}", "to"], "user": f"u{at}",
                                  "prepare_run": "sync", "setup": f"tar {at}"})
        for at, work in enumerate(record.experiment.workloads)
    )  # fmt: skip
    own = {
        READER: {"fidelity": fidelity("kyber", 1.5, 1, 0.5), "left_behind": ["a", "b"]},
        NEWCOMER: {"fidelity": fidelity("bfq", 2, 0.75, 1), "left_behind": ["c"],
                   "confinement": {"held": "all", "walls": ["files", "net"]}},
        SEQ: {"fidelity": fidelity("", 1, 1, 1), "launch_cost_s": 0.002,
              "rehearsal": {"bytes": {"sda": 4 << 20, "sdb": 8 << 20}, "cpu_share": 0.5}},
    }  # fmt: skip
    runs = []
    for at, run in enumerate(record.runs):
        first = run.candidate in ("none", "kyber")
        durable = chain("flush" if first else "data", "dd" if first else "rsync")
        account = {"lateness": {"p50_ns": 100 * at, "p99_ns": 200 * at}, "late_share": at / 100}
        facts = {**own[run.workload], "durability": durable, "emulated": account,
                 "emulated_device": {"model": "sd-card"}, "engine": f"engine{at % 2}",
                 "censored": run.block == 1 and first}  # fmt: skip
        runs.append(replace(run, properties={**run.properties, **facts}))
    rates = {
        (work, name): tuple(
            RateSeries(block, group, "B/s", 0.5,
                       tuple(1e6 * (at + 2) * (bin_ + 1 + block) for bin_ in range(4)), block / 2)
            for group in ("readers", "writers") for block in range(2)
        )
        for work in (READER, SEQ) for at, name in enumerate(answers.NAMES)
    }  # fmt: skip
    latencies = {
        (work, name): tuple(
            LatencySeries(1, group, tuple((500 * bin_, 1000 << (bin_ + at), 2000 << (bin_ + at),
                                           10 * (bin_ + 1)) for bin_ in range(3)))
            for group in ("readers", "writers")
        )
        for work in (READER, SEQ) for at, name in enumerate(answers.NAMES)
    }  # fmt: skip
    experiment = replace(record.experiment, workloads=works)
    record = replace(record, experiment=experiment, runs=tuple(runs), series=rates,
                     latencies=latencies)  # fmt: skip
    return record, answer


def of_hosts():
    """Six machines of two kinds: on two bfq is worse than none, and one has no bfq."""
    runs, facts = [], {}
    for number, factor in enumerate((2.0, 1.9, None, 2.2, 0.5, 0.6)):
        record = simulation.io_record(sizes=1, blocks=3, seed=number, interference=False)
        for run in record.runs:
            if run.workload in MEASURED_BY_ALL and (factor or run.candidate != "bfq"):
                of = factor if run.candidate == "bfq" else 1.0
                metrics = {name: value * of for name, value in run.metrics.items()}
                runs.append(replace(run, block=run.block + 3 * number, session=f"s{number}",
                                    host=f"h{number}", metrics=metrics))  # fmt: skip
        facts[f"h{number}"] = {"cpu": {"model": f"m{number}"},
                               "measured_device": {"model": f"disk {number // 3}"}}  # fmt: skip
    works = tuple(w for w in record.experiment.workloads if w.label in MEASURED_BY_ALL)
    record = replace(record, experiment=replace(record.experiment, workloads=works),
                     plan=Plan(()), runs=tuple(runs), host={"hosts": facts})  # fmt: skip
    return record, simulation.answered(record)


WORKS = [  # label, metric, parameters, more
    ("plain", "throughput_bytes_per_s", {}, {}),
    ("alone", "iops", {}, {"secondary": ("cpu_s",)}),
    ("build", "elapsed_s", {}, {}),
    *((f"{test} {size} KiB", "throughput_bytes_per_s",
       {"test": test, "record_bytes": size << 10}, {"secondary": ("latency_ns_p99", "iops")})
      for size in (64, 8, 16) for test in ("read", "write")),
    ("odd", "throughput_bytes_per_s", {"test": "odd", "record_bytes": 4 << 10}, {}),
    *((f"{tool} {text}", "elapsed_s", {"block_bytes": size, "tool": tool}, {})
      for size, text in ((1024, "1 KiB"), (512, "512 B"), (2048, "2 KiB"))
      for tool in ("dd", "cat")),
    ("idle", "throughput_bytes_per_s", {}, {"negative_control": True}),
]  # fmt: skip


def handed_in():
    """Work that is the second of its kind in any way: sizes that fall, a point of a test alone,
    metrics of other units, calls that a later run tells, a control, programs, several crowds."""
    names = ("none", "bfq", "kyber")
    works = tuple(Workload(label, "x", metric, parameters, **more)
                  for label, metric, parameters, more in WORKS)  # fmt: skip
    runs, draw = [], random.Random(3)
    cells = [(at, work, place, name, block) for at, work in enumerate(works)
             for place, name in enumerate((*names, "none" + AA_SUFFIX))
             for block in range(3 + (place == 1))
             if (at + block) % 7 != place and (at or not name.startswith("none"))
             and (work.label, block) != ("read 8 KiB", 1)]  # fmt: skip
    for at, work, place, name, block in cells:
        metrics = {m: draw.uniform(1, 9) * (1e6 if METRICS[m].higher_is_better else 1)
                   for m in (work.metric, *work.secondary)}  # fmt: skip
        if work.label == "build" and (block or place):
            metrics |= {m: draw.uniform(1, 3) for m in ("user_s", "system_s")}
        more = {"calls": 1000 * at} if block == 2 else {}
        if work.label == "odd" and name != "kyber":
            more["workers"] = [{"calculations": 10.0 * n * (1 + place + block), "bursts": n,
                                "cpu_burst_s": 1.0 + n}
                               for n in range(1, 2 + place + block)]  # fmt: skip
        runs.append(Run(block + 4, place, work.label, name, 7, 1, "ok", "", 2.0, metrics,
                        properties=more))  # fmt: skip
    asked = Experiment("It", "io", Target("scratch", size_bytes=1 << 30),
                       tuple(Candidate(name, {}) for name in names), works, "none", 7,
                       Stopping(blocks=4))  # fmt: skip
    record = Record(asked, Plan(()), tuple(runs))
    return record, simulation.answered(record)


LOOKS = ("cols", "col", "row", "mergeCell", "pane", "autoFilter", "conditionalFormatting",
         "xdr:from", "xdr:row", "c:lineChart", "c:barChart", "c:f", "c:symbol", "a:srgbClr",
         "c:min", "c:max", "c:logBase", "a:t", "dc:title", "cp:keywords")  # fmt: skip


def looks_of(book):
    """How a workbook looks: widths, heights, merged and fixed cells, and all of its charts."""
    parts = zipfile.ZipFile(io.BytesIO(book))
    for name in sorted(parts.namelist()):
        text = parts.read(name).decode()
        if re.search("sheet|chart|drawing|docProps", name) and "rels" not in name:
            found = re.findall(r"<([\w:]+)([^>]*)>([^<]*)", text)
            shown = [" ".join(re.findall('"([^"]*)"', more)) + value
                     for tag, more, value in found if tag in LOOKS and tag != "row"]  # fmt: skip
            high = re.findall(r'<row r="(\d+)"[^>]* ht="([\d.]+)"', text)
            shown += [f"{row}:{height}" for row, height in high]
            styles = ",".join(re.findall(r'<c r="\w+" s="(\d+)"', text))
            shown += [f"styles {sum_of(styles)}"] * bool(styles)
            if shown:
                yield f"{name}: {'; '.join(shown)}"


def cells_of(book):
    """Each row of each sheet, a number with the unit that its format has."""
    for sheet in openpyxl.load_workbook(io.BytesIO(book)):
        yield f"## {sheet.title}"
        for row in sheet.iter_rows():
            shown = [f"{cell.value:.6g}{''.join(cell.number_format.split(chr(34))[1:2])}"
                     if isinstance(cell.value, int | float) else str(cell.value)
                     for cell in row if cell.value is not None]  # fmt: skip
            if shown:
                yield " | ".join(shown)


def figures_of(answer):
    """The rows and cells of an answer, and all its other parts."""
    for name, part in plain(to_json(answer)).items():
        whole = part if isinstance(part, dict | list) else [part]
        several = whole.items() if isinstance(whole, dict) else enumerate(whole)
        yield from (f"{name} {at}: {json.dumps(each)}" for at, each in several)


def whole_of(book):
    """The rows of a workbook, and how it looks."""
    return [*cells_of(book), *looks_of(book)]


def parts_of(book):
    """A sum of each part of a workbook."""
    parts = zipfile.ZipFile(io.BytesIO(book))
    return [
        f"{name} {sum_of(rounded(parts.read(name).decode()))}" for name in sorted(parts.namelist())
    ]


PATHS = (("report", "a/report.html"), ("tables", "a/tables.xlsx"), ("runs", "a/runs.jsonl"))


SCREENS = ((80, False), (44, False), (120, True))


def said(record, answer, of_book, widths, screens=SCREENS):
    """Everything that a result says, in every form."""
    folder = Path("results/2026-03-14T0926")
    page = report.html(record, answer, folder=folder)
    yield from ("# Page", *words_of(page))
    yield from ("# Workbook", *of_book(report.xlsx(record, answer)))
    for width in widths:
        yield from (f"# Tables of {width}", report.tables_text(record, answer, width=width))
    yield from ("# Markdown", report.markdown(record, answer))
    for width, colour in screens:
        of = {"width": width, "colour": colour, "folder": folder, "reports": PATHS}
        yield from (f"# {width} columns", report.text(record, answer, **of).replace("\x1b", "^"))
    yield from ("# CSV", rounded(report.csv(record, answer)))
    yield from ("# Answer", *figures_of(answer), "# Figures")
    figures = standalone.figures(page, record.figures)
    yield from (*(f"{name} {sum_of(svg)}" for name, svg in figures.items()), "# Printed")
    for table in report.printed(record, answer)["tables"]:
        yield f"{table['name']}: {sum_of(rounded(json.dumps(table)))}"
    for lang in ("ko", "ru"):
        yield from (f"# {lang}", sum_of(report.markdown(record, answer, lang)))


@pytest.mark.parametrize("make", [enriched, measured, of_cpus, of_simulations, replayed, of_hosts,
                                  handed_in])  # fmt: skip
def test_a_result_says_all_of_it(make, golden):
    record, answer = make()
    text = "\n".join(
        said(record, answer, lambda book: [*cells_of(book), *looks_of(book)], (80, 48))
    )
    text = text.replace("\u00a0", " ").replace(f"schedlab {__version__}", "schedlab N")
    golden(f"whole/{make.__name__}.txt", text)


@pytest.mark.parametrize("seed", range(1, 17))
def test_the_result_of_a_stranger_says_what_it_said(seed, golden):
    """Of each section a sum, for there are many; the first screen as it is."""
    record = strangers.Stranger(seed).record
    answer = answered(record)
    text = "\n".join(said(record, answer, parts_of, (60,) * (seed % 2), [SCREENS[seed % 3]]))
    heads = r"^# (?=[A-Z]\w+$|Tables of|\d+ columns$|ko$|ru$)"
    sections = re.split(heads, text.replace(__version__, "N"), flags=re.MULTILINE)[1:]
    sums = [f"{each.partition(chr(10))[0]}: {sum_of(each)}" for each in sections]
    golden(f"strangers/{seed}.txt", "\n".join([*sums, report.text(record, answer)]))


def test_first_screens_of_all_answers_are_what_they_were(golden):
    """Of answers with parts that need not fit: most words, and which of several a word is of."""
    said = []
    for seed in range(32):
        answer = strangers.drawn_answer(random.Random(seed))
        kind = ("io", "io", "cpu", "sim")[seed % 4]
        record = reports.record_of(answer, kind, ("scratch", "device")[seed % 2])
        if seed % 2:  # a directory on two disks, and settings of several keys
            more = {"b": 1, "x.y": 3, "z": 4} if seed % 3 == 0 else {"b": 1, "a": 2}
            each = [replace(of, settings=of.settings | more) for of in record.experiment.candidates]
            place = {"target": Target("directory", "/d", switch=("sda", "sdb"))}
            asked = replace(record.experiment, **place, candidates=tuple(each))
            record = replace(record, experiment=asked)
        works = record.experiment.workloads
        details = strangers.details(random.Random(seed), works, answer.candidates, range(3))
        record = replace(record, **details)
        width, lang = (80, 100, 56)[seed % 3], ("en", "en", "en", "ko", "ru")[seed % 5]
        text = report.text(record, answer, width, lang=lang, folder=Path("results/x"))
        said += [f"# {seed}: {answer.code}", text, report.reach(record, answer, lang)]
        view = View(record, answer, Texts(lang))
        said += [*why.lines(view), *sentences.not_counted(view), str(steps._apply(view))]
        said += [f"{code}: {sentences.code(View(record, replace(answer, code=code), view.texts))}"
                 for code in strangers.CODES]  # fmt: skip
        said += [report.markdown(record, answer, lang)] if seed % 4 == 2 else []
        said += words_of(report.html(record, answer, lang)) if seed % 5 == 1 else ()
    golden("whole/screens.txt", "\n".join(said).replace("\u00a0", " "))
