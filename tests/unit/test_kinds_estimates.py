"""Every kind of workload: its estimated time, the bytes it uses, the limits of its options, and
the errors of what does not fit; figures worked out by hand."""

import pytest

from schedlab.errors import SpecError, nearest
from schedlab.kinds import KINDS, declared, overrides, typed
from schedlab.kinds.resolved import IoGroup
from schedlab.kinds.weights import Weights
from schedlab.nouns import Candidate, Workload

MIB = 1 << 20
REQUIRED = {
    "calls": {"block_bytes": 4096}, "device-timings": {"timing": "buffered"},
    "file-test": {"test": "read"},
}  # fmt: skip


def made(kind, **parameters):
    """A workload of that kind with these parameters, beside those that it needs."""
    return typed(Workload("w", kind, "", {**REQUIRED.get(kind, {}), **parameters}))


# kind -> pairs of parameters and the estimated seconds
ESTIMATES = {
    "archive-extraction": [
        ({"size_bytes": 250_000_000}, 2.5), ({"size_bytes": 30_000_000}, 0.5),
        ({"size_bytes": 60_000_000}, 0.6),
    ],
    "cached-reads": [({"seconds": 3.0}, 3.1)],
    "live-load": [({"seconds": 7.0, "wash_out_s": 3.0}, 10.0)],
    "calculation": [({"seconds": 7.0, "processes": 3}, 7.0), ({"processes": 3}, 0.3)],
    "calls": [
        ({"calls": 2000}, 2.05), ({"calls": 2000, "mode": "buffered+fsync"}, 2.05),
        ({"calls": 2000, "mode": "direct"}, 0.07), ({"total_bytes": 4096 * 500 + 4095}, 0.55),
    ],
    "command": [({}, 1.0)],
    "copy-beside-desktop": [({"lead_seconds": 0.25, "limit_seconds": 5.0}, 2.75)],
    "cpu-command": [({}, 1.0)],
    "database": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
    "device-queue": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
    "device-timings": [
        ({}, 3.0), ({"timing": "cached"}, 2.0), ({"seconds": 0.7}, 0.7),
    ],
    "file-test": [
        ({"seconds": 0.7}, 0.7), ({"seconds": 0}, 2.0), ({"test": "re-read", "seconds": 0.7}, 1.7),
        ({"test": "write", "seconds": 0.7}, 1.7), ({"test": "rewrite", "seconds": 0}, 3.0),
        ({"test": "random-write", "seconds": 0.7}, 0.7), ({"test": "mixed", "seconds": 0.7}, 0.7),
    ],
    "fio-job": [({}, 1.0)],
    "fork-storm": [({"slots": 3, "children": 50, "work_us": 700.0}, 0.48)],
    "groups": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.45)],
    "messaging": [({"pairs": 3, "rounds": 7000}, 0.93)],
    "mixed": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.45)],
    "newcomer": [
        ({"lead_seconds": 0.25, "requests": 70, "limit_seconds": 1.5}, 0.95),
        ({"lead_seconds": 0.25, "requests": 160, "limit_seconds": 1.5}, 1.75),
    ],
    "pipe": [({"rounds": 40_000}, 0.7)],
    "random-reads": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
    "reader-beside-writers": [
        ({"seconds": 3.0, "ramp_seconds": 0.25}, 3.35),
        ({"seconds": 3.0, "ramp_seconds": 0.25, "primed": False}, 3.25),
    ],
    "readers-together": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
    "disk": [({}, 1.0)],
    "host-queue": [({}, 1.0)],
    "ssd": [({}, 1.0)],
    "startup": [({"ramp_seconds": 0.25}, 1.25)],
    "throttled-reads": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
    "trace-replay": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.35)],
    "wakeup": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.45)],
    "weights": [({"seconds": 3.0, "ramp_seconds": 0.25}, 3.25)],
}  # fmt: skip


