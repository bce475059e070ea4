"""Published measurements whose authors concluded by eye what their numbers do not support."""

import csv
import math
from pathlib import Path

import pytest

from schedlab.analyse import analyse, check_means, cost_per_operation, find_knee
from schedlab.spec import Metric, Samples

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the shared data are not beside the repo")


def rows_of(name):
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def samples_of(rows, workload, metric, value, **more):
    return Samples(
        workload=workload,
        metric=metric,
        candidates=tuple(row["scheduler"] for row in rows),
        blocks=tuple(int(row["repetition"]) for row in rows),
        values=tuple(float(row[value]) for row in rows),
        **more,
    )


@pytest.fixture(scope="module")
def iozone():
    metric = Metric("kib_per_s", "KiB/s", True, "throughput")
    cells = {}
    for row in rows_of("iozone-noop-deadline-cfq.csv"):
        cells.setdefault((row["test"], row["record_bytes"]), []).append(row)
    return [
        samples_of(rows, f"{test} {size}", metric, "kib_per_s")
        for (test, size), rows in cells.items()
    ]


@pytest.fixture(scope="module")
def hdparm():
    cells = {}
    for row in rows_of("hdparm-and-archive.csv"):
        cells.setdefault((row["metric"], row["unit"]), []).append(row)
    user, wall = cells[("archive_extract_user", "s")], cells[("archive_extract_real", "s")]
    cpu = {(r["scheduler"], r["repetition"]): float(r["value"]) for r in user}
    share = tuple(
        cpu.get((r["scheduler"], r["repetition"]), math.nan) / float(r["value"]) for r in wall
    )
    read = {"higher_is_better": True, "title": "read rate"}
    return [
        samples_of(
            cells[("cached_read", "MB/s")],
            "cached_read",
            Metric("cached_read", "MB/s", **read),
            "value",
            negative_control=True,
        ),
        samples_of(
            cells[("buffered_disk_read", "MB/s")],
            "buffered_disk_read",
            Metric("buffered_disk_read", "MB/s", **read),
            "value",
        ),
        samples_of(
            wall,
            "archive",
            Metric("elapsed_s", "s", False, "elapsed time"),
            "value",
            cpu_share=share,
        ),
    ]


@pytest.fixture(scope="module")
def hdparm_verdict(hdparm):
    return analyse(hdparm, baseline="none", blocked=False)


def flag(verdicts, kind):
    return next(f for f in verdicts.flags if f.kind == kind)


@pytest.mark.parametrize("seed", [0, 1])
def test_iozone_deadline_and_noop_are_tied_and_cfq_is_slower(iozone, seed):
    verdict = analyse(iozone, baseline="noop", blocked=False, seed=seed)
    assert len(verdict.workloads) == 63
    assert verdict.overall.best_set == ("noop", "deadline")
    assert verdict.statement.startswith(
        "over 63 workloads: noop and deadline are tied within 2 %; cfq is slower than noop by "
        "3.6 % (95 % interval 2.0 to 5.2 %)"
    )
    found = {(p.a, p.b): p for p in verdict.overall.pairs}
    figures = {
        ("noop", "deadline"): (-0.16, 1.2, "equivalent"),
        ("noop", "cfq"): (3.6, 1.4, "better"),
        ("deadline", "cfq"): (3.8, 1.5, "better"),
    }
    for key, (percent, error, word) in figures.items():
        pair = found[key]
        assert 100 * math.log(pair.ratio) == pytest.approx(percent, abs=0.1)
        assert 100 * 1.96 * pair.standard_error == pytest.approx(error, abs=0.05)
        assert pair.verdict == word


def test_iozone_order_of_running_is_a_warning(iozone):
    verdict = analyse(iozone[:2], baseline="noop", blocked=False)
    assert verdict.design == "unblocked"
    assert "confounded" in flag(verdict, "unblocked").text


def test_iozone_published_means_per_test_do_not_follow_from_the_rows(iozone):
    tests = {sample.workload.rsplit(" ", 1)[0] for sample in iozone}
    groups = {t: [s.workload for s in iozone if s.workload.startswith(f"{t} ")] for t in tests}
    wrong = check_means(iozone, {("deadline", "Random read"): 891179.0}, groups=groups)
    assert len(wrong) == 1 and wrong[0].kind == "wrong-mean"
    assert wrong[0].values["mean"] == pytest.approx(845871.9, abs=0.1)
    assert "published as 891179, its 45 rows give 845872 (+5.4 %)" in wrong[0].text
    right = {
        (label, sample.workload): math.fsum(values) / 5
        for sample in iozone
        for label in ("noop", "deadline", "cfq")
        if (
            values := [
                v for c, v in zip(sample.candidates, sample.values, strict=True) if c == label
            ]
        )
    }
    assert len(right) == 189 and check_means(iozone, right) == ()


