"""`schedlab import dmesg`: bursts of a patched kernel's log, and complaints that name the line."""

import pytest

from schedlab.errors import SpecError
from schedlab.store.importers.dmesg import lines_of, read
from schedlab.store.importers.imported import Options

LOG = """\
[71725.370000] usb 1-1: new device
[71725.470964] [Pid: 4129], CPUburst: 100214270, rt_priority:10
[71725.571000] [Pid: 4130], CPUBurst: 100036000, rt_priority:10
Nov 21 host kernel: [71725.671000] [Pid: 4129], CPUBurst: 100000000, rt_priority:10
"""


def test_bursts_are_added_up_per_process(tmp_path):
    log = tmp_path / "rr-100.log"
    log.write_text(LOG)
    imported = read([("100 ms", log)], Options())
    (run,) = imported.runs
    assert run.candidate == "100 ms"
    assert run.metrics["cpu_s"] == pytest.approx(0.300250270)
    assert run.metrics["burst_ms_mean"] == pytest.approx(100.083423, rel=1e-6)
    first, second = run.properties["workers"]
    assert (first["pid"], first["bursts"], first["cpu_burst_s"]) == (4129, 2, 0.20021427)
    assert (second["pid"], second["bursts"]) == (4130, 1)
    (rows,) = imported.histograms
    assert rows["timeline"][0] == (0, 0, 100214270)
    assert [row[0] for row in rows["timeline"]] == [0, 1, 0]
    folder = imported.save(tmp_path / "out")
    assert folder.record().histograms["CPU bursts", "100 ms"][0] == (100000000, 100000000, 1)
    assert not any("lost" in note for note in imported.experiment.notes)


def test_a_log_that_lost_lines_is_reported(tmp_path):
    log = tmp_path / "holes.log"
    log.write_text(LOG + "[71735.671000] [Pid: 4129], CPUBurst: 100000000, rt_priority:10\n")
    notes = read([("x", log)], Options()).experiment.notes
    (note,) = [each for each in notes if "the bursts cover" in each]
    assert "lines were lost" in note
    assert "4% of the time" in note


def test_logs_without_times_have_totals_but_no_timeline(tmp_path):
    log = tmp_path / "plain.log"
    log.write_text("[Pid: 7], CPUBurst: 5, rt_priority:0\n")
    imported = read([("x", log)], Options())
    assert imported.histograms[0]["timeline"] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1.0] [Pid: x], CPUBurst: 5, rt_priority:1\n", "line 1"),
        ("fine\n[1.0] [Pid: 3], CPUBurst: 5\n", "line 2"),
        ("", "lines with CPUBurst"),
        ("nothing here\n", "lines with CPUBurst"),
    ],
)
def test_a_damaged_log_is_named_with_its_line(tmp_path, text, words):
    log = tmp_path / "bad.log"
    log.write_text(text)
    with pytest.raises(SpecError, match=words):
        lines_of(log)
