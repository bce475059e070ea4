"""Whether a scheduler can matter to an observed load."""

from collections import Counter

import pytest

from schedlab.app.live.recommend import Observed, Queue, lines
from schedlab.run.live_figures import Flow, Look


def observed(depth_mean, depth_max, tags=32, **programs):
    flows = {(name, "read"): Flow(n, 4096 * n, 1000 * n, Counter({(1000, 1249): n}))
             for name, n in programs.items()}  # fmt: skip
    queue = Queue("sdx", "bfq", ("none", "bfq", "kyber"), tags, depth_mean, depth_max)
    return Observed("/dev/sdx", (queue,), Look(10.0, flows))


@pytest.mark.parametrize(
    ("load", "code"),
    [
        (observed(0, 0), "idle"),
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
    assert any("Next" in line for line in lines(load)) == (code not in ("idle", "one-at-a-time"))


def test_the_next_command_has_the_scheduler_in_force_first_and_what_all_queues_offer():
    load = observed(3, 9, db=100, backup=50)
    other = Queue("sdy", "none", ("none", "bfq"), 32, 1.0, 2)
    both = Observed("/srv/db", (*load.queues, other), load.figures)
    assert load.next_command()[-1] == "bfq,none,kyber"
    assert both.next_command() == ["schedlab", "live", "/srv/db", "--schedulers", "bfq,none"]
    assert both.replay_commands() == []
    assert list(lines(load))[-3:] == [
        "Next   schedlab live /dev/sdx --schedulers bfq,none,kyber",
        "Replay schedlab trace io /dev/sdx --seconds 60 --out load.trace",
        "       schedlab compare --trace load.trace --schedulers bfq,none,kyber",
    ]


def test_programs_stand_with_their_rates_and_sizes():
    text = list(lines(observed(3, 9, db=2000, backup=500)))
    assert text[0] == "/dev/sdx: 2,500 requests in 10 s"
    (row,) = [line for line in text if line.startswith("db")]
    assert row.split() == ["db", "read", "200", "4", "KiB", "0.001", "ms", "0.00125", "ms"]
