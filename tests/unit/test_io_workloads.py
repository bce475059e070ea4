"""Workloads of block I/O that need no device: command lines, figures of workers, program starts."""

import sys

import pytest
from schedlab.run.place import Place
from schedlab.run.worker_lines import as_iozone, worker_lines
from schedlab.run.workloads import file_test, fio_file_test
from schedlab.run.workloads.startup import Program

from schedlab.errors import SpecError
from schedlab.spec import Workload
from schedlab.store.importers import iozone
from schedlab.store.importers.imported import Options

MIB = 1 << 20


def workload(test, **parameters):
    given = {"test": test, "record_bytes": 4096, "seconds": 0.3, **parameters}
    return Workload(f"{test} 4 KiB", "fio-file-test", "iops", given)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "a:b", 8 * MIB, None, 512, False, tmp_path / "a:b", 8 * MIB)


@pytest.fixture
def fio(monkeypatch):
    monkeypatch.setattr(fio_file_test, "version", lambda: "fio-3.33")


def test_the_command_line_of_fio_says_what_the_workload_says(place, fio):
    words = fio_file_test.command(
        place, workload("reverse-read", depth=8, engine="io_uring", workers=2), seed=5
    )
    assert {
        "--rw=read:-8192", "--bs=4096", "--size=8388608", "--iodepth=8", "--numjobs=2",
        "--ioengine=io_uring", "--direct=1", "--randseed=5", "--runtime=300ms", "--time_based",
    } <= set(words)  # fmt: skip
    assert f"--filename={place.path.parent}/a\\:b" in words
    one_pass = fio_file_test.command(place, workload("record-rewrite", seconds=0), seed=1)
    assert {"--size=4096", "--io_size=8388608", "--rw=write"} <= set(one_pass)
    assert "--time_based" not in one_pass


def test_every_file_test_is_either_done_by_fio_or_refused_by_name(place, fio):
    for test in file_test.TESTS:
        if test in fio_file_test.ORDERS:
            assert "fio" in fio_file_test.command(place, workload(test), seed=1)
    with pytest.raises(SpecError, match="stride-read"):
        fio_file_test.prepare(place, workload("stride-read"))
    with pytest.raises(SpecError, match="only psync and io_uring"):
        fio_file_test.prepare(place, workload("read", engine="mmap"))


# 2 workers: 1 MiB in 1 s and 3 MiB in 2 s; the group takes 2 s.
GROUP = {
    "elapsed_ns": 2_000_000_000,
    "workers": [
        {"bytes": MIB, "elapsed_ns": 1_000_000_000},
        {"bytes": 3 * MIB, "elapsed_ns": 2_000_000_000},
    ],
}


def test_children_and_parent_see_what_iozone_would_say():
    assert worker_lines(GROUP) == {
        "children_kib_per_s": 1024 + 1536,
        "parent_kib_per_s": 2048,
        "min_kib_per_s": 1024,
        "max_kib_per_s": 1536,
        "avg_kib_per_s": 1280,
        "min_xfer_kib": 1024,
    }


def test_the_lines_are_read_by_the_importer_of_iozone(tmp_path):
    text = as_iozone(worker_lines(GROUP), "random-read", 2)
    file = tmp_path / "iozone.txt"
    file.write_text(f"\tRecord Size 8 kB\n{text}\niozone test complete.\n")
    (run,) = iozone.read([("bfq", file)], Options()).runs
    assert run.metrics["throughput_bytes_per_s"] == 2560 * 1024


def python(code, limit_s=60.0):
    return Program([sys.executable, "-c", code], {}, limit_s).run()


def test_a_program_is_timed_until_it_ends():
    done = python("import time; time.sleep(0.05)")
    assert done.status == 0
    assert done.elapsed_s >= 0.05
    assert python("raise SystemExit('broken')").message == "broken"


def test_a_program_that_does_not_end_is_killed_at_its_limit():
    done = python("import time; time.sleep(600)", limit_s=0.2)
    assert done.status is None
    assert 0.2 <= done.elapsed_s < 60


def test_a_program_that_is_not_there_is_said():
    done = Program(["/nowhere/program"], {}, 1.0).run()
    assert done.status
    assert "/nowhere/program" in done.message
