"""Result folders: complete, durable, readable after a kill."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import experiments
import pytest
from experiments import experiment

from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import HostError, SpecError
from schedlab.nouns import Cell, GateFinding, Record, Stopping, Workload
from schedlab.nouns.checked_line import encode
from schedlab.result import Result
from schedlab.store.files import write_atomic
from schedlab.store.folder import Folder
from schedlab.store.lines import LineFile
from schedlab.store.table import samples


@pytest.fixture
def ram():
    """A directory in RAM where there is one: thousands of fsyncs need not wait for a disk."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def folder(ram):
    work = Workload("w", "file-test", "iops", {"record_bytes": 4096}, ("elapsed_s",))
    candidates = parse_candidates("none,bfq:low_latency=0")
    asked = experiment(candidates=candidates, workloads=(work,))
    return Folder.create(ram / "r", asked, make_plan(asked), {"kernel": "x"})


def run_of(cell, value=1.0, status="ok", attempt=1):
    gates = (GateFinding("knob-changed", "scheduler"),) if status == "discarded" else ()
    figures = {"iops": value, "elapsed_s": 2.0}
    return experiments.run_of(cell, figures, status=status, attempt=attempt, gates=gates)


def test_everything_survives_the_disk(folder):
    again = Folder.open(folder.path)
    assert again.experiment == folder.experiment
    assert again.plan == make_plan(folder.experiment)
    assert again.host == {"kernel": "x"}
    for i, cell in enumerate(again.plan.cells):
        again.append(run_of(cell, i + 1.0), {"latency_ns": [[1, 2, 3], [4, 5, 1]]})
    record = again.record()
    assert len(record.runs) == 9
    assert record.notices == () and not record.missing[0]
    assert record.histograms["w", "none"] == ((1, 2, 9), (4, 5, 3))
    primary, secondary = samples(record)
    assert len(primary[0].values) == 9
    # Each run with the candidate that was measured just before it.
    assert primary[0].before == ("", *(cell.candidate for cell in again.plan.cells[:-1]))
    later = [replace(run, session="later" if at >= 4 else "") for at, run in enumerate(record.runs)]
    before = replace(record, runs=tuple(later)).before
    assert [key for key, label in before.items() if not label] == [later[0].key, later[4].key]
    assert secondary[0].metric.name == "elapsed_s"


def test_a_folder_in_use_is_not_overwritten(folder):
    with pytest.raises(SpecError, match="is not empty") as caught:
        Folder.create(folder.path, folder.experiment, folder.plan, {})
    # Said by commands that have no --resume, too.
    assert caught.value.hint.endswith(f"schedlab run --resume {folder.path}")


def test_a_torn_last_line_is_left_out_and_mended(folder):
    folder.append(run_of(folder.plan.cells[0]))
    file = folder.path / "runs.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    assert len(folder.runs()) == 1
    assert folder.repair()
    assert file.read_bytes() == whole
    assert not folder.repair()


def test_a_damaged_line_is_named(folder):
    folder.append(run_of(folder.plan.cells[0]))
    file = folder.path / "runs.jsonl"
    file.write_bytes(b"\x00garbage\n" + file.read_bytes())
    with pytest.raises(
        SpecError, match=r"runs\.jsonl, line 1: damaged: it has no checksum"
    ) as caught:
        folder.runs()
    assert "sed -i 1d" in caught.value.hint
    file.write_text(json.dumps({"block": "x"}) + "\n")
    with pytest.raises(SpecError, match=r"runs\.jsonl, line 1"):
        folder.runs()


def test_runs_that_all_failed_a_check_are_an_error_that_says_which(folder):
    with pytest.raises(SpecError, match="nothing to analyse"):
        _ = Result(folder).answer
    for cell in folder.plan.cells[:2]:
        folder.append(run_of(cell, status="discarded"))
    for ask in (lambda result: result.answer, lambda result: result.decision()):
        with pytest.raises(SpecError, match=r"none of the 2 runs can be used: scheduler$") as error:
            ask(Result(folder))
        assert "measure again" in error.value.hint


def test_runs_without_their_metric_are_an_error_that_says_so(folder):
    for cell in folder.plan.cells[:2]:
        folder.append(replace(run_of(cell), metrics={"elapsed_s": 1.0}))
    with pytest.raises(SpecError, match=r"used: they have no value of their metric$"):
        _ = Result(folder).answer


