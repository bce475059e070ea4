"""Published measurements whose authors concluded by eye what their numbers do not support.

Every statement of the data's README, as `schedlab import csv …` and the verdict give it.
"""

import csv
import itertools
import math
from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab import load
from schedlab.cli import cli
from schedlab.spec import Fact

DATA = Path(__file__).parents[1] / "data"
LABS = resources.files("schedlab") / "labs"

IOZONE = (
    LABS / "iozone-noop-deadline-cfq.csv", "--candidate=scheduler", "--workload=test,record_bytes",
    "--value=kib_per_s", "--unit=KiB/s", "--higher-is-better", "--block=repetition", "--unblocked",
)  # fmt: skip
HDPARM = (
    DATA / "hdparm-and-archive.csv", "--candidate=scheduler", "--value=value", "--unit-column=unit",
    "--metric-column=metric", "--binary-units", "--block=repetition", "--control=cached_read",
    "--cpu-share=archive_extract_real=archive_extract_user",
)  # fmt: skip
QUANTA = (
    DATA / "rr-timeslice.csv", "--candidate=timeslice_ms", "--value=calculations/cpu_burst_s",
    "--metric=calculations_per_cpu_s", "--sum=process",
)  # fmt: skip
BLOCKS = (
    DATA / "block-size-5mib.csv", "--candidate=block_bytes", "--value=wall_s", "--unit=s",
    "--set=total_bytes=5242880",
)  # fmt: skip


def run(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def imported(out, file, *options):
    run("import", "csv", file, *options, "--out", out)
    return load(out)


@pytest.fixture(scope="module")
def iozone(tmp_path_factory):
    return imported(tmp_path_factory.mktemp("iozone") / "out", *IOZONE)


@pytest.fixture(scope="module")
def hdparm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hdparm")
    means = folder / "means.csv"
    printed = ("buffered_disk_read,bfq:tuned,194.092", "buffered_disk_read,bfq,197.786")
    means.write_text("\n".join(("metric,scheduler,mean", *printed)))
    return imported(folder / "out", *HDPARM, "--published-means", means)


def flags_of(verdict, kind):
    return [flag for flag in verdict.flags if flag.kind == kind]


def test_iozone_deadline_and_noop_are_tied_and_cfq_is_slower(iozone):
    verdict = iozone.verdict
    assert verdict.code == "tied" and verdict.decided
    assert verdict.headline.values["names"] == ["noop", "deadline"]
    (loss,) = verdict.headline.values["losers"]
    loss = Fact.of(loss)
    assert loss.worse == "cfq" and loss.low > 1.02
    assert verdict.population.workloads == 63
    pairs = {(p.a, p.b): p for p in verdict.overall.pairs}
    figures = {
        ("noop", "deadline"): (-0.16, 1.2, "equivalent"),
        ("noop", "cfq"): (3.6, 1.4, "better"),
        ("deadline", "cfq"): (3.8, 1.5, "better"),
    }
    for key, (percent, error, word) in figures.items():
        pair = pairs[key]
        assert 100 * math.log(pair.ratio) == pytest.approx(percent, abs=0.1)
        assert 100 * 1.96 * pair.standard_error == pytest.approx(error, abs=0.05)
        assert pair.verdict == word


def test_iozone_order_of_running_is_a_warning(iozone):
    assert iozone.verdict.design == "unblocked"
    assert flags_of(iozone.verdict, "unblocked")
    notes = " ".join(iozone.record.experiment.notes)
    assert "one after the other, not interleaved" in notes


def means_of(*keys):
    """Arithmetic means of the rows by scheduler and `keys`."""
    with IOZONE[0].open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda r: [r["scheduler"], *(r[k] for k in keys)])
    grouped = itertools.groupby(rows, key=lambda r: (r["scheduler"], *(r[k] for k in keys)))
    values = {key: [float(row["kib_per_s"]) for row in group] for key, group in grouped}
    return {key: math.fsum(numbers) / len(numbers) for key, numbers in values.items()}


def published(folder, keys, means, decimals):
    """The flags of a table of means that is printed with so many decimals."""
    file = folder / "means.csv"
    lines = [",".join(("scheduler", *keys, "mean"))]
    lines += [",".join((*key, f"{mean:.{decimals}f}")) for key, mean in means.items()]
    file.write_text("\n".join(lines))
    return imported(folder / "out", *IOZONE, "--published-means", file)


def test_iozone_published_means_per_test_do_not_follow_from_the_rows(tmp_path):
    means = means_of("test")
    assert len(means) == 21
    shown = dict(means)
    for i, key in enumerate(means):  # only one of the printed ones is known: the others are made up
        shown[key] *= 1.0 if key == ("noop", "Initial write") else 1 + 0.0002 * (1 + i)
    shown["deadline", "Random read"] = 891179
    result = published(tmp_path, ("test",), shown, 0)
    wrong = flags_of(result.verdict, "wrong-mean")
    assert len(wrong) == 20
    named = {(flag.candidates[0], flag.workload) for flag in wrong}
    assert set(means) - named == {("noop", "Initial write")}
    wrong_mean = next(
        f for f in wrong if (f.candidates[0], f.workload) == ("deadline", "Random read")
    )
    assert wrong_mean.values["mean"] == pytest.approx(845871.9, abs=0.1)
    assert wrong_mean.values["published"] == 891179 and wrong_mean.values["rows"] == 45
    assert wrong_mean.values["difference"] == pytest.approx(0.054, abs=0.0005)


