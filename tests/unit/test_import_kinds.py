"""What importers of other programs' files must not confuse: columns, disks, options, reports."""

import json

import pytest
from test_import_tools import REPORT, TABLE, THROUGHPUT, biff, fio_output_job, write

from schedlab.errors import SpecError
from schedlab.store.importers import fio, hdparm, iozone, time
from schedlab.store.importers.imported import Options

# What iozone 3.408 and 3.492 print for -i 0 -i 2 (and -i 5): the columns between stay blank.
OLD_HEADER = """
                                                            random  random    bkwd   record\
   stride
              KB  reclen   write rewrite    read    reread    read   write    read  rewrite\
     read   fwrite frewrite   fread  freread
"""
OLD_ROW = f"{409600:16}{64:8}{31782:8}{22524:8}{816017:26}{10411:8}{3779260:25}"
OLD_FULL = (
    "              64       4  496362  939223  2772930  2923952 1828508 1017549 1392258  1143223"
    "  1768283   533875   653436 1679761  2203800"
)
NEW_ROW = "          102400    1024   379304   383401                     375988   383204"
END = "\n\niozone test complete.\n"
WITHOUT_READS = {"write": 31782, "rewrite": 22524, "random-read": 816017, "random-write": 10411,
                 "stride-read": 3779260}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD_HEADER + OLD_ROW, WITHOUT_READS),
        # Indentation that a mail or a page removed moves the whole row.
        (OLD_HEADER + OLD_ROW.strip(), WITHOUT_READS),
        (
            TABLE.partition("           65536")[0] + NEW_ROW,
            {"write": 379304, "rewrite": 383401, "random-read": 375988, "random-write": 383204},
        ),
        (OLD_HEADER + OLD_FULL, dict(zip(
            ("write", "rewrite", "read", "re-read", "random-read", "random-write", "reverse-read",
             "record-rewrite", "stride-read", "fwrite", "re-fwrite", "fread", "re-fread"),
            map(int, OLD_FULL.split()[2:]), strict=True))),
    ],
)  # fmt: skip
def test_iozone_figures_belong_to_the_column_above_them(tmp_path, text, expected):
    imported = iozone.read([("none", write(tmp_path, "t", text + END))], Options())
    tests = {w.label: w.parameters["test"] for w in imported.experiment.workloads}
    figures = {tests[r.workload]: r.metrics["throughput_bytes_per_s"] for r in imported.runs}
    assert figures == {test: kb * 1024 for test, kb in expected.items()}


def test_iozone_columns_that_cannot_be_told_apart_are_refused(tmp_path):
    """White space that a web page collapsed: two of thirteen figures may be any."""
    text = " ".join(OLD_HEADER.split("\n")[2].split()) + "\n" + " ".join(OLD_ROW.split()) + END
    with pytest.raises(SpecError, match="line 2: expected figures below the header's columns"):
        iozone.read([("none", write(tmp_path, "t", text))], Options())
    whole = " ".join(OLD_HEADER.split("\n")[2].split()) + "\n" + " ".join(OLD_FULL.split()) + END
    assert len(iozone.read([("none", write(tmp_path, "t", whole))], Options()).runs) == 13


def test_iozone_throughput_blocks_have_the_record_size_of_their_summary(tmp_path):
    second = THROUGHPUT.replace("= 8 kB", "= 64 kB").replace("Size 8 kB", "Size 64 kB")
    imported = iozone.read([("none", write(tmp_path, "t", THROUGHPUT + second))], Options())
    assert [w.label for w in imported.experiment.workloads] == [
        "write 8 KiB", "re-read 8 KiB", "write 64 KiB", "re-read 64 KiB",
    ]  # fmt: skip


def test_iozone_reports_are_in_the_unit_of_the_output(tmp_path):
    text = "\tOPS Mode. Output is in operations per second.\n" + REPORT
    metrics = [r.metrics for r in iozone.read([("a", write(tmp_path, "t", text))], Options()).runs]
    assert metrics[0] == {"iops": 100.0}
    cells = [(0, 0, "iozone -a -O -b x.xls"), (2, 0, "Writer report"), (3, 1, 4), (4, 0, 64),
             (4, 1, 7.0)]  # fmt: skip
    (run,) = iozone.read([("a", write(tmp_path, "x.xls", biff(*cells)))], Options()).runs
    assert run.metrics == {"iops": 7.0}


@pytest.mark.parametrize(
    ("real", "seconds"),
    [
        ("real\t1h2m3.500s\nuser\t0m1.5s\nsys\t0m.25s", None),
        ("real\t1h2m3.500s\nuser\t0m1.5s\nsys\t0m0.25s", 3723.5),
        ("1.50user 0.25system 1:02:03elapsed 0%CPU (0k", 3723.0),
        ("1.500u 0.250s 1:02:03.50 0.0%\t0+0k", 3723.5),
        ("x  1.50s user 0.25s system 0% cpu 1:02:03.50 total", 3723.5),
        ("Executed in   62.00 mins    fish\n   usr time    1.50 secs 1\n   sys time  250.00 millis"
         " 1", 3720.0),
    ],
)  # fmt: skip
def test_hours_of_every_dialect(tmp_path, real, seconds):
    file = write(tmp_path, "t", real + "\n")
    if seconds is None:
        with pytest.raises(SpecError, match="expected sys of the measurement"):
            time.read([("none", file)], "w", Options())
        return
    (run,) = time.read([("none", file)], "w", Options()).runs
    assert run.metrics == {"elapsed_s": seconds, "cpu_s": 1.75}


