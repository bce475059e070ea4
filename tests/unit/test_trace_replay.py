"""Replays of recorded loads: what is read from a file, what is refused, and what is said."""

import random
from dataclasses import replace

import answers
import load_engine
import pytest
import reports
from click.testing import CliRunner
from msgspec import structs
from recordings import DISCARD, FLUSH, SYNC, WRITE, Recorded, recording

from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.kinds.actors import Actors
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.report import notes, sentences, steps
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.report.workload_names import name_of

MIB = 1 << 20


def load(path, **more):
    return TraceReplay(trace=str(path), **more)


def fitting(path, size, block=512, **more):
    target = ResolvedTarget(path, size, None, block, True, path, size)
    load(path, **more).prepare(target, "load")


@pytest.fixture
def mixed(tmp_path):
    """Two tasks: a reader of 12 requests and a writer of 4, with a flush and a discard."""
    reads = [Recorded(1000 * n, 1000 * n + 200, n * 4096) for n in range(12)]
    writer = {"operation": WRITE, "thread": 2, "command": "writer", "size": 65536, "cgroup": 7}
    writes = [Recorded(2500 * n, 2500 * n + 400, 8 * MIB, **writer) for n in range(4)]
    others = [
        Recorded(9000, 9100, 0, 0, FLUSH, thread=2, command="writer"),
        Recorded(9500, 9600, 0, MIB, DISCARD, thread=2, command="writer"),
    ]
    return recording(tmp_path / "mixed.trace", [*reads, *writes, *others], "bfq")


def test_a_recording_is_read_by_task_and_in_figures(mixed):
    kind = load(mixed, cgroups=True)
    seen = kind.summary()
    assert (seen["requests"], seen["discards"], seen["scheduler"]) == (17, 1, "bfq")
    assert [one["name"] for one in seen["streams"]] == ["reader 1", "writer 2"]
    assert [one["requests"] for one in seen["streams"]] == [12, 5]
    assert seen["touched_bytes"] == 2 * MIB
    figures = {(one["name"], one["direction"]): one for one in seen["groups"]}
    assert figures["", "reads"]["mean_ns"] == 200e3
    assert figures["writer", "writes"]["bytes"] == 4 * 65536
    assert set(kind.own_metrics()) == {
        "reader_read_latency_ns_mean", "writer_write_latency_ns_mean"
    }  # fmt: skip
    assert kind.writes()
    assert not load(mixed, reads_only=True).writes()
    assert {group.name for group in kind.groups()} == {"replay-0", "replay-7"}


def test_a_stream_that_is_not_due_has_no_row(tmp_path):
    """A read at 10 s of a recording of 12 s, in a run of 6 s."""
    writes = [Recorded(1e5 * n, 1e5 * n + 200, 4096 * n, operation=WRITE) for n in range(120)]
    late = Recorded(10e6, 10e6 + 200, thread=2, command="late")
    kind = load(recording(tmp_path / "load.trace", [*writes, late]), ramp_seconds=2, seconds=4)
    idle = {"operations": 0, "bytes": 0, "latency": {"count": 0, "mean": 0, "bins": []}}

    def row(kind, unanswered):
        group = {"name": "late 2", "reads": idle, "elapsed_ns": 0, "unanswered": unanswered,
                 "oldest_pending_ns": 4_010_000_000 * unanswered}  # fmt: skip
        actors = Actors(load_engine.result(group), 0, 1, kind.seconds)
        return kind._figures(actors, ["late 2"], "late", "reads")

    waits = ({"late_read_latency_ns_mean": 4.01e9}, {"late_read_latency_ns_mean": "at-least"})
    assert row(kind, 0) == ({}, {})
    assert row(kind, 1) == ({}, {})  # what waits is none of its reads
    assert row(structs.replace(kind, seconds=9), 1) == (
        {"late_read_latency_ns_mean": 9e9}, {"late_read_latency_ns_mean": "at-least"}
    )  # fmt: skip
    assert row(structs.replace(kind, timing="closed"), 1) == waits


def test_a_completion_that_was_not_traced_has_no_latency(tmp_path):
    reads = [Recorded(1000 * n, 1000 * n + 200, flags=SYNC) for n in range(3)]
    unseen = Recorded(5000, 9_000_000, flags=SYNC | 256)
    kind = load(recording(tmp_path / "load.trace", [*reads, unseen]))
    (all_reads, *_) = kind.summary()["groups"]
    assert (all_reads["requests"], all_reads["mean_ns"]) == (4, 200e3)