def test_hdparm_bfq_is_not_the_leader_in_either_read_rate(hdparm_verdict):
    for workload in ("cached_read", "buffered_disk_read"):
        verdict = hdparm_verdict.workloads[workload]
        means = {s.candidate: s.mean for s in verdict.candidates}
        bfqs = {label: mean for label, mean in means.items() if label.startswith("bfq")}
        assert max(bfqs.values()) < min(set(means.values()) - set(bfqs.values()))
        assert verdict.best_set != ("bfq",) and verdict.reason != "winner"
        assert "bfq is best" not in verdict.statement


def test_hdparm_cached_reads_are_a_control_and_not_part_of_the_answer(hdparm_verdict):
    kinds = [f.kind for f in hdparm_verdict.workloads["cached_read"].flags]
    assert "control-failed" not in kinds and "control-open" in kinds


def test_archive_is_unbalanced_cold_and_cannot_tell_schedulers_apart(hdparm_verdict):
    archive = hdparm_verdict.workloads["archive"]
    assert flag(archive, "unbalanced").text == "unbalanced: kyber has 4 runs, the others have 5"
    kyber = next(s for s in archive.candidates if s.candidate == "kyber")
    assert kyber.runs == 4 and kyber.mean == pytest.approx(6.975)
    cold = flag(archive, "cold-first-run")
    assert cold.candidates == ("none", "mq-deadline", "bfq", "bfq:tuned")
    assert min(cold.values["difference"].values()) == pytest.approx(0.8, abs=0.05)
    assert max(cold.values["difference"].values()) == pytest.approx(4.7, abs=0.05)
    assert "cannot tell schedulers apart" in flag(archive, "insensitive").text
    assert archive.reason == "cannot-separate"


def test_tuned_bfq_was_printed_with_a_slip(hdparm, hdparm_verdict):
    published = {
        ("bfq:tuned", "buffered_disk_read"): 194.092,
        ("bfq", "buffered_disk_read"): 197.786,
    }
    wrong = check_means(hdparm, published)
    assert [f.candidates for f in wrong] == [("bfq:tuned",)]
    assert [f.values["mean"] for f in wrong] == [pytest.approx(197.092)]
    pairs = hdparm_verdict.workloads["buffered_disk_read"].pairs
    tuned = next(p for p in pairs if (p.a, p.b) == ("bfq", "bfq:tuned"))
    assert 100 * (1 / tuned.ratio - 1) == pytest.approx(-0.35, abs=0.05)
    assert tuned.verdict == "undecided" and tuned.low < 1 < tuned.high


def test_single_runs_of_round_robin_are_not_ranked():
    counts, seconds = {}, {}
    for row in rows_of("rr-timeslice.csv"):
        label = f"{row['timeslice_ms']} ms"
        counts[label] = counts.get(label, 0) + float(row["calculations"])
        seconds[label] = seconds.get(label, 0) + float(row["cpu_burst_s"])
    rates = {label: counts[label] / seconds[label] for label in counts}
    assert [round(rate, 2) for rate in rates.values()] == [219.32, 225.23, 227.36]
    metric = Metric("calculations_per_cpu_s", "1/s", True, "calculations per CPU second")
    sample = Samples("rr", metric, tuple(rates), (1, 1, 1), tuple(rates.values()))
    verdict = analyse([sample], baseline="1 ms", blocked=False)
    assert verdict.overall.reason == "no-interval" and not verdict.decided
    assert "no interval can be given" in verdict.statement
    assert verdict.overall.best_set == ("1 ms", "10 ms", "100 ms")
    assert all(p.low is None and p.verdict == "undecided" for p in verdict.overall.pairs)


def test_small_writes_cost_per_write_and_three_sizes_show_no_knee():
    rows = rows_of("block-size-5mib.csv")
    sizes = [float(row["block_bytes"]) for row in rows]
    seconds = [float(row["wall_s"]) for row in rows]
    cost = cost_per_operation([5 * 2**20 / size for size in sizes], seconds)
    assert 1000 * cost.seconds_per_operation == pytest.approx(8.00, abs=0.005)
    assert cost.seconds_fixed == pytest.approx(0.25, abs=0.005)
    assert find_knee(sizes, seconds, "block size").reason == "too few values"
