"""Result folders: complete, durable, readable after a kill."""

import json

import pytest

from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.spec import Experiment, GateFinding, Run, Stopping, Target, Workload
from schedlab.store.folder import Folder
from schedlab.store.table import samples


@pytest.fixture
def folder(tmp_path):
    experiment = Experiment(
        title="t",
        kind="io",
        target=Target("scratch", size_bytes=1 << 20),
        candidates=parse_candidates("none,bfq:low_latency=0"),
        workloads=(Workload("w", "file-test", "iops", {"record_bytes": 4096}, ("elapsed_s",)),),
        baseline="none",
        seed=1,
        stopping=Stopping(blocks=3),
    )
    return Folder.create(tmp_path / "r", experiment, make_plan(experiment), {"kernel": "x"})


def run_of(cell, value=1.0, status="ok", attempt=1):
    gates = (GateFinding("knob-changed", "scheduler"),) if status == "discarded" else ()
    return Run(
        cell.block, cell.position, cell.workload, cell.candidate, cell.seed, attempt, status,
        "2026-01-01T00:00:00Z", 0.5, {"iops": value, "elapsed_s": 2.0}, gates,
    )  # fmt: skip


def test_everything_survives_the_disk(folder):
    again = Folder.open(folder.path)
    assert again.experiment == folder.experiment
    assert again.plan == make_plan(folder.experiment)
    assert again.host == {"kernel": "x"}
    for i, cell in enumerate(again.plan.cells):
        again.append(run_of(cell, i + 1.0), {"latency_ns": [[1, 2, 3], [4, 5, 1]]})
    record = again.record()
    assert len(record.runs) == 9
    assert record.notices == ()
    assert record.histograms["w", "none"] == ((1, 2, 9), (4, 5, 3))
    primary, secondary = samples(record)
    assert len(primary[0].values) == 9
    assert secondary[0].metric.name == "elapsed_s"


def test_a_folder_in_use_is_not_overwritten(folder):
    with pytest.raises(SpecError, match="is not empty") as caught:
        Folder.create(folder.path, folder.experiment, folder.plan, {})
    assert "--resume" in caught.value.hint


def test_a_torn_last_line_is_left_out_and_mended(folder):
    folder.append(run_of(folder.plan.cells[0]))
    file = folder.path / "runs.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    assert len(folder.runs()) == 1
    assert folder.mend()
    assert file.read_bytes() == whole
    assert not folder.mend()


def test_a_damaged_line_is_named(folder):
    folder.append(run_of(folder.plan.cells[0]))
    file = folder.path / "runs.jsonl"
    file.write_bytes(b"\x00garbage\n" + file.read_bytes())
    with pytest.raises(SpecError, match=r"runs\.jsonl, line 1: not JSON") as caught:
        folder.runs()
    assert "sed -i 1d" in caught.value.hint
    file.write_text(json.dumps({"block": "x"}) + "\n")
    with pytest.raises(SpecError, match=r"runs\.jsonl, line 1"):
        folder.runs()


def test_three_failures_drop_the_block_for_all(folder):
    for cell in folder.plan.cells:
        if cell.block == 1 and cell.candidate == "none":
            for attempt in (1, 2, 3):
                folder.append(run_of(cell, status="discarded", attempt=attempt))
        elif cell.block == 2 and cell.candidate == "none":
            folder.append(run_of(cell, status="discarded"))
            folder.append(run_of(cell, attempt=2))
        else:
            folder.append(run_of(cell))
    record = folder.record()
    assert record.dropped_blocks == (1,)
    assert {run.block for run in record.analysed_runs} == {0, 2}
    assert len(record.analysed_runs) == 6


def test_no_folder_there(tmp_path):
    with pytest.raises(SpecError, match="is not a result folder"):
        Folder.open(tmp_path)