def test_the_estimated_time_of_every_kind():
    for kind, cases in ESTIMATES.items():
        for parameters, seconds in cases:
            work = made(kind, **parameters)
            assert work.estimate_s() == pytest.approx(seconds, rel=1e-12), (kind, parameters)


def test_what_every_kind_is(golden):
    """Of a target of 80 MiB: the bytes it uses, also with a span; whether it writes; its needs."""
    facts = ("needs_files", "brings_files", "bypasses_cache")
    lines = []
    for kind in sorted(ESTIMATES):
        cls = KINDS[kind]
        used = [made(kind).used_bytes(80 * MIB)] if kind != "calls" else []
        if "span_bytes" in cls.__struct_fields__ and kind != "cached-reads":
            spans = (5000, 90 * MIB)
            used += [made(kind, span_bytes=span).used_bytes(80 * MIB) for span in spans]
        said = ["writes"] if made(kind).writes() else []
        said += [name for name in facts if getattr(cls, name)]
        least = f"at least {cls.shortest_s:g} s"
        lines.append("  ".join([f"{kind}:", f"uses {used}", least, *said]))
    golden("kinds.txt", "\n".join(lines))
    cached = made("cached-reads", cached_bytes=5000)
    assert (cached.used_bytes(MIB), cached.used_bytes(4000)) == (5000, 4000)
    assert made("calls", block_bytes=300, calls=7).used_bytes(MIB) == 2100
    assert made("calls", block_bytes=300, total_bytes=1000).used_bytes(MIB) == 900
    assert not made("calls", direction="read").writes()
    writing = {"read": False, "stride-read": False, "mixed": True, "rewrite": True}
    assert {test: made("file-test", test=test).writes() for test in writing} == writing


def test_what_a_kind_asks_for_beside_its_processes():
    assert [kind for kind in ESTIMATES if made(kind).device_commands()] == ["device-queue"]
    assert made("device-queue", commands=7).device_commands() == 7
    assert {kind for kind in ESTIMATES if made(kind).groups()} == {"throttled-reads", "weights"}
    throttled = made("throttled-reads", limit_bytes_per_s=777)
    assert throttled.groups() == (IoGroup("limited", 0, 777),)
    weights = Weights(favoured_weight=300, other_weight=7)
    assert weights.groups() == (IoGroup("favoured", 300, 0), IoGroup("other", 7, 0))
    assert Weights(priority="rt-be").groups() == ()
    assert made("newcomer").notes("w") == () == made("newcomer").programs()
    assert made("newcomer").own_metrics() == {}


@pytest.mark.parametrize(
    ("kind", "parameters", "message", "hint"),
    [
        ("random-readers", {}, "kind 'random-readers' is not known", "did you mean 'random-reads'"),
        ("zzz", {}, "kind 'zzz' is not known", f"known: {', '.join(sorted(KINDS))}"),
        ("newcomer", {"writer": 1}, "newcomer has no parameter 'writer'", "did you mean 'writers'"),
        ("newcomer", {"writer": 1, "request": 2}, "newcomer has no parameter 'writer'", "writers"),
        ("newcomer", {"limit": 1}, "newcomer has no parameter 'limit'", "known: lead_seconds, "),
        ("cpu-comand", {}, "kind 'cpu-comand' is not known", "did you mean 'cpu-command'?"),
        ("newcomer", {"record_bytes": "4 elephants"}, "record_bytes: '4 elephants' is not", "64k"),
        ("newcomer", {"writers": 1025}, "writers: expected `int` <= 1024", "#newcomer"),
        ("newcomer", {"writers": "two"}, "writers: expected `int`, got `str`", "#newcomer"),
        ("weights", {"priority": "be-idel"}, "priority: invalid enum", "did you mean 'be-idle'"),
        ("file-test", {}, "file-test: object missing required field `test`", "md#file-test"),
        ("file-test", {"test": "7"}, "test: invalid enum value '7'", "known: mixed, random-read, "),
    ],
)
def test_what_is_no_workload_is_named_with_the_nearest(kind, parameters, message, hint):
    with pytest.raises(SpecError) as error:
        typed(Workload("mine", kind, "", parameters))
    assert str(error.value).startswith(f"workload 'mine': {message}")
    assert hint in (error.value.hint or "")