@pytest.mark.parametrize("keys", [("test", "record_bytes"), ("record_bytes",)])
@pytest.mark.parametrize("decimals", [0, 2])
def test_iozone_means_per_cell_and_per_record_size_are_right(tmp_path, keys, decimals):
    means = means_of(*keys)
    assert len(means) == {2: 189, 1: 27}[len(keys)]
    result = published(tmp_path, keys, means, decimals)
    assert flags_of(result.verdict, "wrong-mean") == []
    assert result.record.experiment.notes == load(tmp_path / "out").record.experiment.notes
    assert not any("published" in note for note in result.record.experiment.notes)


def test_iozone_throughput_bends_between_200_kib_and_1_mib(iozone):
    knees = iozone.verdict.knees
    assert len(knees) == 21 and {knee.reason for knee in knees} == {"knee"}
    assert all(200 * 1024 < knee.low < knee.knee < knee.high < 1.1 * 2**20 for knee in knees)


@pytest.mark.parametrize("workload", ["cached_read", "buffered_disk_read"])
def test_hdparm_bfq_is_not_the_leader_in_either_read_rate(hdparm, workload):
    verdict = hdparm.verdict.workloads[workload]
    assert verdict.metric.higher_is_better
    means = {s.candidate: s.mean for s in verdict.candidates}
    bfqs = {label: mean for label, mean in means.items() if label.startswith("bfq")}
    assert max(bfqs.values()) < min(set(means.values()) - set(bfqs.values()))
    assert not set(verdict.best_set) <= set(bfqs)
    best = hdparm.verdict.headline.values.get("best", "")
    assert not best.startswith("bfq")


def test_hdparm_cached_reads_are_a_control_and_not_part_of_the_answer(hdparm):
    (flag,) = flags_of(hdparm.verdict.workloads["cached_read"], "control-open")
    assert 0.02 < flag.values["reach"] < 0.1
    assert "cached_read" not in hdparm.verdict.overall.workloads
    overall = {row.candidate: row.runs for row in hdparm.verdict.overall.candidates}
    # Buffered reads and the archive, 5 runs each (kyber's archive: 4), but no cached reads.
    assert overall == {"none": 10, "mq-deadline": 10, "kyber": 9, "bfq": 10, "bfq:tuned": 10}


def test_archive_is_unbalanced_cold_and_cannot_tell_schedulers_apart(hdparm):
    archive = hdparm.verdict.workloads["archive_extract_real"]
    (flag,) = flags_of(archive, "unbalanced")
    assert flag.candidates == ("kyber",) and flag.values["runs"]["kyber"] == 4
    assert flag.values["most"] == 5
    kyber = next(s for s in archive.candidates if s.candidate == "kyber")
    assert kyber.runs == 4 and kyber.mean == pytest.approx(6.975)
    (cold,) = flags_of(archive, "cold-first-run")
    assert cold.candidates == ("none", "mq-deadline", "bfq", "bfq:tuned")
    assert min(cold.values["difference"].values()) == pytest.approx(0.8, abs=0.05)
    assert max(cold.values["difference"].values()) == pytest.approx(4.7, abs=0.05)
    (insensitive,) = flags_of(archive, "insensitive")
    assert insensitive.values["cpu_share"] == pytest.approx(6.8 / 6.9, abs=0.02)
    assert archive.code in ("no-difference-seen", "too-noisy")


def test_tuned_bfq_was_printed_with_a_slip(hdparm):
    (wrong,) = flags_of(hdparm.verdict, "wrong-mean")
    assert wrong.candidates == ("bfq:tuned",)
    assert wrong.values["mean"] == pytest.approx(197.092)
    assert wrong.values["published"] == pytest.approx(194.092)
    assert wrong.values["difference"] == pytest.approx(-0.0152, abs=0.0005)
    pairs = hdparm.verdict.workloads["buffered_disk_read"].pairs
    tuned = next(p for p in pairs if (p.a, p.b) == ("bfq", "bfq:tuned"))
    assert 100 * (1 / tuned.ratio - 1) == pytest.approx(-0.35, abs=0.05)
    assert tuned.verdict == "undecided" and tuned.low < 1 < tuned.high


def test_single_runs_of_round_robin_are_not_ranked(tmp_path):
    result = imported(tmp_path / "out", *QUANTA)
    verdict = result.verdict
    assert verdict.code == "single" and not verdict.decided
    means = {row.candidate: row.mean for w in verdict.workloads.values() for row in w.candidates}
    assert {k: round(v, 2) for k, v in means.items()} == {"1": 219.32, "10": 225.23, "100": 227.36}
    assert verdict.overall.best_set == ("1", "10", "100")
    assert all(p.low is None and p.verdict == "undecided" for p in verdict.overall.pairs)


def test_small_writes_cost_per_write_and_three_sizes_show_no_knee(tmp_path):
    result = imported(tmp_path / "out", *BLOCKS)
    (cost,) = flags_of(result.verdict, "call-cost")
    assert 1000 * cost.values["seconds_per_call"] == pytest.approx(8.00, abs=0.005)
    assert cost.values["constant_s"] == pytest.approx(0.25, abs=0.005)
    assert cost.values["explained"] > 0.999
    assert [knee.reason for knee in result.verdict.knees] == ["too few values"]
    # 10240, 1280 and 320 writes: 8.02, 8.19 and 8.77 ms each
    seconds = {row.candidate: row.mean for row in result.verdict.overall.candidates}
    assert set(seconds) == {"512", "4096", "16384"}