def test_time_of_another_program_lists_what_is_read(tmp_path):
    with pytest.raises(SpecError, match="found 'none'") as caught:
        time.read([("none", write(tmp_path, "t", "took 3 seconds\n"))], "w", Options())
    assert "GNU -v" in caught.value.hint and "tcsh" in caught.value.hint


def hdparm_of(disk, rate, size=300):
    figures = f"{size} MB in  {size / rate:.2f} seconds = {rate:.2f} MB/sec"
    cached = " Timing cached reads:   9000 MB in  2.00 seconds = 4500.00 MB/sec"
    return f"\n/dev/{disk}:\n Timing buffered disk reads: {figures}\n{cached}\n"


def test_two_disks_are_two_workloads(tmp_path):
    file = write(tmp_path, "h", hdparm_of("sdx", 100) + hdparm_of("sdy", 300) * 2)
    imported = hdparm.read([("x", file)], Options())
    by_name = {}
    for run in imported.runs:
        by_name.setdefault(run.workload, []).append(run.metrics["throughput_bytes_per_s"] / 2**20)
    assert by_name == {
        "buffered disk reads of sdx": [100.0], "cached reads": [4500.0] * 3,
        "buffered disk reads of sdy": [300.0] * 2,
    }  # fmt: skip
    assert imported.experiment.notes == ()


def test_a_disk_per_candidate_is_a_note(tmp_path):
    files = [(disk, write(tmp_path, disk, hdparm_of(disk, 100))) for disk in ("sdx", "sdy")]
    imported = hdparm.read(files, Options())
    assert [w.label for w in imported.experiment.workloads] == [
        "buffered disk reads", "cached reads",
    ]  # fmt: skip
    assert "different disks or files: sdx on sdx, sdy on sdy" in imported.experiment.notes[0]


def test_a_rate_that_its_own_line_contradicts_is_a_note(tmp_path):
    text = "/dev/sdx:\n Timing buffered disk reads: 300 MB in  3.00 seconds = 999.00 MB/sec\n"
    notes = hdparm.read([("x", write(tmp_path, "h", text))], Options()).experiment.notes
    assert [n.partition("line 2: ")[2] for n in notes] == [
        "300 MB in 3.00 s are 100.00 MB/s, not 999.00 MB/sec"
    ]


def with_options(global_options=None, **options):
    document = {"jobs": [{**fio_output_job("j"), "job options": options}]}
    return json.dumps(document | ({"global options": global_options} if global_options else {}))


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        (with_options({"numjobs": "1"}), with_options({"numjobs": "8"}),
         ["j (numjobs=1)", "j (numjobs=8)"]),
        (with_options(bs="4k"), with_options(bs="4k", iodepth="8"),
         ["j (iodepth default)", "j (iodepth=8)"]),
        (with_options(bs="4k", randseed="1"), with_options(bs="4k", randseed="2"), ["j", "j"]),
        (with_options(filename="/dev/a"), with_options(filename="/dev/b"),
         ["j of /dev/a", "j of /dev/b"]),
    ],
)  # fmt: skip
def test_fio_jobs_of_other_options_are_other_workloads(tmp_path, first, second, labels):
    files = [("none", write(tmp_path, f"{n}", t)) for n, t in enumerate((first, second))]
    assert [run.workload for run in fio.read(files, Options()).runs] == labels


def test_a_label_that_fio_contradicts_is_a_note(tmp_path):
    file = write(tmp_path, "a.json", with_options({"ioscheduler": "bfq"}))
    (note,) = fio.read([("none", file)], Options()).experiment.notes
    assert note.endswith("a.json: the file says ioscheduler=bfq, the label none")
    assert fio.read([("bfq low", file)], Options()).experiment.notes == ()


def report_of(elapsed, printed_ms, ios):
    job = fio_output_job("j", total_ios=ios, iops=ios / elapsed)
    job |= {"elapsed": elapsed, "job_runtime": elapsed * 1000 - 100}
    stamp = {"timestamp": printed_ms // 1000, "timestamp_ms": printed_ms}
    return json.dumps({**stamp, "jobs": [job]}, indent=2) + "\n"


def test_interim_reports_of_fio_are_not_repetitions(tmp_path):
    interim = "".join(report_of(n, 1_000_000 + 1000 * n, 100 * n) for n in (1, 2, 3))
    imported = fio.read([("none", write(tmp_path, "o", interim))], Options())
    assert [run.metrics["iops"] for run in imported.runs] == [100.0]
    assert imported.experiment.notes[0].endswith(
        "2 interim reports (--status-interval) were skipped"
    )


def test_reports_of_separate_runs_in_one_file_are_repetitions(tmp_path):
    text = "".join(
        "fio: laying out\n" + report_of(3, 1_000_000 + at, 300) for at in (0, 3200, 9000)
    )
    imported = fio.read([("none", write(tmp_path, "o", text))], Options())
    assert [run.block for run in imported.runs] == [0, 1, 2]


def test_the_output_of_a_client_of_fio_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"fio --client \(client_stats\)"):
        fio.read([("x", write(tmp_path, "c", '{"client_stats":[]}'))], Options())


def test_output_that_powershell_wrote_is_read(tmp_path):
    text = json.dumps({"jobs": [fio_output_job("j")]}).encode("utf-16")
    assert fio.read([("x", write(tmp_path, "c", text))], Options()).runs[0].workload == "j"
    lines = "real 6.95\nuser 6.78\nsys 2.92\n".encode("utf-16")
    assert len(time.read([("x", write(tmp_path, "t", lines))], "w", Options()).runs) == 1
