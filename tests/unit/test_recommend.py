"""Whether a scheduler can matter to an observed load."""

from collections import Counter
from dataclasses import replace

import pytest

from schedlab.app.live.recommend import Observed, Queue, Sender, lines
from schedlab.run.live.live_figures import Flow, Look


def observed(depth_mean, depth_max, tags=32, **programs):
    flows = {(name, "read"): Flow(n, 4096 * n, 1000 * n, Counter({(1000, 1249): n}))
             for name, n in programs.items()}  # fmt: skip
    queue = Queue("sdx", "bfq", ("none", "bfq", "kyber"), tags, depth_mean, depth_max, depth_max)
    senders = tuple(Sender(name, 7 + k, "/a", n) for k, (name, n) in enumerate(programs.items()))
    return Observed("/dev/sdx", (queue,), Look(10.0, flows), senders)


def of_two(load, first, second):
    """The load sent by two processes of one name."""
    senders = (Sender("db", 7, "/a", first), Sender("db", 8, "/b", second))
    return replace(load, senders=senders)


@pytest.mark.parametrize(
    ("load", "code"),
    [
        (observed(0, 0), "idle"),
        (observed(0.01, 2, db=9), "idle"),
        (observed(0.5, 2, db=9), "alone"),
        (observed(0.01, 2, db=10), "alone"),
        (of_two(observed(3, 9, db=100), 50, 50), "shared"),
        (of_two(observed(3, 9, db=100), 99, 1), "alone"),
        (
            replace(observed(3, 9, db=100), figures=Look(10.0, gap_sectors=2, sectors=1000)),
            "unknown",
        ),
        (observed(0.5, 1, db=100), "one-at-a-time"),
        (observed(3, 9, db=100, cron=1), "alone"),
        (observed(3, 9, db=100, backup=50), "shared"),
        (observed(3, 32, db=100), "waits"),
        (observed(3, 31, db=100), "alone"),
        (observed(40, 99, tags=0, db=100), "alone"),
    ],
)
def test_what_a_scheduler_could_decide(load, code):
    assert load.code == code
    is_open = code not in ("unknown", "idle", "one-at-a-time")
    assert any("Next" in line for line in lines(load)) == is_open
    assert any("does not add up" in line for line in lines(load)) == (code == "unknown")


def test_a_file_system_is_idle_where_all_its_queues_together_are():
    quiet = observed(0.03, 2, db=9)
    assert [replace(quiet, queues=quiet.queues * n).code for n in (1, 2)] == ["idle", "alone"]
    deep, flat = observed(3, 9, db=100), observed(0.5, 1, db=100)
    assert replace(deep, queues=deep.queues + flat.queues).code == "alone"


def test_a_program_is_shown_from_a_share_of_all_requests_on():
    assert observed(3, 9, db=600, cron=21, log=500, cp=23).programs == ["db", "log", "cp"]


def test_a_device_with_a_fitted_file_ends_in_a_prediction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load = observed(3, 9, db=100, backup=50)
    assert not any("schedlab predict" in line for line in lines(load))
    for content in (b'model = "disk"\n', b"\xff\n[fit]"):
        (tmp_path / "sdx.toml").write_bytes(content)
        assert load.predict_command() == []
    (tmp_path / "sdx.toml").write_text('model = "disk"\n\n[fit]\ndevice = "/dev/sdx"\n')
    last = list(lines(load))[-1].strip()
    assert (
        last == "schedlab predict --device sdx.toml --trace load.trace --schedulers bfq,none,kyber"
    )
