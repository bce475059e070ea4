"""The report's forms on simulated and hand-made results: terminal, exchange formats, commands."""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
import report_simulation as simulation
import report_verdicts as verdicts
from click.testing import CliRunner
from rich.cells import cell_len

from schedlab import analyse, report
from schedlab.cli.report import report as command
from schedlab.errors import SchedlabError, SpecError
from schedlab.report import notes
from schedlab.report.texts import Scale, Texts, catalogue
from schedlab.report.view import View, percentiles, seen_from
from schedlab.spec import (
    Flag,
    Headline,
    Pair,
    Record,
    Verdict,
    Workload,
    nothing_to_order,
    to_json,
)
from schedlab.store.folder import Folder

Case = tuple[Record, Verdict]


@pytest.fixture(scope="module")
def io_case() -> Case:
    record = simulation.io_record(sizes=3, blocks=8)
    return record, simulation.judged(record)


@pytest.fixture(scope="module")
def cases(io_case: Case) -> dict[str, Case]:
    others = {"cpu": simulation.cpu_record(), "sim": simulation.sim_record()}
    judged = {kind: (r, simulation.judged(r)) for kind, r in others.items()}
    return {"io": io_case, "hand": verdicts.first_screen()} | judged


def test_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'de'") as error:
        Texts("de")
    assert "ru" in error.value.hint


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (61447.99 * 1024, "B/s", "62.9 MB/s"),
        (2_140_000, "ns", "2.14 ms"),
        (851, "ns", "851 ns"),
        (0.00123, "s", "1.23 ms"),
        (82.17, "s", "82.2 s"),
        (354_000, "1/s", "354 k/s"),
        (0.998, "", "0.998"),
        (61447.99, "KiB/s", "61,448 KiB/s"),
        (9999.6, "B/s", "10.0 kB/s"),
    ],
)
def test_quantities_are_scaled_for_people(value: float, unit: str, shown: str) -> None:
    assert Texts("en").quantity(value, unit).replace("\u00a0", " ") == shown


def test_one_scale_serves_a_column() -> None:
    scale = Scale.fitting([800e6, 1.2e9], "B/s")
    assert (scale.factor, scale.unit) == (1e6, "MB/s")


def test_pair_is_turned_round() -> None:
    pair = seen_from([Pair("a", "b", 0.8, 0.7, 0.9, "worse")], "b", "a")
    assert pair is not None
    assert (pair.verdict, pair.ratio) == ("better", 1.25)
    assert pair.low == pytest.approx(1 / 0.9)
    assert pair.high == pytest.approx(1 / 0.7)


def test_percentiles_need_ten_requests_beyond() -> None:
    histogram = ((10, 20, 900), (20, 30, 95), (30, 40, 5))
    values = percentiles(histogram, [0.5, 0.9, 0.99, 0.999])
    assert values == [(0.5, 20.0), (0.9, 20.0), (0.99, 30.0)]


FIRST_SCREEN = """\
It depends on the work: bfq is better than none on new reader beside writers
(46× shorter, 38 to 55×) and worse on random reads, depth 32 (11 % slower, 9 to
13 %). The price: on new reader beside writers the writers are 29 % slower (22
to 37 %). On 4 workloads it does not matter: all are within 4 % of each other.

Measured: 6 workloads on a temporary loop device (rotational 0, 128 tags), this
session, 8 blocks, 8 file layouts, 96 s. Another file layout may shift it
(--sessions 4 shows it), and so may another boot.

                              none      mq-deadline   kyber  bfq
new reader beside writers     3.6 ms    same          same   46× shorter ▲
  its writers                 1.5 GB/s  same          same   29 % slower ▼
steady reader beside writers  4.9 ms    same          same   same
sequential readers, three     1.1 GB/s  same          same   same
random reads, depth 32        212 k/s   3 % slower ▼  same   11 % slower ▼
commits (database)            5.1 k/s   same          ?      same
one file, one process         1.2 GB/s  nothing to order: one request at a time
▲ better, ▼ worse, ? undecided (against none)

Why    With bfq a request of the readers took 80 µs instead of 4.3 ms: the wait
       in the device fell from 3.8 ms to 65 µs.
       With none, mq-deadline and kyber, 86 % of the waiting of the readers was
       inside the device, behind 88 requests: no scheduler can reorder those.
       Fewer requests in flight would help.
Next   schedlab apply bfq /dev/DEVICE
         if new reader beside writers matters most
       schedlab compare --resume results/x --blocks 14
         about 3 min: would show 5 %
Report results/x/report.html   Workbook results/x/report.xlsx"""


