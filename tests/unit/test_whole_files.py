"""All that is read of files and written to them, of three or more of everything: no two figures,
names or orders in them are alike, so that a line which forgets the second one, or takes the last or
the largest for all, changes what is shown. The files are in tests/data/whole."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from experiments import experiment, run_of
from imports import lines_of

from schedlab import _core
from schedlab.app.live import recommend
from schedlab.errors import SpecError
from schedlab.kinds import fio_files
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.fio_processes import processes_of_job
from schedlab.nouns import Candidate, Cell, Plan, Record, Workload, to_json
from schedlab.nouns.capture import BlockSeen, explanations
from schedlab.nouns.foreign import explained
from schedlab.nouns.load_result import GroupResult
from schedlab.report.view import flatten
from schedlab.run.live import live_figures
from schedlab.store.exporters import fio as exported_fio
from schedlab.store.exporters import iozone as exported_iozone
from schedlab.store.importers import IMPORTERS
from schedlab.store.importers import time as times
from schedlab.store.importers.imported import Options

WHOLE = Path(__file__).parents[1] / "data" / "whole"
IMPORTED = ("dmesg", "fio", "hackbench", "hdparm", "iostat", "iozone", "pgbench", "sched",
            "schbench", "sysbench", "time")  # fmt: skip


def flat(value):
    return [f"{key} = {text}" for key, text in flatten(to_json(value)) if text not in ("", None)]


def result_of(call, *arguments):
    """What a call returns in lines, or its complaint."""
    try:
        made = call(*arguments)
    except SpecError as error:
        return [f"error: {error}", f"hint: {error.hint}"]
    return [f"{key}: {each}" for key, each in made.items()] if isinstance(made, dict) else [
        str(each) for each in made]  # fmt: skip


@pytest.mark.parametrize("name", IMPORTED)
def test_a_result_of_another_program_is_read_whole(name, golden):
    """Files are called NUMBER-CANDIDATE.* in the order in which they are typed."""
    files = [(file.stem.partition("-")[2], file) for file in sorted((WHOLE / name).iterdir())]
    more = {"workload": times.WORKLOAD} if name == "time" else {}
    read = partial(IMPORTERS[name].read, options=Options(notes=("of the user", "too")), **more)
    text = "\n".join(lines_of(read(files)))
    golden(f"whole/import-{name}.txt", text.replace(f"{WHOLE}/", ""))


def test_what_fio_says_of_a_run_is_read_whole(golden):
    text = (WHOLE / "fio" / "2-bfq.json").read_bytes()
    values, bounds = FioJob().values_of(text)
    said = [f"{name}: {value} {bounds.get(name, '')}" for name, value in values.items()]
    golden("whole/fio-run.txt", "\n".join([*said, f"moved {FioJob().claimed_bytes(text)}"]))
    assert {*bounds} <= {*values}


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
@pytest.mark.parametrize("name", ["shares", "groups", "files", "names"])
def test_a_job_file_is_read_whole(name, golden, tmp_path):
    for file in (WHOLE / "jobs").iterdir():
        shutil.copy(file, tmp_path)
    kind = FioJob(job_file=str(tmp_path / f"{name}.fio"))
    read = kind.read()
    said = [f"{kind.estimate_s():g} s, {read.digest()}", *map(str, read.files), *kind.programs()]
    said += [f"{job}: {ways}" for job, ways in kind.jobs().items()]
    for job in read.jobs:
        said += [f"[{job.section}] {pattern} {is_data}"
                 for pattern, is_data in fio_files._patterns(job)]  # fmt: skip
    for file in read.files[1:]:
        home = tmp_path / f"beside {file.name}"
        home.mkdir()
        (home / file.name).touch()
        said += result_of(lambda home=home: fio_files.check_includes("w", read, home) or ["none"])
    said += result_of(lambda: processes_of_job(tmp_path / f"{name}.fio")(100 << 20))
    golden(f"whole/jobs-{name}.txt", "\n".join(said).replace(f"{tmp_path}/", ""))


TESTS = (("write", 8192), ("mixed", 4096), ("random-read", 8192), ("write", 4096))


def results():
    """Tests by size, and two that have one name as files, of three candidates that differ in all
    that they reached; each in three runs, of which one does not count."""
    works = tuple(Workload(f"{test} {size}", "file-test", "throughput_bytes_per_s",
                           {"test": test, "record_bytes": size, "span_bytes": (5 - at) << 20,
                            "depth": 1 + at % 3})
                  for at, (test, size) in enumerate(TESTS))  # fmt: skip
    same = {"test": "read", "record_bytes": 4096, "span_bytes": 7 << 20}
    works += tuple(Workload(label, "file-test", "throughput_bytes_per_s", same)
                   for label in ("a b", "a/b"))  # fmt: skip
    arms, runs, rows = (Candidate("none"), Candidate("bfq"), Candidate("mq deadline")), [], {}
    for at, work in enumerate(works):
        for number, arm in enumerate(arms):
            for block, factor in enumerate((3, 1, 5) if at or number < 2 else ()):
                rate = 1000.0 * (7 * at + 3 * number + factor) * (2 - block % 2)
                metrics = {"throughput_bytes_per_s": rate, "iops": rate / (50 + at),
                           "elapsed_s": 1.0 + block}  # fmt: skip
                if at % 3 == 1:
                    metrics |= {"read_bytes_per_s": rate / 4, "write_bytes_per_s": rate * (3 - at)}
                cell = Cell(block, number, work.label, arm.label, 1)
                facts = {"usr_cpu": 0.1 * (block + at), "sys_cpu": 0.3 * (1 + number)}
                status = "ok" if block < 2 or number else "discarded"
                runs.append(run_of(cell, metrics, status=status, properties=facts))
            lows = (64, 80, 90, 1024 << at, 1500 << at, 5 * 10**6, 3 * 10**9)
            rows[work.label, arm.label] = tuple(
                (low, low + low // 64, 1 + (at + number * k) % 5) for k, low in enumerate(lows)
            )
    asked = experiment(candidates=arms, workloads=works, aa_arm=False)
    record = Record(asked, Plan(()), tuple(runs), histograms=rows)
    return record, {(w.label, arm.label): w.parameters for w in works for arm in arms}


@pytest.mark.parametrize("form", [exported_fio, exported_iozone])
def test_a_result_is_written_whole_for_other_programs(form, golden, tmp_path):
    record, parameters = results()
    if form is exported_iozone:  # a candidate has one figure for a place
        runs = tuple(run for run in record.runs
                     if run.workload != ("a b" if run.candidate == "none" else "a/b"))  # fmt: skip
        record = replace(record, runs=runs)
    said = []
    for path in form.write(record, parameters, tmp_path):
        text = path.read_text()
        lines = flat(json.loads(text)) if path.suffix == ".json" else text.splitlines()
        said += [f"== {path.relative_to(tmp_path)}",
                 *(line for line in lines if not line.endswith(("= 0", "= 0.0")))]  # fmt: skip
    golden(f"whole/export-{form.__name__.rpartition('.')[2]}.txt", "\n".join(said))


def test_a_foreign_file_is_named_by_the_first_that_is_known(tmp_path):
    """The complaint of a reader stays where a file is its own, or cannot be looked at."""
    texts = {
        "plain": "x",
        "dd": "1+0 records in",
        "fio": '{"fio version": 3}',
        "ycsb": "[OVERALL], RunTime(ms)",
    }
    files = {name: tmp_path / name for name in (*texts, "gone")}
    for name, text in texts.items():
        files[name].write_text(text)
    error = SpecError("it is wrong", "a hint")

    def said(*names, reader=""):
        return explained(error, [files[name] for name in names], reader)

    for first in ("dd", "ycsb"):
        others = [name for name in ("ycsb", "dd") if name != first]
        assert f"{files[first]}: is a result of " in str(said("plain", first, *others))
    assert said("plain", "gone", "dd") is said("fio", "dd", reader="fio") is error
    assert said("plain", "plain") is error
    assert str(files["fio"]) in str(said("plain", "fio", "dd", reader="iozone"))


def captures():
    return [msgspec.json.decode(file.read_bytes(), type=BlockSeen)
            for file in sorted((WHOLE / "captures").glob("?-*.json"))]  # fmt: skip


def test_captures_are_explained_whole(golden):
    engine = msgspec.json.decode((WHOLE / "captures" / "engine.json").read_bytes(),
                                 type=list[GroupResult])  # fmt: skip
    said = [line for number, capture in enumerate(captures())
            for one in explanations(capture, engine, lead_s=0.05 * number)
            for line in [f"== {capture['device']}", *flat(one)]]  # fmt: skip
    golden("whole/explanations.txt", "\n".join(said))


def test_a_load_is_observed_whole(golden, tmp_path, monkeypatch):
    """Three queues, of which the second has one scheduler less and the third another one less."""
    monkeypatch.chdir(tmp_path)
    files = {f"/dev/{one['device']}": msgspec.json.encode(one) for one in captures()}
    offered = {"sda": ("bfq", "none", "kyber", "mq-deadline"),
               "sdb": ("none", "kyber", "mq-deadline"),
               "sdc": ("mq-deadline", "none", "bfq")}  # fmt: skip
    monkeypatch.setattr(_core, "BlockCapture", lambda text: SimpleNamespace(
        finish=lambda: files[json.loads(text)["device"]]))  # fmt: skip
    below = SimpleNamespace(queues=tuple(offered))
    monkeypatch.setattr(recommend, "queues_below", lambda path: below)
    monkeypatch.setattr(recommend, "driver_tags", {"sda": 0, "sdb": 31, "sdc": 64}.get)
    monkeypatch.setattr(recommend.knobs, "offered", offered.get)
    monkeypatch.setattr(recommend.processes, "control_group_of", lambda pid: f"/{pid % 5}")
    load = recommend.observe(Path("/srv"), 0.0, lambda _: None)
    figures = replace(load.figures, at_s=10.0)
    assert figures - live_figures.Look() == figures
    load, queues = replace(load, figures=replace(figures, gap_sectors=0)), load.queues
    Path("sda.toml").write_text("x = 1\n[fit]\n")
    said = []
    for each in (load, replace(load, queues=queues[::2]), replace(load, queues=queues[2:]),
                 replace(load, figures=figures), replace(load, queues=queues[:1])):  # fmt: skip
        said += [f"== {each.code}", *recommend.lines(each)]
    said += [*flat(recommend.as_json(load)), *flat(replace(figures, flows={}))]
    golden("whole/observed.txt", "\n".join(said))
