"""What calls of fsync waited for: metrics of an interval, the reason, and the sentences."""

from collections import Counter

import pytest

from schedlab.app.trace.block_io import durable_facts, lines
from schedlab.host.settings import knobs
from schedlab.nouns.durability import OWN, Chain, reason
from schedlab.report.durable import sentences, together
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.run.io.durability import Durable, Places, Waits, places_of

PLACES = Places(((7, 3),), ((7, 0),))


def calls(count, ns=1_000_000, parts=(0.5, 0.3, 0.2)):
    return Waits(count, count * ns, tuple(int(count * ns * part) for part in parts),
                 Counter({(ns, ns + 9): count}))  # fmt: skip


def seen(count, **written):
    return Durable(
        PLACES,
        {("db", (7, 3), "fsync"): calls(count), ("db", (8, 1), "fsync"): calls(7),
         ("journal", (7, 3), "journal_commit"): calls(2 * count, 500_000)},
        Counter({OWN if name == "own" else name: n for name, n in written.items()}),
        Counter(entered=count + 8, returned=count + 7, in_flight=1),
    )  # fmt: skip


def test_a_queue_without_a_number_has_no_place(tmp_path, monkeypatch):
    for name, number in (("nvme0n1", "259:1"), ("nvme0c0n1", ""), ("nvme0c1n1", "")):
        (tmp_path / name).mkdir()
        if number:
            (tmp_path / name / "dev").write_text(f"{number}\n")
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    assert places_of(["nvme0c0n1", "nvme0c1n1"]).disks == ()
    assert places_of(["nvme0n1", "nvme0c0n1"]).disks == ((259, 1),)


def test_an_interval_has_the_calls_of_its_places_alone():
    during = seen(1500, cp=9000, own=1000) - seen(300, cp=1000)
    assert during.of("fsync").returned == 1200
    assert not during.of("fsync", elsewhere=True).returned
    values, bounds = during.metrics()
    assert values["fsync_latency_ns_mean"] == 1_000_000
    assert values["fsync_latency_ns_p99"] == pytest.approx(1_000_000, rel=1e-3)
    assert values["journal_commit_latency_ns_p50"] == pytest.approx(500_000, rel=1e-3)
    assert bounds["fsync_latency_ns_p99_9"] == "at-least"
    assert "fsync_latency_ns_p99" not in bounds
    chain = during.chain()
    assert chain.calls == 1200
    assert chain.front == ("cp", 8000 / 9000)
    gentle = Chain(1, 0.1, 0.0, 0.9, {OWN: 1000, "ext4lazyinit": 9000})
    assert reason(gentle) == "flush"
    assert chain.share("journal") == pytest.approx(0.3)
    assert (seen(3) - seen(3)).chain() is None


@pytest.mark.parametrize(
    ("expected", "changed"),
    [
        ("data", {}),
        ("journal", {"parts": (1, 5, 2)}),
        ("flush", {"parts": (1, 2, 5)}),
        ("writer", {"parts": (1, 5, 2), "written": {"cp": 60, OWN: 40}}),
        ("writer", {"written": {"write-back": 60, OWN: 40}}),
        ("data", {"written": {"journal": 60, OWN: 40}}),
        ("queue", {"written": {"cp": 60, OWN: 40}, "tag_share": 0.3}),
        ("limit", {"tag_share": 0.3, "is_limited": True}),
    ],
)
def test_the_reason_is_the_first_that_holds(expected, changed):
    chain = Chain(10, *changed.pop("parts", (5, 1, 1)), changed.pop("written", {OWN: 1}))
    assert reason(chain, **changed) == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_chain_is_named_in_every_language(language, golden):
    facts = [vars(Chain(10, 4.0, 5.0, 1.0, {"cp": 60, OWN: 40}))]
    chains = {"none": together(facts * 2), "bfq": Chain(5, 1.0, 0.0, 0.0, {"write-back": 9})}
    text = "\n".join(sentences(Texts(language), chains))
    golden(f"durable-{language}.txt", text.replace("\u00a0", " ") + "\n")


def test_a_watched_device_names_what_calls_waited_for():
    blocks = {"groups": [], "depth": {"limits": {"mean": 0.0}}, "elapsed_ns": 1_200_000_000}
    limited = {**blocks, "depth": {"limits": {"mean": 0.5}}}  # while one call waits all the time
    assert durable_facts(seen(1200, cp=900), limited)["reason"] == "limit"
    facts = durable_facts(seen(1200, cp=900, own=100), blocks)
    assert facts["reason"] == "writer"
    result = {
        "device": "sda", "scheduler": "none", "elapsed_ns": 1_000_000_000, "classes": [],
        "groups": [], "lost": {"untraced": 0},
        "depth": {name: {"mean": 0.0} for name in ("driver", "scheduler")},
        "accounting": {"gap_sectors": 0, "device_sectors": None}, "durability": facts,
    }  # fmt: skip
    text = "\n".join(lines(result))
    assert "fsync: p50 1 ms, p99 1 ms" in text
    assert "50% for data, 30% for the journal, 20% for the flush" in text
    assert "the writes of cp: 90% of all bytes meanwhile" in text