def test_the_first_screen_at_80_columns() -> None:
    files = [("Report", "results/x/report.html"), ("Workbook", "results/x/report.xlsx")]
    text = report.text(*verdicts.first_screen(), width=80, folder=Path("results/x"), reports=files)
    assert text == FIRST_SCREEN


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize("kind", ["io", "cpu", "sim", "hand"])
@pytest.mark.parametrize("width", [60, 80, 300])
def test_terminal_text_fits_its_width(
    cases: dict[str, Case], kind: str, language: str, width: int
) -> None:
    text = report.text(*cases[kind], width=width, lang=language)
    assert "\x1b" not in text and "\u00a0" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for name in ("bfq", "mq-deadline") if kind == "io" else ():
        assert name in text


def many(count: int, workloads: int = 1) -> Case:
    """So many candidates with long names, each worse than the one before."""
    names = [f"candidate number {i} with a long name" for i in range(1, count)]
    outcomes = {
        name: (1 - i / 50, 0.99 - i / 50, 1.01 - i / 50, "worse") for i, name in enumerate(names, 1)
    }
    works = [
        verdicts.of_workload(f"a workload whose label is long, number {i}", "iops", 5e4, outcomes)
        for i in range(workloads)
    ]
    loss = verdicts.fact("none", names[0], 1.02, 1.01, 1.03, "iops").values()
    headline = Headline("keep", {"baseline": "none", "next": names[0], "loss": loss, "losers": []})
    verdict = verdicts.verdict_of(headline, works)
    return verdicts.record_of(verdict), verdict


