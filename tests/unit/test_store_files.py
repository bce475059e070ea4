"""Files of a result folder one by one: durable, never outside; damage costs only itself."""

import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import experiments
import pytest
from experiments import experiment

from schedlab.design.plan import make_plan
from schedlab.errors import HostError, SpecError
from schedlab.nouns import (
    Explanation,
    Planning,
    Record,
    Stopping,
    Workload,
)
from schedlab.nouns.checked_line import decode, encode
from schedlab.store.files import (
    DEPTH_MAX,
    append_line,
    cut_torn_line,
    make_beneath,
    read_beneath,
    write_atomic,
)
from schedlab.store.folder import PLANNING, Folder
from schedlab.store.lines import LineFile
from schedlab.store.table import samples


def experiment_of(**stopping):
    works = tuple(
        Workload(name, "file-test", "iops", {"record_bytes": 4096}, ("elapsed_s",))
        for name in ("w", "v")
    )
    stop = Stopping(**{"blocks": 2, **stopping})
    return experiment(workloads=works, stopping=stop, aa_arm=False)


def folder_of(path, **stopping):
    experiment = experiment_of(**stopping)
    return Folder.create(path, experiment, make_plan(experiment), {})


def run_of(cell, **changes):
    return experiments.run_of(cell, **{"metrics": {"iops": 1.0, "elapsed_s": 2.0}, **changes})


