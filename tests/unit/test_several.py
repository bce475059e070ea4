"""Of several files, words, sizes, rows or requirements each counts, and not the first alone."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import answers
import pytest
import reports
from test_fio_files import check, home, kind_of  # noqa: F401

from schedlab.analyse.sessions import session_means
from schedlab.errors import SpecError
from schedlab.nouns import Workload
from schedlab.nouns.answer import OfKind, Requirement
from schedlab.nouns.capture import PARTS, _in_window
from schedlab.nouns.checked_line import encode
from schedlab.report import fleet_table
from schedlab.store.importers import iostat
from schedlab.store.importers.imported import Options
from schedlab_sim.device import device_changes

DOCUMENT = {"seed": 1, "workloads": [{"label": "w", "kind": "random-reads", "metric": "iops"}]}


def test_a_workload_is_chosen_where_all_its_parameters_are():
    work = Workload("w", "file-test", "iops", {"depth": 4, "workers": 2})
    for depth, workers in ((4, 2), (4, 1), (1, 2)):
        asked = replace(work, chosen={"depth": depth, "workers": workers})
        assert asked.is_chosen == (depth == 4 and workers == 2)


def test_every_requirement_that_is_not_met_is_open():
    answer = answers.TRADE
    met, missed, unsettled = (Requirement("r", number, below=True, candidates={answer.take: how})
                              for number, how in enumerate(("met", "missed", "open")))  # fmt: skip
    asked = replace(answer, requirements=(missed, met, unsettled))
    assert asked.open_requirements == (missed, unsettled)


def test_each_change_of_a_device_is_made():
    changes = device_changes(["ftl.collect=fifo", "flash.read='50us'", "a=1"], "4MiB")
    assert changes == {"ftl.collect": "fifo", "flash.read": "50us", "a": 1, "buffer.size": "4MiB"}


def test_all_bins_of_a_window_are_added():
    rows = [[at, 1, 2, 0, 7, *[10 * at + each for each in range(len(PARTS))]] for at in range(4)]
    capture = {"series": [{"class": 0, "rows": rows}, {"class": 1, "rows": rows[:2]},
                          {"class": 0, "rows": rows[2:3]}]}  # fmt: skip
    requests, waited = _in_window(capture, 0, (1, 3))
    assert requests == 9  # Bins 1 and 2, and bin 2 once more.
    assert waited["tag"] == 10 + 20 + 20 and waited["total"] == 14 + 24 + 24


def test_each_file_and_each_report_of_iostat_counts(tmp_path):
    files = []
    for candidate, rates in (("none", (9, 1, 3)), ("none", (9, 5, 7)), ("bfq", (9, 2, 2))):
        reports = [{"disk": [{"disk_device": "sda", "r/s": rate, "w/s": 0, "rkB/s": 4 * rate,
                              "wkB/s": 0, "r_await": rate, "w_await": 0}]}
                   for rate in rates]  # fmt: skip
        file = tmp_path / f"{len(files)}.json"
        document = {"sysstat": {"hosts": [{"statistics": reports}]}}
        file.write_text(json.dumps(document))
        files.append((candidate, file))
    runs = iostat.read(files, Options()).runs
    assert [(run.candidate, run.metrics["iops"]) for run in runs] == [
        ("none", 2.0), ("none", 6.0), ("bfq", 2.0)
    ]  # fmt: skip
    assert runs[0].metrics["read_latency_ns_mean"] == pytest.approx(2.5e6)  # (1·1 + 3·3) / 4 ms


def test_every_file_of_every_job_is_looked_at(tmp_path, home):  # noqa: F811
    """A second file, and a second job, that the user's own file is in the way of."""
    texts = ("[j]\nrw=write\nsize=64k\nfilename=a:b\n",
             "[i]\nrw=write\nfilename=a\nsize=8k\n[j]\nrw=write\nfilename=b\nsize=8k")  # fmt: skip
    (home / "b").write_text("precious")
    for text in texts:
        kind = kind_of(tmp_path, text)
        with pytest.raises(SpecError, match=r"would overwrite .*/b, which"):
            check(kind, home)
        check(replace_writable(kind, home / "b"), home)


def replace_writable(kind, path):
    return type(kind)(job_file=kind.job_file, writable=(str(path),))


def test_rows_of_an_explanation_are_kept_each(tmp_path):
    from schedlab.store.folder import Folder

    groups = [{"group": name, "tag_s": 1.0, "scheduler_s": 2.0, "device_s": 3.0}
              for name in ("readers", "writers")]  # fmt: skip
    rows = [{"workload": "w", "candidate": name, "capture": "c", "groups": groups}
            for name in ("none", "bfq")]  # fmt: skip
    folder = Folder.__new__(Folder)
    folder.path = tmp_path
    folder.write_explanations(rows)
    (found, notices) = folder._explanations()
    assert not notices and [*found] == [("w", "none"), ("w", "bfq")]
    assert all([each.group for each in of] == ["readers", "writers"] for of in found.values())
    (tmp_path / "raw").mkdir()
    for number, bulk in enumerate(({"a": [[1]], "b": [[9]]}, {"b": [[2]]})):
        (tmp_path / "raw" / f"{number}.json").write_text(encode(bulk) + "\n")
    run = SimpleNamespace(raw={"a": "0.json", "b": "1.json"})
    assert folder.raw_of(run) == {"a": [[1]], "b": [[2]]}


def test_a_session_is_the_mean_of_its_blocks_and_a_block_that_of_its_runs():
    values = [math.exp(x) for x in (1.0, 3.0, 4.0, 9.0)]
    means = session_means(values, ["s", "s", "s", "t"], [0, 0, 1, 0])
    assert means == {"s": pytest.approx((2.0 + 4.0) / 2), "t": pytest.approx(9.0)}


def test_a_host_that_is_the_opposite_on_any_row_is_named(monkeypatch):
    usual = {f"h{n}": [0.5 + n / 100, 0.52, 0.55] for n in range(9)}
    rows = {"first": usual, "second": usual | {"odd": [-0.4, -0.42, -0.38]},
            "third": usual | {"strange": [-0.5, -0.52, -0.48]}}  # fmt: skip
    monkeypatch.setattr(fleet_table, "_spoken_of", lambda view: [*rows])
    monkeypatch.setattr(fleet_table, "_logs", lambda view, row: row)
    monkeypatch.setattr(fleet_table, "_ratios", lambda row, name, base: rows[row])
    view = SimpleNamespace(answer=SimpleNamespace(take="bfq"), baseline="none")
    assert fleet_table.opposed(view) == {"odd", "strange"}


def test_each_kind_of_device_has_its_own_hosts():
    kinds = (OfKind("m", ("a", "b", "c"), answers.BEST), OfKind("n", ("d",), answers.SAME))
    shown = fleet_table.kind_lines(reports.view_of(replace(answers.BEST, kinds=kinds)))
    assert [(name, hosts, of.answer.code) for name, hosts, of in shown] == [
        ("m (3\xa0machines)", "a, b and c", "best"), ("n (1\xa0machine)", "d", "same")
    ]  # fmt: skip