def test_fidelity_is_that_of_rate_mean_and_p99(tmp_path):
    """2,000 reads of 200 µs, 1 ms apart: 4.096 MB/s."""
    reads = [Recorded(1000 * n, 1000 * n + 200) for n in range(2000)]
    kind = load(recording(tmp_path / "load.trace", reads))

    def alike(rate, mean, p99):
        metrics = {
            "read_bytes_per_s": 4.096e6 * rate, "read_latency_ns_mean": 2e5 * mean,
            "read_latency_ns_p99": 2e5 * p99,
        }  # fmt: skip
        return [row["is_like"] for row in kind.fidelity(metrics)]

    assert alike(0.91, 1.09, 1.23) == [True, True, True]
    assert alike(1.09, 0.91, 0.77) == [True, True, True]
    assert alike(0.89, 1.11, 1.27) == [False, False, False]


def test_a_rehearsal_is_beside_the_part_that_it_replays(tmp_path):
    """Reads in the first of four seconds only: a run of 1.5 s is like the first 1.5 s; one of 7 s
    would have them twice in 7 s, so it is of 8.
    """
    reads = [Recorded(1000 * n, 1000 * n + 200) for n in range(1000)]
    path = recording(tmp_path / "load.trace", [*reads, Recorded(4e6 - 100, 4e6, operation=WRITE)])
    short, long = (load(path, seconds=s, ramp_seconds=0.5) for s in (1.0, 6.5))
    assert [short.rehearsal_s(), long.rehearsal_s()] == pytest.approx([1.5, 8.0])
    (rate, *_) = short.fidelity({"read_bytes_per_s": 1000 * 4096 / 1.5})
    assert rate["recorded"] == pytest.approx(1000 * 4096 / 1.5) and rate["is_like"]
    assert long.figures(long.rehearsal_s())["read_bytes_per_s"] == pytest.approx(1000 * 1024)


def test_write_back_counts_in_the_rate_and_not_in_the_latency(tmp_path):
    """Nobody waits for it: 100 writes of 200 µs, and 100 of the page cache that take 50 ms."""
    waited = [Recorded(1000 * n, 1000 * n + 200, operation=WRITE) for n in range(100)]
    back = {"operation": WRITE, "flags": 0, "command": "kworker/u4:1", "thread": 2}
    written_back = [Recorded(1000 * n, 1000 * n + 50_000, MIB, **back) for n in range(100)]
    both = load(recording(tmp_path / "both.trace", waited + written_back))
    period_s = 0.149
    assert both.figures() == pytest.approx({
        "write_bytes_per_s": 200 * 4096 / period_s, "write_latency_ns_mean": 2e5,
    })  # fmt: skip
    assert [one["requests"] for one in both.summary()["groups"]] == [200, 100, 100]
    alone = load(recording(tmp_path / "back.trace", written_back))
    assert list(alone.figures()) == ["write_bytes_per_s"]