@pytest.mark.parametrize(
    ("failed", "used"), [(("none", "none (A/A)"), "bfq:low_latency=0"), (("none",), "none (A/A)")]
)
def test_a_baseline_without_a_run_costs_only_itself(folder, failed, used):
    """Every figure is against the A/A arm, which has its settings, else the first that has runs."""
    for cell in folder.plan.cells:
        for attempt in (1, 2, 3) if cell.candidate in failed else (1,):
            status = "discarded" if cell.candidate in failed else "ok"
            value = 2.0 if cell.candidate.startswith("bfq") else 1.0
            folder.append(run_of(cell, value, status=status, attempt=attempt))
    result = Result(folder)
    assert result.answer.base == used and result.decision().reason
    assert set(result.answer.cells["w"]) == {"bfq:low_latency=0", used}
    flag = result.answer.flags[0]
    assert (flag.kind, flag.candidates) == ("no-baseline", ("none",))
    assert flag.values == {"used": used, "reason": "scheduler"}
    text = " ".join(result.text().split())
    assert (
        f"none: not one of its runs can be used (scheduler). The others are compared with {used}"
        in (text)
    )
    assert result.write_reports()


def test_no_folder_there(tmp_path):
    with pytest.raises(SpecError, match="is not a result folder"):
        Folder.open(tmp_path)


def filled(folder, count=9):
    """A folder with a run for each of the first cells, each with a histogram."""
    for i, cell in enumerate(folder.plan.cells[:count]):
        folder.append(run_of(cell, i + 1.0), {"latency_ns": [[1, 2, 3], [4, 5, 1]]})
    return folder


def figures_of(record):
    """What an analysis sees."""
    return [(run.key, dict(run.metrics)) for run in record.analysed_runs], record.histograms


@pytest.mark.parametrize(
    "name", ["experiment.toml", "plan.jsonl", "runs.jsonl", "host.json", "raw"]
)
def test_a_file_cut_at_any_byte_never_changes_a_figure_silently(folder, name):
    """A run whose line is cut is missing, with a notice; other damage is an error with a place."""
    keys, histograms = figures_of(filled(folder, 9 if name != "runs.jsonl" else 2).record())
    file = next((folder.path / "raw").iterdir()) if name == "raw" else folder.path / name
    whole = file.read_bytes()
    # Without its last newline, a file that is not a list of lines is still whole.
    most = len(whole) - (name in ("host.json", "raw"))
    ends = {at + near for at, byte in enumerate(whole) if byte == 10 for near in (-1, 0, 1, 2)}
    for size in sorted({*range(0, most, 11), *ends, most - 1} & {*range(most)}):
        file.write_bytes(whole[:size])
        try:
            record = Folder.open(folder.path).record()
        except SpecError as error:
            assert str(file) in str(error), size
            assert error.hint
            assert name not in ("raw", "host.json"), "they cost only themselves"
            continue
        keys_left, merged = figures_of(record)
        if name == "runs.jsonl":
            assert keys_left == keys[: whole[:size].count(b"\n")]
        else:
            assert keys_left == keys
        assert record.notices or record.missing[0], f"{size} of {len(whole)} bytes, and not a word"
        assert (merged == histograms) == (name == "host.json")


@pytest.mark.parametrize("name", ["experiment.toml", "plan.jsonl", "runs.jsonl", "raw"])
def test_a_changed_byte_is_noticed(folder, name):
    before = figures_of(filled(folder).record())
    file = next((folder.path / "raw").iterdir()) if name == "raw" else folder.path / name
    whole = file.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            record = Folder.open(folder.path).record()
        except SpecError as error:
            assert str(file) in str(error), at
            continue
        assert record.notices or record.missing[0], at
        assert figures_of(record) != before, "a notice without a loss"


@pytest.mark.parametrize(
    "content",
    ["[]", "null", "3", '"x"', "{", "\x00", '{"kernel": []}', "[" * 100_000, "{}", "\xff"],
)
def test_a_host_json_of_any_shape_costs_only_itself(folder, content):
    (folder.path / "host.json").write_text(content, encoding="latin-1")
    assert isinstance(filled(folder).record().host, dict)
    assert len(folder.record().analysed_runs) == 9


@pytest.mark.parametrize(
    "raw", ["../../x", "/etc/passwd", "a/b/c/d/e/f", "..", "", "fifo", "link", "."]
)
def test_raw_names_of_a_stranger_stay_inside_the_folder(folder, tmp_path, raw):
    import os

    secret = tmp_path / "x"
    secret.write_text(encode({"latency_ns": [[1, 1, 99]]}), encoding="ascii")
    os.mkfifo(folder.path / "raw" / "fifo")
    (folder.path / "raw" / "link").symlink_to(secret)
    import dataclasses

    for cell in folder.plan.cells:
        folder.append(dataclasses.replace(run_of(cell), raw={"latency_ns": raw}))
    record = folder.record()
    assert record.histograms == {}
    assert len(record.notices) == 9


def test_a_linked_directory_is_not_followed(folder, tmp_path):
    target = tmp_path / "elsewhere"
    target.mkdir()
    raw = folder.path / "raw"
    raw.rmdir()
    raw.symlink_to(target)
    with pytest.raises(SpecError, match="refusing to follow"):
        folder.append(run_of(folder.plan.cells[0]), {"latency_ns": [[1, 2, 3]]})
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["report.html", "verdict.json"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("mine", encoding="ascii")
    (tmp_path / name).symlink_to(precious)
    with pytest.raises(SpecError, match="refusing to write"):
        write_atomic(tmp_path / name, "theirs")
    assert precious.read_text(encoding="ascii") == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "precious"])
    with pytest.raises(SpecError, match="leads out"):
        write_atomic(tmp_path / "a" / ".." / ".." / "x", "theirs", within=tmp_path)


