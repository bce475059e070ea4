"""What commands print, whole: each of several tasks, policies, seeds, folders or files counts."""

import random
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from experiments import experiment, run_of

from schedlab.cli import cli
from schedlab.design.plan import make_plan
from schedlab.nouns import AA_SUFFIX, Candidate, Stopping, Workload
from schedlab.store.folder import Folder

ASKED = tomllib.loads((Path(__file__).parents[1] / "data/whole-commands.toml").read_text())
WRITTEN = ("log.csv", "gantt.svg", "both/experiment.toml", "both/runs.jsonl", "hosts/runs.jsonl")
WORKS = (
    Workload("small", "file-test", "iops", {"record_bytes": 4096}, ("latency_ns_p99",)),
    Workload("big", "file-test", "throughput_bytes_per_s", {"record_bytes": 1 << 20}),
    Workload("build", "command", "elapsed_s", {"argv": ["make", "all"]}, ("cpu_s",)),
)
USUAL = {"iops": 900.0, "latency_ns_p99": 3e6, "throughput_bytes_per_s": 8e7, "elapsed_s": 2.0,
         "cpu_s": 1.5}  # fmt: skip
FASTER = {"none": (1, 1, 1), "bfq": (1.5, 0.9, 1.02), "kyber": (0.7, 1.2, 1)}
# A folder of results: how much faster kyber is there, and its machine.
FOLDERS = {"old": (1.0, "6.1"), "again": (1.0, "6.1"), "new": (1.6, "6.12")}


def folders():
    """Three folders of the same question."""
    for at, (name, (newer, release)) in enumerate(FOLDERS.items()):
        asked = experiment(
            candidates=tuple(Candidate(label, {"scheduler": label}) for label in FASTER),
            workloads=WORKS, seed=9 - at, stopping=Stopping(blocks=3),
        )  # fmt: skip
        disks = {disk: {"scheduler": "none", "model": f"{disk} {at}"} for disk in ("sda", "sdb")}
        facts = {"kernel": {"release": release}, "block_devices": disks}
        folder = Folder.create(Path(name), asked, make_plan(asked), facts)
        draw = random.Random(at)
        for cell in folder.plan.cells:
            label = cell.candidate.removesuffix(AA_SUFFIX)
            place, work = next((i, w) for i, w in enumerate(WORKS) if w.label == cell.workload)
            factor = FASTER[label][place] * (newer if label == "kyber" and place else 1)
            metrics = {}
            for metric in (work.metric, *work.secondary):
                better = factor * draw.lognormvariate(0, 0.02)
                is_time = metric.endswith(("_s", "p99")) and "per" not in metric
                metrics[metric] = USUAL[metric] * (1 / better if is_time else better)
            session = f"{name}-{cell.block % 2}"
            folder.append(run_of(cell, metrics, session=session, elapsed_s=1.0 + place))


def rounded(text):
    """Six digits of each figure, and each part of a document in a line."""
    digits = re.sub(r"-?\d+\.\d{5,}(e-\d+)?", lambda found: f"{float(found[0]):.6g}", text)
    return digits.replace("}, ", "},\n")


@pytest.mark.parametrize("title", ASKED["commands"])
def test_a_command_prints_all_that_it_was_asked_about(title, golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in ASKED["files"].items():
        Path(name).write_text(text)
    prefix, lines = ASKED["commands"][title].values()
    if not prefix:
        folders()
    shown, seen = [], []
    for line in (f"{prefix} {each}".strip() for each in lines):
        ended = CliRunner().invoke(cli, line.split())
        failed = [repr(ended.exception)] if ended.exit_code else []
        shown += [f"$ schedlab {line}", rounded(ended.output), *failed]
        for path in filter(Path.exists, map(Path, WRITTEN)):
            if (text := path.read_text()) not in seen:
                shown.append(text.replace("><", ">\n<"))
                seen.append(text)
    golden(f"whole/{title}.txt", "\n".join(shown))
