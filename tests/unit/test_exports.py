"""Results as files of fio and IOzone: figures are means of the runs that count, and come back."""

import json
from dataclasses import replace

import pytest
from experiments import experiment, run_of

from schedlab.errors import SpecError
from schedlab.kinds.traits import parameters_of
from schedlab.nouns import Candidate, Cell, Plan, Record, Target, Workload
from schedlab.nouns.latency import QUANTILES
from schedlab.report.view import flatten
from schedlab.store.exporters import fio, iozone
from schedlab.store.importers import fio as fio_import
from schedlab.store.importers import iozone as iozone_import
from schedlab.store.importers.imported import Options

ROWS = ((100, 100, 3), (256, 259, 1))


def record(parameters, *metrics, rows=ROWS, kind="file-test", **more):
    """Runs of one workload with these metrics, and one that failed a check and does not count."""
    work = Workload("w", kind, "throughput_bytes_per_s", parameters)
    asked = experiment(candidates=(Candidate("none"),), workloads=(work,), aa_arm=False)
    cells = [Cell(i, 0, "w", "none", 1) for i in range(len(metrics) + 1)]
    runs = [run_of(cell, each, **more) for cell, each in zip(cells, metrics, strict=False)]
    failed = run_of(cells[-1], dict.fromkeys(metrics[0], 9e9), status="discarded")
    return Record(asked, Plan(()), (*runs, failed), histograms={("w", "none"): tuple(rows)})


RECORDS = {
    "reads": record(
        {"test": "random-read", "record_bytes": 4096, "span_bytes": 1 << 20, "depth": 8},
        *({"throughput_bytes_per_s": kib * 1024.0, "iops": kib / 4.0, "elapsed_s": 2.0}
          for kib in (100, 300)),
    ),
    "writes of three workers": record(
        {"test": "random-write", "workers": 3},
        *({"throughput_bytes_per_s": rate, "iops": rate / 1024, "elapsed_s": 2.0}
          for rate in (1024.0, 3072.0)),
        properties={"usr_cpu": 0.1, "sys_cpu": 0.2},
    ),
    "both directions": record(
        {"test": "mixed", "depth": 8},
        {"read_bytes_per_s": 3e6, "write_bytes_per_s": 1e6, "iops": 400.0},
    ),
    "directions that were measured together": record(
        {"test": "mixed"},
        {"throughput_bytes_per_s": 2e6, "iops": 500.0, "elapsed_s": 2.0}, rows=ROWS[:1],
    ),
    "readers by default": record({}, {"throughput_bytes_per_s": 1e6}, rows=(), kind="random-reads"),
    "no histogram": record(
        {"test": "read", "record_bytes": 65536}, {"throughput_bytes_per_s": 1e6}, rows=()
    ),
}  # fmt: skip


def test_what_fio_would_have_written(tmp_path, golden):
    """Of 100 and 300 KiB/s in 2 s: 200 KiB/s, 50 requests/s, 100 of 4 KiB."""
    parts = []
    for number, (title, each) in enumerate(RECORDS.items()):
        (file,) = fio.write(each, parameters_of(each), tmp_path / str(number))
        facts = flatten(json.loads(file.read_text()))
        lines = [f"{key} = {value}" for key, value in facts if value]
        parts += [f"== {title}: {file.relative_to(tmp_path)}", *lines, ""]
    golden("exports/fio.txt", "\n".join(parts))
    (again,) = fio_import.read([("none", tmp_path / "0/none/4096/randread-8-1.json")],
                               Options()).runs  # fmt: skip
    assert again.metrics["throughput_bytes_per_s"] == 200 * 1024
    (again,) = fio_import.read([("none", tmp_path / "3/none/65536/randrw-1-1.json")],
                               Options()).runs  # fmt: skip
    metrics = {"throughput_bytes_per_s": 2e6, "iops": 500, "elapsed_s": 2}
    metrics |= dict.fromkeys(("read_bytes_per_s", "write_bytes_per_s"), 1e6)
    quantiles = [f"latency_ns_{q}" for q in ("mean", *QUANTILES, "max")]
    assert again.metrics == metrics | dict.fromkeys(quantiles, 100)


def test_two_workloads_are_never_one_figure_of_iozone(tmp_path):
    shallow = record({"test": "read"}, {"throughput_bytes_per_s": 1e6})
    (work,) = shallow.experiment.workloads
    (run, *_), deep = (
        shallow.runs,
        replace(work, label="deep", parameters={"test": "read", "depth": 8}),
    )
    both = replace(
        shallow,
        experiment=replace(shallow.experiment, workloads=(work, deep)),
        runs=(run, replace(run, workload="deep")),
    )
    with pytest.raises(SpecError, match=r"'w' and 'deep': read of 65536 bytes") as refused:
        iozone.write(both, parameters_of(both), tmp_path / "out")
    assert "schedlab report DIR --fio OUT" in refused.value.hint and not (tmp_path / "out").exists()


def sized(target, host=None, parameters=None, others=()):
    each = record(parameters or {"test": "read"}, {"throughput_bytes_per_s": 1e6})
    works = (*each.experiment.workloads, *others)
    asked = replace(each.experiment, target=target, workloads=works)
    return replace(each, experiment=asked, host=host or {})


SDX = {"devices": {"sdx": {"size_bytes": 1 << 30}}}
SIZES = {
    "the whole of a scratch device": (sized(Target("scratch", size_bytes=256 << 20)), "262144"),
    "the whole of a device": (sized(Target("device", "/dev/sdx"), SDX), "1048576"),
    "a part": (sized(Target("device", "/dev/sdx"), SDX, {"test": "read", "span_bytes": 1 << 20}),
               "1024"),
    "more than there is": (sized(Target("scratch", size_bytes=1 << 20), None,
                                 {"test": "read", "span_bytes": 1 << 30}), "1024"),
    "a file": (sized(Target("none"), None, {"test": "read", "file_bytes": 1 << 21}), "2048"),
    "an unknown device": (sized(Target("device", "/dev/sdy"), SDX), None),
    "a device of a model": (sized(Target("emulated", model="disk7200")), None),
    "a file system": (sized(Target("scratch", size_bytes=1 << 28, filesystem="ext4")), None),
    "beside what needs a file system": (sized(
        Target("scratch", size_bytes=1 << 28),
        others=(Workload("db", "database", "iops", {}),)), None),
    "nothing": (sized(Target("none")), None),
}  # fmt: skip


@pytest.mark.parametrize("case", SIZES)
def test_a_row_of_iozone_has_the_size_of_what_was_read_or_there_is_none(tmp_path, case):
    each, size = SIZES[case]
    parameters = parameters_of(each)
    if size is None:
        with pytest.raises(SpecError, match="a row per file size, and it is not known") as refused:
            iozone.write(each, parameters, tmp_path)
        assert "schedlab report DIR --fio OUT" in refused.value.hint
        return
    (file,) = iozone.write(each, parameters, tmp_path)
    assert [line.split()[0] for line in file.read_text().splitlines() if line[:1] == '"'][-1:] == [
        f'"{size}"'
    ]


def test_what_iozone_would_have_written(tmp_path, golden):
    reads = RECORDS["reads"]
    (file,) = iozone.write(reads, parameters_of(reads), tmp_path)
    golden("exports/iozone.txt", file.read_text())
    imported = iozone_import.read([("none", file)], Options())
    assert imported.runs[0].metrics == {"throughput_bytes_per_s": 200.0 * 1024}
    assert imported.experiment.workloads[0].parameters["test"] == "random-read"