def test_what_cannot_be_replayed_is_refused_with_a_hint(tmp_path, mixed):
    whole = mixed.read_bytes()
    empty = tmp_path / "empty.trace"
    broken = {
        "empty": b"", "cut": whole[:-50], "head": whole[:200], "garbage": b"\0" * 4096,
        "zstd": b"\x28\xb5\x2f\xfd" + whole[:64], "json": b"SCHEDLAB TRACE 1 {\n" + whole[-96:],
    }  # fmt: skip
    for content in broken.values():
        empty.write_bytes(content)
        with pytest.raises(SpecError) as refused:
            load(empty).summary()
        assert str(empty) in str(refused.value)
        assert refused.value.hint
    nothing = recording(tmp_path / "nothing.trace", [Recorded(0, 1, 0, 0, FLUSH)])
    lossy = recording(tmp_path / "lossy.trace", [Recorded(0, 1)] * 98, lost=2)
    text = tmp_path / "requests.csv"
    text.write_text("arrival_ms,is_write,first_page,pages\n0,0,0,1\n1,1,5,1\n")
    for path, words in (
        (nothing, "nothing was moved"), (lossy, "2 of 100 requests were lost"),
        (text, "no completions"), (tmp_path / "absent", "absent"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=words) as refused:
            load(path).summary()
        assert refused.value.hint
    with pytest.raises(SpecError, match="it reads nothing"):
        write = recording(tmp_path / "writes.trace", [Recorded(0, 1, operation=WRITE)])
        load(write, reads_only=True).summary()
    assert load(text, timing="open").summary()["requests"] == 2


def test_no_damage_to_a_file_is_more_than_an_error(tmp_path, mixed):
    whole, chance = mixed.read_bytes(), random.Random(37)
    damaged = tmp_path / "damaged.trace"
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        damaged.write_bytes(content[: chance.choice((len(content), chance.randrange(len(whole))))])
        try:
            seen = load(damaged).summary()
            assert seen["requests"] > 0
            fitting(damaged, 64 * MIB, fit="wrap")
        except SpecError as error:
            assert error.hint
            refused += 1
    assert 100 < refused < 300


def test_addresses_are_mapped_or_refused(tmp_path):
    far = [Recorded(n, n + 1, (n * 100 + n % 2) * MIB, 8192) for n in range(8)]
    path = recording(tmp_path / "far.trace", far)
    fitting(path, 8 * MIB)
    with pytest.raises(SpecError, match="needs 8 MiB of its target, which has 7"):
        fitting(path, 7 * MIB)
    fitting(path, 2 * MIB, fit="wrap")
    with pytest.raises(SpecError, match="needs 702 MiB") as refused:
        fitting(path, 701 * MIB, fit="refuse")
    assert "--fit wrap" in refused.value.hint
    fitting(path, 702 * MIB, fit="refuse")


def refusal(*words):
    answer = CliRunner().invoke(cli, ["compare", *map(str, words)], standalone_mode=False)
    assert isinstance(answer.exception, SpecError), answer.output
    return f"{answer.exception} {answer.exception.hint}"


def test_options_are_heeded_or_refused(mixed):
    trace = ("--trace", mixed)
    assert "a recorded load" in refusal("--timing", "open")
    assert "--depth would change nothing with a trace" in refusal(*trace, "--depth", "4")
    assert "--trace cannot be used with" in refusal(*trace, "--", "true")
    assert "--trace cannot be used with" in refusal(*trace, "--workloads", "newcomer")
    assert "no command" in refusal(*trace, "--setup", "true")
    assert "does not measure it" in refusal(*trace, "--metric", "read_latency_ns_p9")
    assert "absent" in refusal("--trace", "absent")


def test_a_file_that_changed_is_not_the_measured_one(mixed):
    from schedlab.kinds.trace_replay import sha256_of

    kind = load(mixed, trace_sha256=sha256_of(mixed))
    kind.check("load")
    records = [Recorded(n, n + 1) for n in range(3)]
    recording(mixed, records)
    with pytest.raises(SpecError, match="is not the measured file"):
        kind.check("load")


def test_a_replay_unlike_its_recording_opens_the_answer():
    def printed(lang, scheduler, *rows):
        fidelity = {"device": "sdz", "rows": rows} | ({"scheduler": scheduler} if scheduler else {})
        record = reports.record_of(answers.TRADE)
        runs = tuple(
            replace(run, properties={"fidelity": fidelity})
            for run in record.runs if run.workload == answers.READER
        )  # fmt: skip
        usual = sentences.headline(View(record, answers.TRADE, Texts(lang)))
        host = {**record.host, "devices": {"sdz": {}}}
        view = View(replace(record, runs=runs, host=host), answers.TRADE, Texts(lang))
        lines = sentences.headline(view)
        assert lines[-len(usual) :] == usual
        return lines[: -len(usual)], notes.design(view), steps.next_step(view)

    row = {"metric": "read_latency_ns_mean", "recorded": 1e6, "replayed": 1.5e6}
    for lang in ("en", "ko", "ru"):
        (opening,), details, _ = printed(lang, "bfq", {**row, "is_like": False})
        assert (
            name_of(Texts(lang), answers.READER) in opening
            and "bfq" in opening
            and "+50" in opening
        )
        assert any("1.50" in line or "1,50" in line for line in details)
        like = {**row, "replayed": 1.01e6, "is_like": True}
        opening, details, _ = printed(lang, "bfq", like)
        assert opening == [] and any("1.01" in line or "1,01" in line for line in details)
        (opening,), _, _ = printed(lang, "noop")
        assert "noop" in opening
        (opening,), _, _ = printed(lang, None)  # as of blkparse
        assert name_of(Texts(lang), answers.READER) in opening