def system_calls(tmp_path, program):
    """The calls that change files, in their order, with what they were about."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace to see the system calls")
    log = tmp_path / "strace"
    calls = "write,pwrite64,fsync,rename,renameat,renameat2,fchmod,ftruncate"
    command = ["strace", "-y", "-qq", "-o", str(log), "-e", f"trace={calls}", sys.executable, "-c"]
    subprocess.run([*command, program], check=True, cwd=tmp_path)
    matches = re.findall(r"^(\w+)\((?:\d+<([^>]*)>)?", log.read_text(), re.MULTILINE)
    return [(name, path) for name, path in matches if not path or str(tmp_path) in path]


def test_a_replaced_file_is_on_the_disk_before_its_name_is(tmp_path):
    calls = system_calls(
        tmp_path,
        "from pathlib import Path; from schedlab.store.files import write_atomic\n"
        "write_atomic(Path('report'), 'x')",
    )
    assert [re.sub(r"at2?$", "", name) for name, _ in calls] == [
        "write", "fchmod", "fsync", "rename", "fsync",
    ]  # fmt: skip
    assert calls[-1][1] == str(tmp_path)


def test_a_line_is_on_the_disk_and_the_name_of_a_new_file_too(tmp_path):
    calls = system_calls(
        tmp_path,
        "from pathlib import Path; from schedlab.store.lines import LineFile\n"
        "[LineFile(Path('lines')).append({'cell': i}) for i in range(2)]",
    )
    lines = str(tmp_path / "lines")
    first = [("write", lines), ("fsync", lines)]
    assert calls == [*first, ("fsync", str(tmp_path)), *first]


def test_a_new_folder_names_its_experiment_last_and_durably(tmp_path):
    """A kill before it leaves no folder that looks complete."""
    calls = system_calls(
        tmp_path,
        f"import sys; sys.path[:0] = {[path for path in sys.path if '/tests/' in path]!r}\n"
        "from pathlib import Path; from test_store_files import folder_of\n"
        "folder_of(Path('out'))",
    )
    files = [Path(path).name for name, path in calls if name == "fsync"]
    files = [name[1:].rpartition(".")[0] for name in files if name.startswith(".")]
    assert files == ["host.json", "plan.jsonl", "runs.jsonl", "experiment.toml"]
    assert calls[-1] == ("fsync", str(tmp_path))


def test_a_written_file_has_its_mode_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomic(tmp_path / "report.html", "x")
        write_atomic(tmp_path / "run.sh", b"x", mode=0o755)
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("report.html", "run.sh")]
    assert modes == [0o644, 0o755]


def test_a_name_of_any_legal_length_can_be_replaced(tmp_path):
    path = tmp_path / ("x" * 255)
    write_atomic(path, "x")
    write_atomic(path, "y")
    assert path.read_text() == "y"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("tail", [1, 65535, 65536, 65537, 200_000])
@pytest.mark.parametrize("whole", [b"", b"a\n", b"a\nbc\n"])
def test_a_torn_line_of_any_length_is_cut_off_and_no_more(tmp_path, whole, tail):
    file = tmp_path / "lines"
    file.write_bytes(whole + b"x" * tail)
    handle = os.open(file, os.O_RDWR)
    try:
        assert cut_torn_line(handle) == len(whole)
        assert cut_torn_line(handle) == len(whole)
    finally:
        os.close(handle)
    assert file.read_bytes() == whole


def test_only_plain_files_up_to_the_limit_are_read(tmp_path):
    deepest = "/".join(["d"] * (DEPTH_MAX - 1))
    (tmp_path / deepest).mkdir(parents=True)
    (tmp_path / deepest / "f").write_bytes(b"12345")
    assert read_beneath(tmp_path, f"{deepest}/f", 5) == b"12345"
    with pytest.raises(SpecError, match="it has 5 bytes, more than 4"):
        read_beneath(tmp_path, f"{deepest}/f", 4)
    with pytest.raises(SpecError, match=f"is more than {DEPTH_MAX} levels deep"):
        read_beneath(tmp_path, f"{deepest}/d/f")
    with pytest.raises(FileNotFoundError):
        read_beneath(tmp_path, f"{deepest}/missing")
    with pytest.raises(FileNotFoundError):
        read_beneath(tmp_path, "missing/f")
    (tmp_path / "link").symlink_to(tmp_path / deepest / "f")
    (tmp_path / "folder").symlink_to(tmp_path / "d")
    os.mkfifo(tmp_path / "fifo")
    for odd in ("link", "fifo", "d"):
        with pytest.raises(SpecError, match="is a link or no regular file") as caught:
            read_beneath(tmp_path, odd)
        assert caught.value.hint == f"rm {tmp_path / odd}"
    for name in ("folder/d/d/f", "link/f"):
        with pytest.raises(SpecError, match="refusing to follow") as caught:
            read_beneath(tmp_path, name)
    for name in ("", "/etc/passwd", "..", "d/../../x", "\0"):
        with pytest.raises(SpecError, match="leads out of the folder"):
            read_beneath(tmp_path, name)


def test_folders_below_are_made_but_not_through_a_link_or_a_file(tmp_path):
    assert make_beneath(tmp_path, "a/b") == make_beneath(tmp_path, "a/b") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("file", "link"):
        with pytest.raises(SpecError, match="is not a directory") as caught:
            make_beneath(tmp_path, name)
        assert caught.value.hint == f"rm {tmp_path / name}"
    with pytest.raises(SpecError):
        make_beneath(tmp_path, "link/new")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b"]


def test_no_descriptor_is_left_open_by_an_error(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_text("x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("d/file/x", "d/missing/x", "d/missing", "d/d/d/d/d", "d"):
        with pytest.raises((SpecError, OSError)):
            read_beneath(tmp_path, name)
        with pytest.raises((SpecError, HostError)):
            write_atomic(tmp_path / name / "x" / "y", "x", within=tmp_path)
    append_line(tmp_path / "lines", "x")
    assert not LineFile(tmp_path / "lines").repair()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_cannot_be_written_says_why_and_what_to_do(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="cannot append to") as caught:
        append_line(tmp_path / "link", "x")
    assert caught.value.hint == f"{tmp_path}/link is a symbolic link; rm {tmp_path}/link"
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(HostError, match=r"cannot write .*No such file") as caught:
        write_atomic(tmp_path / "gone" / "x", "x")
    assert caught.value.hint == f"{tmp_path}/gone was deleted or moved; name another folder"
    (tmp_path / "file").write_text("x")
    with pytest.raises(HostError, match="Not a directory") as caught:
        write_atomic(tmp_path / "file" / "x", "x")
    assert caught.value.hint == f"ls -ld {tmp_path}/file"
    with pytest.raises(SpecError, match="is not inside"):
        write_atomic(tmp_path / "x", "x", within=tmp_path / "other")


def test_lines_of_another_version_and_files_that_are_none_are_refused(tmp_path):
    lines = LineFile(tmp_path / "lines", schema=2)
    assert not lines.repair()
    assert lines.read() == []
    LineFile(lines.path, schema=1).append({"cell": 1})
    with pytest.raises(SpecError, match="line 1: schema 1, but this version reads 2"):
        lines.read()
    (tmp_path / "file").write_text("x")
    with pytest.raises(SpecError, match="Not a directory"):
        LineFile(tmp_path / "file" / "lines").read()
    below = LineFile(tmp_path / "file" / "lines", within=tmp_path)
    with pytest.raises(SpecError, match="refusing to follow"):
        below.append({})


def test_an_explained_and_planned_folder_comes_back_whole(tmp_path):
    folder = folder_of(tmp_path / "r")
    assert folder.planning is None
    planning = Planning(blocks=4, omitted={"v": "too-long"}, bound=0.1)
    folder.write_planning(planning)
    place = tmp_path / "r" / PLANNING
    older = decode(place.read_bytes().removesuffix(b"\n"))
    place.write_text(encode(older | {"mdd": 0.1, "first_blocks": 3}) + "\n")
    capture = folder.write_capture(7, {"requests": [1]})
    assert capture == "raw/capture-07.json"
    group = Explanation("w", 1.0, 2.0, 3.0)
    row = {"workload": "w", "candidate": "none", "capture": capture, "groups": [group]}
    folder.write_explanations([row])
    (tmp_path / "r" / "figures").mkdir()
    (tmp_path / "r" / "figures" / "b.svg").write_text("<svg>b</svg>")
    (tmp_path / "r" / "figures" / "a.svg").write_text("<svg>a</svg>")
    (tmp_path / "r" / "figures" / "c.svg").symlink_to("a.svg")
    record = folder.record()
    assert record.planning == planning
    assert record.explanations == {("w", "none"): (group,)}
    assert record.figures == ("<svg>a</svg>", "<svg>b</svg>")
    assert any("the figure 'c.svg' is left out" in notice for notice in record.notices)
    folder.write_explanations([{**row, "groups": [{"group": 3}]}])
    record = folder.record()
    assert record.explanations == {}
    assert any("explanations.json is damaged" in notice for notice in record.notices)
    file = tmp_path / "r" / "planning.json"
    file.write_bytes(file.read_bytes().replace(b"0.1", b"0.2"))
    with pytest.raises(SpecError, match=r"planning\.json") as caught:
        folder.record()
    assert caught.value.hint == "restore the file from a copy"


@pytest.mark.parametrize("name", ["plan.jsonl", "runs.jsonl", "planning.json", "host.json"])
def test_a_directory_in_place_of_a_file_is_reported_with_its_name(tmp_path, name):
    folder = folder_of(tmp_path / "r")
    (tmp_path / "r" / name).unlink(missing_ok=True)
    (tmp_path / "r" / name).mkdir()
    if name == "host.json":
        assert any(name in notice for notice in folder.record().notices)
    else:
        with pytest.raises(SpecError, match=f"{name}: is a link or no regular file"):
            folder.record()


def test_the_bulk_of_a_run_is_kept_by_name(tmp_path):
    folder = folder_of(tmp_path / "r")
    cell = folder.plan.cells[0]
    bulk = {"series reads": [[0, 5, 100, 1], [100, 7, 100, 1]], "latency_ns": [[1, 2, 3]]}
    folder.append(run_of(cell, properties={"measured_from_s": 0.1}), bulk)
    folder.append(run_of(cell, attempt=2, status="discarded"), {"latency_ns": [[1, 2, 40]]})
    (run, discarded) = folder.runs()
    assert run.raw == dict.fromkeys(bulk, "0000-0000-1.json")
    assert folder.raw_of(run) == bulk
    assert folder.raw_of(replace(run, raw={"other": "0000-0000-1.json"})) == {}
    assert folder.raw_of(replace(run, raw={"latency_ns": "gone"})) == {}
    hostile = {**bulk, "latency_ns": float("nan"), "x": {"0": 1}}
    (tmp_path / "r/raw/hostile.json").write_text(encode(hostile) + "\n")
    named = replace(run, raw=dict.fromkeys(hostile, "hostile.json"))
    assert folder.raw_of(named) == {"series reads": bulk["series reads"]}
    folder.append(run_of(folder.plan.cells[1]), {"burst_ns": [[5, 5, 1]]})  # is no latency
    record = folder.record()
    assert record.histograms == {(cell.workload, cell.candidate): ((1, 2, 3),)}
    ((series,),) = record.series.values()
    assert (series.group, series.unit, series.bin_s) == ("reads", "1/s", 0.1)
    assert series.values == pytest.approx((50.0, 70.0))
    assert series.measured_from_s == 0.1
    folder.keep_output(discarded, {"std/out": b"a\xff"})
    (kept,) = (tmp_path / "r" / "raw" / "output").iterdir()
    assert kept.read_text() == "a\ufffd"
    assert kept.name == "0000-0000-2.std_out"


@pytest.mark.parametrize(
    "rows", [None, [3], [[1, 2]], [[1, 2, -1]], [[2, 1, 1]], [[1, 2, True]], [[1, 2.0, 1]]]
)
def test_rows_that_are_no_histogram_cost_only_themselves(tmp_path, rows):
    folder = folder_of(tmp_path / "r")
    first, second = folder.plan.cells[:2]
    folder.append(run_of(first), {"latency_ns": [[2, 2, 0]], "other": [[1, 1, 1]]})
    folder.append(replace(run_of(second), raw={"latency_ns": "bad.json"}))
    (tmp_path / "r" / "raw" / "bad.json").write_text(encode({"latency_ns": rows}))
    record = folder.record()
    assert record.histograms == {(first.workload, first.candidate): ((2, 2, 0),)}
    (notice,) = [n for n in record.notices if "is left out" in n]
    assert "'bad.json'" in notice
    assert len(record.analysed_runs) == 2


@pytest.mark.parametrize(
    ("stopping", "missing"),
    [
        ({}, (5, 8)),
        ({"budget_s": 60.0}, (1, 4)),
        ({"mode": "precision", "precision": 0.1}, (1, 4)),
        ({"mode": "until-decided"}, (1, 4)),
    ],
)
def test_blocks_that_never_started_are_missing_only_from_a_fixed_plan(tmp_path, stopping, missing):
    folder = folder_of(tmp_path / "r", **stopping)
    for cell in [cell for cell in folder.plan.cells if cell.block == 0][:3]:
        folder.append(run_of(cell))
    assert folder.record().missing == missing


def test_a_cell_whose_runs_all_failed_a_gate_is_missing(tmp_path):
    folder = folder_of(tmp_path / "r")
    first, *others = folder.plan.cells
    for attempt in (1, 2, 3):
        folder.append(run_of(first, attempt=attempt, status="discarded"))
    for cell in others:
        folder.append(run_of(cell))
    assert folder.record().missing == (1, 8)
    assert folder.record().missing_cells == (first.key,)


def test_a_workload_that_was_decided_before_the_others_is_not_missing(tmp_path):
    for mode, missing in (
        ("until-decided", (0, 6)),
        ("precision", (2, 8)),
    ):
        folder = folder_of(tmp_path / mode, mode=mode, precision=0.1)
        for cell in folder.plan.cells:
            if cell.block == 0 or cell.workload == "w":
                folder.append(run_of(cell))
        assert folder.record().missing == missing


def test_samples_hold_what_the_runs_say_of_themselves():
    experiment = experiment_of()
    plan = make_plan(experiment)
    facts = {"cpu_share": 0.25, "window_s": 3.0}
    runs = [
        run_of(cell, properties=facts, bounds={"iops": "at-most"}, session="s")
        for cell in plan.cells
        if cell.workload == "w"
    ]
    again = replace(runs[0], status="discarded", metrics={"iops": 99.0})
    strange = run_of(plan.cells[0], workload="v", metrics={"iops": 4.0}, bounds={"iops": "maybe"})
    lacking = replace(strange, candidate="bfq", metrics={"iops": math.nan, "elapsed_s": 1.0})
    record = Record(experiment, plan, (again, *runs, strange, lacking))
    primary, secondary = samples(record, {("w", "elapsed_s"): "writers"})
    w, v = primary
    assert (w.values, w.sessions, w.bounds) == ((1.0,) * 4, ("s",) * 4, ("at-most",) * 4)
    assert (w.cpu_share, w.actor) == ((0.25,) * 4, "")
    assert w.repeated == {runs[0].candidate: 1}
    assert w.kept == {"none": 2, "bfq": 2}
    assert (v.values, v.bounds) == ((4.0,), ("",))
    assert math.isnan(v.cpu_share[0])
    assert (v.repeated, v.kept) == ({}, {strange.candidate: 1, "bfq": 1})
    # Of v, one run gave no time: it is not compared by it.
    assert [(s.workload, s.metric.name, s.actor) for s in secondary] == [
        ("w", "elapsed_s", "writers")
    ]
    assert secondary[0].bounds == ("",) * 4
    omitted = replace(record, planning=Planning(blocks=2, omitted={"w": "too-long"}))
    assert [s.workload for s in samples(omitted)[0]] == ["v"]
    assert samples(replace(record, runs=())) == ([], [])