def test_exported_files_stay_below_the_folder_that_was_named(tmp_path):
    import dataclasses

    from schedlab.kinds.traits import parameters_of
    from schedlab.store.exporters import fio, iozone

    labels = ("..", "../../up", "/abs", ".")
    parameters = {"record_bytes": 4096, "depth": "../../deep", "numjobs": "..", "test": "write"}
    workload = Workload("w", "file-test", "iops", parameters)
    asked = experiments.experiment(
        candidates=tuple(dataclasses.replace(c, label=n) for c, n in zip(
            parse_candidates("none,bfq,kyber,mq-deadline"), labels, strict=True)),
        workloads=(workload, dataclasses.replace(workload, label="../w")),
        baseline="..", stopping=Stopping(blocks=2),
    )  # fmt: skip
    plan = make_plan(asked)
    runs = tuple(
        dataclasses.replace(run_of(cell), metrics={"iops": 1.0, "throughput_bytes_per_s": 1e6})
        for cell in plan.cells
    )
    record = Record(asked, plan, runs)
    before = set(tmp_path.rglob("*"))
    out = tmp_path / "deep" / "out"
    named = parameters_of(record)
    written = fio.write(record, named, out)
    one = dataclasses.replace(record, runs=[run for run in runs if run.workload == "w"])
    written += iozone.write(one, named, out)
    assert len(set(written)) == len(written) == 15  # the A/A arm is a candidate, too
    files = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert files == set(written)
    assert all(path.is_relative_to(out) and ".." not in path.parts for path in written)


def test_a_deleted_folder_is_a_clear_error(folder):
    import shutil

    shutil.rmtree(folder.path)
    with pytest.raises(HostError, match="No such file") as caught:
        folder.append(run_of(Cell(0, 0, "w", "none", 1)))
    assert "deleted or moved" in caught.value.hint
    assert not folder.path.exists()


def test_a_full_disk_is_a_clear_error_and_leaves_no_half_line(tmp_path):
    import os
    import subprocess

    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], check=True)
    try:
        lines = LineFile(place / "lines.jsonl")
        with pytest.raises(HostError, match="No space left") as caught:
            while True:
                lines.append({"text": "x" * 3000})
        assert "free space" in caught.value.hint
        before = lines.read()
        assert len(before) > 5
        assert not lines.repair()
        with pytest.raises(HostError, match="No space left"):
            write_atomic(place / "report.html", "x" * 100_000)
        assert [path.name for path in place.iterdir()] == ["lines.jsonl"]
        subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
        lines.append({"text": "on it goes"})
        assert lines.read() == [*before, {"text": "on it goes"}]
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_line_file_is_resumed_from_any_cut(ram):
    lines = LineFile(ram / "sweep.jsonl")
    assert lines.read() == []
    records = [{"cell": i, "name": "é\n"} for i in range(4)]
    for record in records:
        lines.append(record)
    whole = lines.path.read_bytes()
    for size in range(len(whole)):
        lines.path.write_bytes(whole[:size])
        intact_records = lines.read()
        assert intact_records == records[: whole[:size].count(b"\n")]
        lines.append({"cell": 99})
        assert lines.read() == [*intact_records, {"cell": 99}]
        assert lines.path.read_bytes().startswith(whole[:size].rpartition(b"\n")[0])


def test_a_kill_at_each_write_of_a_line_file_loses_nothing(tmp_path):
    """SIGKILL by strace at the n-th system call that changes the file."""
    import shutil
    import subprocess
    import sys

    if shutil.which("strace") is None:
        pytest.skip("needs strace to kill at a system call")
    program = (
        "import sys; from pathlib import Path; from schedlab.store.lines import LineFile\n"
        "lines = LineFile(Path(sys.argv[1]))\n"
        "for i in range(len(lines.read()), 6): lines.append({'cell': i})\n"
    )
    for call in ("write", "fsync", "ftruncate"):
        file, died = tmp_path / f"{call}.jsonl", 0
        for number in (1, 2, 3):
            inject = f"inject={call}:signal=SIGKILL:when={number}"
            command = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
            before = LineFile(file).read()
            path = tmp_path / f"{call}.jsonl"
            result = subprocess.run(
                [*command, sys.executable, "-c", program, str(path)], check=False
            )
            died += result.returncode != 0
            after = LineFile(file).read()
            assert after[: len(before)] == before
            assert [record["cell"] for record in after] == list(range(len(after)))
        assert died or call == "ftruncate"