@pytest.mark.parametrize("width", [60, 80, 300])
@pytest.mark.parametrize(("count", "workloads"), [(12, 1), (12, 3), (4, 40)])
def test_many_candidates_and_long_names_do_not_break_the_table(
    count: int, workloads: int, width: int
) -> None:
    record, verdict = many(count, workloads)
    text = report.text(record, verdict, width=width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    flat = " ".join(text.split())
    shown = min(workloads, 16)
    assert flat.count("% slower ▼") == (count - 1) * shown
    for i in range(1, count):
        assert f"number {i}" in flat
    assert ("24 more workloads" in flat) == (workloads == 40)


def test_twelve_candidates_on_one_workload_are_rows() -> None:
    lines = report.text(*many(12), width=80).splitlines()
    assert sum("% slower" in line for line in lines[3:]) == 11


def test_one_request_at_a_time_leaves_nothing_to_order() -> None:
    def work(kind: str = "file-test", **parameters: object) -> Workload:
        return Workload("w", kind, "iops", parameters)

    assert nothing_to_order(work(direct=True, depth=1, workers=1))
    assert nothing_to_order(work())
    assert not nothing_to_order(work(depth=32))
    assert not nothing_to_order(work(workers=3))
    assert not nothing_to_order(work(direct=False))
    assert not nothing_to_order(work("interference", depth=1))


@pytest.mark.parametrize(
    ("kind", "parameters", "cached"),
    [
        ("file-test", {}, False),
        ("file-test", {"direct": False}, True),
        ("device-timings", {"timing": "buffered"}, True),
        ("device-timings", {"timing": "buffered", "direct": True}, False),
        ("archive-extraction", {}, True),
        ("calls", {"mode": "mmap+msync"}, True),
        ("calls", {"mode": "direct+dsync"}, False),
        ("calls", {"mode": "sync"}, True),
        ("calls", {}, True),
    ],
)
def test_memory_that_a_hypervisor_takes_back_is_named_where_it_matters(
    kind: str, parameters: dict[str, object], cached: bool
) -> None:
    record, verdict = verdicts.first_screen()
    work = dataclasses.replace(record.experiment.workloads[0], kind=kind, parameters=parameters)
    for reported in (True, False):
        changed = dataclasses.replace(
            record,
            experiment=dataclasses.replace(record.experiment, workloads=(work,)),
            host={"memory": {"free_pages_reported": reported}},
        )
        lines = notes.design(View(changed, verdict, Texts("en")))
        assert any("to its hypervisor" in line for line in lines) == (cached and reported)


def test_a_found_difference_is_shown_even_at_depth_one() -> None:
    record, verdict = verdicts.first_screen()
    label = "one file, one process"
    worse = verdicts.of_workload(
        label, "throughput_bytes_per_s", 1e9, verdicts.others(bfq=(0.9, 0.88, 0.92, "worse"))
    )
    changed = dataclasses.replace(verdict, workloads={**verdict.workloads, label: worse})
    line = next(x for x in report.text(record, changed).splitlines() if x.startswith(label))
    assert "nothing to order" not in line and "10 % slower" in line


def test_a_starved_candidate_is_named_as_such() -> None:
    record, verdict = verdicts.first_screen()
    label = "commits (database)"
    of = verdict.workloads[label]
    rows = tuple(
        dataclasses.replace(row, starved=8 if row.candidate == "bfq" else 0)
        for row in of.candidates
    )
    half = tuple(
        dataclasses.replace(row, starved=4, verdict="worse", ratio=0.05)
        if row.candidate == "bfq"
        else row
        for row in of.candidates
    )
    for candidates, remark in ((rows, "did not finish"), (half, "4 of 8 runs unfinished")):
        changed = dataclasses.replace(of, candidates=candidates)
        works = {**verdict.workloads, label: changed}
        text = report.text(record, dataclasses.replace(verdict, workloads=works), width=200)
        assert remark in text


def test_an_open_end_is_at_least() -> None:
    record, verdict = verdicts.first_screen()
    label = "commits (database)"
    outcome = (0.02, 0.01, 0.05, "worse")
    of = verdicts.of_workload(label, "iops", 5e3, verdicts.others(bfq=outcome))
    pairs = tuple(
        dataclasses.replace(p, low=None, open_end="low") if p.a == "bfq" and p.b == "none" else p
        for p in of.pairs
    )
    works = {**verdict.workloads, label: dataclasses.replace(of, pairs=pairs)}
    changed = dataclasses.replace(verdict, workloads=works)
    assert "at least 20× slower ▼" in report.text(record, changed, width=200)
    assert "at least 20×" in report.html(record, changed).replace("\u00a0", " ")


def test_colour_is_added_only_when_asked(io_case: Case) -> None:
    plain, coloured = report.text(*io_case), report.text(*io_case, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r" +$", "", re.sub(r"\x1b\[[0-9;]*m", "", coloured), flags=re.M) == plain


def test_single_runs_show_the_figures() -> None:
    record = simulation.io_record(sizes=1, blocks=1)
    verdict = simulation.judged(record)
    text = report.text(record, verdict, width=200)
    assert text.startswith("One run each. The table shows the figures;")
    assert "▲" not in text and "▼" not in text and "?" not in text
    assert len(re.findall(r"\d MB/s", text)) == (7 + 1) * 4
    assert "schedlab compare --resume DIR --blocks 6" in text
    assert "One run each" in report.html(record, verdict)


def test_the_same_headline_is_in_every_form(cases: dict[str, Case], tmp_path: Path) -> None:
    import openpyxl

    for name, (record, verdict) in cases.items():
        for language in report.LANGUAGES:
            headline = report.headline(record, verdict, language).replace("\u00a0", " ")
            text = " ".join(report.text(record, verdict, lang=language).split())
            assert text.startswith(headline)
            page = report.html(record, verdict, language)
            h1 = re.search(r'<h1 data-code="([a-z-]+)">(.*?)</h1>', page)
            assert h1 is not None and h1[1] == verdict.code
            words = re.sub("<[^>]*>", "", h1[2]).replace("\u00a0", " ")
            assert words == headline
            file = tmp_path / f"{name}-{language}.xlsx"
            report.write_xlsx(record, verdict, file, language)
            book = openpyxl.load_workbook(file)
            first = str(book.worksheets[0]["A1"].value)
            assert first.replace("\u00a0", " ") == headline
            assert book.properties.keywords == verdict.code
        assert to_json(verdict)["headline"]["code"] == verdict.code


def test_csv_has_every_pair_in_plain_numbers(io_case: Case) -> None:
    record, verdict = io_case
    rows = list(csv.DictReader(io.StringIO(report.csv(record, verdict, lang="ru"))))
    pairs = sum(len(w.pairs) for w in verdict.workloads.values())
    pairs += sum(len(w.pairs) for many in verdict.secondary.values() for w in many)
    assert len(rows) == pairs + len(verdict.overall.pairs)
    first, pair = rows[0], next(iter(verdict.workloads.values())).pairs[0]
    assert (first["a"], first["b"], float(first["ratio"])) == (pair.a, pair.b, pair.ratio)
    assert rows[-1]["workload"] == ""


def test_markdown_tables_are_whole(io_case: Case) -> None:
    text = report.markdown(*io_case)
    columns: int | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (None, count), line
        columns = count
    assert text.startswith("# It depends on the work")


def test_names_cannot_break_markdown_or_html(io_case: Case) -> None:
    record, _ = io_case
    evil = "<b>|`x`</b>"
    experiment = dataclasses.replace(record.experiment, title=evil, notes=(evil,))
    record = dataclasses.replace(record, experiment=experiment, notices=(evil,))
    verdict = simulation.judged(record)
    assert evil not in report.html(record, verdict)
    assert evil not in report.markdown(record, verdict)


def test_reproduce_script_is_a_shell_script(io_case: Case) -> None:
    record, _ = io_case
    experiment = dataclasses.replace(record.experiment, title="two\nlines; rm -rf $HOME")
    script = report.reproduce_script(dataclasses.replace(record, experiment=experiment))
    checked = subprocess.run(
        ["sh", "-n"], check=False, input=script, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert not any("rm -rf" in line for line in commands)
    assert commands[-1] == 'exec schedlab reproduce "$here" --out "$out"'


@pytest.fixture(scope="module")
def folder(io_case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result folder as an experiment leaves it."""
    record, _ = io_case
    path = tmp_path_factory.mktemp("report") / "result"
    stored = Folder.create(path, record.experiment, record.plan, record.host)
    for run in record.runs[:440]:
        stored.append(run)
    return path


def test_command_writes_page_and_workbook_beside_the_measurements(folder: Path) -> None:
    result = CliRunner().invoke(command, [str(folder)])
    assert result.exit_code == 0, result.output
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert (folder / "report.xlsx").stat().st_size > 10_000
    assert result.stdout == ""


def test_command_prints_what_is_asked(folder: Path, tmp_path: Path) -> None:
    def printed(*options: str) -> str:
        result = CliRunner().invoke(command, [str(folder), *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert printed("--markdown", "--lang", "ru").startswith("# ")
    assert printed("--csv").startswith("workload,actor,metric,")
    answer = json.loads(printed("--json", "--html", str(tmp_path / "page.html")))
    assert answer["files"] == {"html": str(tmp_path / "page.html")}
    assert answer["verdict"]["baseline"] == "none"
    assert printed("--markdown").startswith(f"# {answer['headline']}")
    assert answer["verdict"]["headline"]["code"] in ("depends", "winner", "winner-price")


def test_command_says_where_it_cannot_write(folder: Path, tmp_path: Path) -> None:
    for option in ("--html", "--xlsx"):
        result = CliRunner().invoke(command, [str(folder), option, str(tmp_path / "no" / "file")])
        assert isinstance(result.exception, SchedlabError)
        assert "no/file" in str(result.exception)
        assert result.exception.hint
    assert CliRunner().invoke(command, [str(folder), "--csv", "--json"]).exit_code == 2


def kinds_of_flags() -> set[str]:
    """Every kind of flag that the analysis can raise, from its source."""
    folder = Path(analyse.__file__).parent
    trees = [ast.parse(file.read_text("utf-8")) for file in folder.glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    flag_calls = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "Flag"]
    return {ast.literal_eval(call.args[0]) for call in flag_calls}


@pytest.mark.parametrize("language", report.LANGUAGES)
def test_every_flag_has_a_title_and_a_text_in_every_language(language: str) -> None:
    kinds = kinds_of_flags()
    assert {"unbalanced", "goal", "wrong-mean", "call-cost"} < kinds
    entries = catalogue(language)
    assert [k for k in sorted(kinds) if f"flag.{k}" not in entries] == []
    assert [k for k in sorted(kinds) if f"flag_text.{k}" not in entries] == []


SHOWN = {"better": "bfq", "worse": "none", "ratio": 1.3, "metric": "iops"}
FLAGS: tuple[tuple[Flag, str], ...] = (
    (Flag("unbalanced", "w", ("bfq",), {"runs": {"none": 5, "bfq": 4}, "most": 5}), "bfq 4"),
    (Flag("cold-first-run", "w", ("bfq",), {"difference": {"bfq": 0.82}, "unit": "s"}), "0"),
    (Flag("non-positive", "w", ("bfq",), {"metric": "iops"}), "bfq"),
    (Flag("goal", "w", (), {"goal": "latency", "metric": "latency_ns_p99",
                            "frozen_metric": "iops"}), "p99"),
    (Flag("goal-not-measured", "w", (), {"goal": "fairness", "metric": "iops",
                                         "apart": True}), ""),
    (Flag("no-baseline", "", ("none",), {"used": "bfq", "reason": "io errors"}), "io errors"),
    (Flag("lacks-workload", "", ("bfq",), {"workloads": ["read", "write"]}), "read"),
    (Flag("only-one", "w", ("bfq",)), "bfq"),
    (Flag("single-run", "w", ("bfq",), {"runs": {"bfq": 1}}), "bfq"),
    (Flag("insensitive", "w", (), {"cpu_share": 0.93}), "93"),
    (Flag("missing-cells", "w", (), {"cells": 3, "filled": {"bfq": 2, "none": 1}}), "bfq 2"),
    (Flag("left-out", "w", ("bfq",), {"cells": 5, "of": 8}), "5"),
    (Flag("two-levels", "w", ("bfq",), {"low": 210.0, "high": 21e3}), "210"),
    (Flag("starved", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": 8}), "bfq 4"),
    (Flag("aa-differs", "w", (), {"ratio": 1.05, "low": 1.03, "high": 1.08, "far": 0.08}), "8"),
    (Flag("control-open", "w", (), {"reach": 0.079, "margin": 0.02, "unbounded": False}), "7"),
    (Flag("control-open", "w", (), {"reach": 3.0, "margin": 0.02, "unbounded": True}), "4"),
    (Flag("drift", "w", (), {"change": -0.046, "p": 0.001}), "−4"),
    (Flag("change-point", "w", (), {"block": 5, "change": 0.2}), "5"),
    (Flag("outlier", "w", ("bfq",), {"block": 3, "factor": 0.02, "run": 17, "session": ""}), "50"),
    (Flag("rare-stalls", "w", ("bfq",), {"runs": 2, "of": 8, "factor": 30.0}), "30"),
    (Flag("two-modes", "w", ("bfq",), {"low": 50e3, "high": 3e6, "share_low": 0.5,
                                       "share_high": 0.5}), "50"),
    (Flag("uneven-noise", "w", ("bfq", "none"), {"ratio": 6.2, "noisiest": "bfq",
                                                 "quietest": "none", "p": 0.001}), "6"),
    (Flag("unsteady", "w", (), {"autocorrelation": 0.6, "phi": 0.5, "widening": 2.3}), "2"),
    (Flag("candidate-time", "w", ("bfq", "none"),
          {"slopes": {"bfq": 0.1, "none": 0.0}, "p": 0.001, "changes_sign": False,
           "early": {**SHOWN}, "late": {**SHOWN, "ratio": 1.1}}), "30"),
    (Flag("carry-over", "w", ("bfq",), {"effects": {"bfq": -0.105}, "p": 0.001,
                                        "adjusted": [["bfq", "none", 0.1, 0.01]]}), "10"),
    (Flag("steady-assumed", "w", (), {"blocks": 6}), "6"),
    (Flag("gates-unbalanced", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": {"bfq": 8},
                                              "p": 0.001}), "bfq 4"),
    (Flag("not-steady", "w", ("bfq",), {"runs": 3}), "3"),
    (Flag("unsettled", "w", ("bfq",), {"runs": 3}), "3"),
    (Flag("sessions-disagree", "w", ("bfq", "none"), {"ratios": {"1": 0.8, "2": 1.3},
                                                      "p": 0.01}), "1"),
    (Flag("extension", "", (), {"error": 0.075, "first_blocks": 8}), "8"),
    (Flag("wrong-mean", "w", ("bfq",),
          {"published": 194.092, "mean": 197.092, "rows": 5, "difference": -0.015,
           "unit": "MB/s"}), "194"),
    (Flag("wrong-mean", "w", ("bfq",), {"published": 1.5, "unit": "s", "rowless": True}), "s"),
    (Flag("call-cost", "w", (), {"seconds_per_call": 8e-3, "constant_s": 0.2,
                                 "explained": 0.99}), "8"),
)  # fmt: skip


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize(("flag", "shown"), FLAGS, ids=[flag.kind for flag, _ in FLAGS])
def test_flag_sentences_have_their_values(language: str, flag: Flag, shown: str) -> None:
    text = notes.flag_text(View(*verdicts.first_screen(), Texts(language)), flag)
    assert text and "{" not in text and "None" not in text
    assert shown in text.replace("\u00a0", " ")


def test_an_unknown_flag_is_named_rather_than_lost() -> None:
    view = View(*verdicts.first_screen(), Texts("en"))
    flag = Flag("meteor-strike", "w", ("bfq",))
    assert notes.flag_title(view, flag) == "meteor strike"
    assert notes.flag_text(view, flag) == "bfq"


def test_a_run_that_served_99_of_100_is_not_said_to_have_served_nothing() -> None:
    flag = Flag("starved", "w", ("bfq",), {"counts": {"bfq": 4}, "runs": 8})
    view = View(*verdicts.first_screen(), Texts("en"))
    assert notes.flag_title(view, flag) == "unfinished runs"
    assert notes.flag_text(view, flag).startswith(
        "runs in which not all requests were served in time, or too few for this figure"
    )