def test_a_candidate_takes_the_place_of_a_parameter():
    candidate = Candidate("c", {"workload.seconds": "1.5s", "scheduler": "bfq"})
    assert overrides(candidate) == {"seconds": "1.5s"}
    assert overrides(None) == {}
    work = typed(Workload("w", "newcomer", "", {"requests": 3}), Candidate("c", {}))
    assert getattr(work, "requests") == 3  # noqa: B009
    keys = {"workload.device_set.flash.channels": 2, "workload.device_set.buffer.size": 0}
    of_device = typed(Workload("w", "ssd", "", {"device_set": {"a": 1}}), Candidate("c", keys))
    assert of_device.device_set == {"a": 1, "flash.channels": 2, "buffer.size": 0}
    changed = typed(Workload("w", "database", "", {"seconds": 9, "reads": 2}), candidate)
    assert changed == KINDS["database"](seconds=1.5, reads=2)
    with pytest.raises(SpecError, match=r"^candidate 'c': kind"):
        typed(Workload("w", "no", "", {}), where="candidate 'c'")
    assert nearest("x", ["b", "a"]) == "known: a, b"


def test_metrics_of_two_workloads_with_one_name_are_the_same():
    def own(spec, label):
        return Workload(label, "command", "", {"argv": ["true"], "extract": [spec]})

    first = own("tps:1/s=stdout~(.*)", "a")
    assert set(declared([first, own("tps:1/s=stderr~(.*)", "b"), own("t:s=stdout~(.)", "c")])) == {
        "tps", "t",
    }  # fmt: skip
    with pytest.raises(SpecError, match="workload 'b': metric 'tps' has another unit") as error:
        declared([first, own("tps:s=stdout~(.*)", "b")])
    assert error.value.hint == "rename one of them"


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("calls", {}, "w: needs either calls or total_bytes of at least one block"),
        ("calls", {"calls": 1, "total_bytes": 8192}, "w: needs either calls or total_bytes"),
        ("calls", {"total_bytes": 4095}, "w: needs either calls or total_bytes"),
        ("file-test", {"depth": 2}, "w: engine 'psync' has one request in flight, not 2"),
        ("file-test", {"depth": 2, "engine": "mmap"}, "w: engine 'mmap' has one request"),
        ("weights", {"favoured_weight": 100},
         "w: favoured_weight = 100 is not above other_weight = 100"),
        ("weights", {"favoured_weight": 9, "other_weight": 10}, "w: favoured_weight = 9 is not"),
        ("archive-extraction", {"archive": "/no/such.tar"}, "w: /no/such.tar is not a file"),
        ("startup", {"program": "no-such x"}, "w: program 'no-such x' is not found"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_together(kind, parameters, message):
    with pytest.raises(SpecError) as error:
        made(kind, **parameters).check("w")
    assert str(error.value).startswith(message)
    assert error.value.hint


def test_options_that_fit_together(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    for kind, parameters in (
        ("calls", {"calls": 1}), ("calls", {"total_bytes": 4096}), ("file-test", {"depth": 1}),
        ("file-test", {"depth": 2, "engine": "io_uring"}),
        ("weights", {"favoured_weight": 101}),
        ("weights", {"favoured_weight": 1, "priority": "rt-be"}),
        ("archive-extraction", {"archive": str(tmp_path / "a.tar")}), ("archive-extraction", {}),
        ("startup", {"program": "sh -c true"}), ("startup", {}),
    ):  # fmt: skip
        made(kind, **parameters).check("w")
