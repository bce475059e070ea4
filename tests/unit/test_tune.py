"""Tuning without a kernel: simulated objectives with noise, racing, constraints, resuming."""

import math
import random
from dataclasses import replace

import pytest

pytest.importorskip("optuna")

from schedlab.analyse.looks import boundaries
from schedlab.errors import SpecError
from schedlab.nouns import (
    Candidate,
    Experiment,
    GateFinding,
    Run,
    Target,
    Workload,
    metric_named,
)
from schedlab.report import tune_page
from schedlab.report.tune_page import Trial
from schedlab.tune.goal import (
    Constraint,
    observed,
    score,
    violation,
)
from schedlab.tune.race import BLOCKS_MOST, LOOKS, Noise, decide, interval
from schedlab.tune.search import STARTUP, Contender, Match, Observation, Search
from schedlab.tune.space import (
    TABLE,
    SchedulerSpace,
    Space,
    table_space,
)

NOISE = 0.1
BLOCKS = 150


def small_space():
    """Three tunables of mq-deadline with the kernel's defaults."""
    usual = {"fifo_batch": 16, "read_expire": 500, "read_ahead_kb": 128}
    (space,) = table_space(["mq-deadline"], only=tuple(usual)).schedulers
    tunables = tuple(replace(t, default=usual[t.name]) for t in space.tunables)
    return Space((SchedulerSpace("mq-deadline", tunables),))


def advantage(settings, effect):
    """log of the ratio to the default; the optimum, `effect`, is at read_ahead_kb = 4096."""
    distance = math.log(settings.get("read_ahead_kb", 128) / 4096)
    at_default = math.exp(-(math.log(128 / 4096) ** 2) / 4)
    return effect * (math.exp(-(distance**2) / 4) - at_default) / (1 - at_default)


def noisy_observation(search, ask, effect, rng):
    """What a block shows: three runs with 10 % noise each."""
    challenger = advantage(ask.settings, effect) + rng.gauss(0, NOISE)
    base = advantage(search.entries[ask.incumbent].settings, effect)
    incumbent, again = base + rng.gauss(0, NOISE), base + rng.gauss(0, NOISE)
    return Observation(challenger - incumbent, aa=again - incumbent if ask.has_aa else None)


def searched(seed, effect, blocks=BLOCKS):
    rng = random.Random(seed)
    search = Search(small_space(), {"scheduler": "mq-deadline"}, seed)
    while not search.is_over and search.blocks < blocks and (ask := search.ask()):
        search.tell(ask, noisy_observation(search, ask, effect, rng))
    return search


def test_a_resumed_search_asks_what_the_first_would_have_asked():
    rng, blocks = random.Random(5), []
    first = Search(small_space(), {"scheduler": "mq-deadline"}, 5)
    for _ in range(60):
        ask = first.ask()
        blocks.append((ask, noisy_observation(first, ask, 0.3, rng)))
        first.tell(*blocks[-1])
    second = Search(small_space(), {"scheduler": "mq-deadline"}, 5)
    for ask, seen in blocks:
        second.tell(ask, seen)
    assert second.ask() == first.ask()
    assert second.incumbent == first.incumbent
    assert [e.offset for e in second.entries] == [e.offset for e in first.entries]


def test_a_block_that_was_torn_off_is_asked_again():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    ask = search.ask()
    again = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    again.skip(ask)
    assert again.ask() == replace(ask, block=1, has_aa=False)
    with pytest.raises(SpecError, match="does not continue"):
        again.tell(replace(ask, challenger=7), Observation(0.1))


def test_a_bad_challenger_gets_one_block_and_a_good_one_several():
    quiet = Noise(40 * 0.02**2, 40)
    assert decide([-0.5], quiet, 0.02) == "drop"
    assert decide([0.5], quiet, 0.02) == "more"  # a single block promotes no setting
    assert decide([0.5, 0.52, 0.49, 0.51], quiet, 0.02) == "promote"
    assert decide([0.06, 0.08], Noise(40 * 0.1**2, 40), 0.02) == "more"
    # Most settings change nothing: one that does not clearly lead goes.
    assert decide([0.03, 0.05], Noise(40 * 0.1**2, 40), 0.02) == "drop"
    assert decide([0.0] * BLOCKS_MOST, Noise(4.0, 40), 0.02) == "drop"
    assert interval([0.1], Noise()).high == math.inf
    # Two noisy blocks of its own keep a challenger from winning by the quiet of the others.
    assert decide([0.05, 0.95], quiet, 0.02) == "more"


def test_racing_keeps_its_level():
    """Equal settings become the incumbent in at most 5 of 100 races."""
    rng = random.Random(1)
    promoted = 0
    for _ in range(400):
        noise = Noise(30 * 2 * NOISE**2, 30)
        differences = []
        decision = "more"
        while decision == "more":
            differences.append(rng.gauss(0, NOISE * math.sqrt(2)))
            decision = decide(differences, noise.with_differences(differences), 0.02)
        promoted += decision == "promote"
    assert promoted <= 20


def test_a_setting_that_fails_or_misses_a_constraint_is_no_finalist():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    failed = search.ask()
    search.tell(failed, Observation(None))
    for _ in range(2):
        ask = search.ask()
        search.tell(ask, Observation(0.5 + ask.block / 1000, violation=0.3))
    assert search.entries[ask.challenger].feasible is False
    assert search.incumbent == 0
    assert search.finalists() == []
    assert search.challenger is None


def test_an_incumbent_that_misses_the_constraint_gives_way():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    for _ in range(2):
        assert search.incumbent == 0  # one block may be luck
        ask = search.ask()
        search.tell(ask, Observation(-0.2, violation=-0.1, incumbent_violation=0.4))
    assert search.incumbent == ask.challenger


def test_a_race_is_decided_by_these_lines():
    quiet = Noise(40 * 0.02**2, 40)
    assert decide([], quiet, 0.02) == "more"
    assert decide([0.5, 0.5], quiet, 0.02) == "promote"
    assert decide([0.5, 0.5], quiet, 0.6) == "drop"  # all within the margin
    assert decide([0.5] * BLOCKS_MOST, Noise(4e4, 40), 0.02) == "drop"
    assert decide([5.0] * (BLOCKS_MOST - 1), Noise(40 * 8.0**2, 40), 0.02) == "more"
    # It must lead by half a standard error above the margin.
    assert [decide([x] * 4, Noise(40 * 0.4**2, 40), 0.02) for x in (0.119, 0.121)] == [
        "drop", "more",
    ]  # fmt: skip


def test_noise_is_pooled_around_the_mean_of_each():
    noise = Noise().with_differences([0.9])
    assert (noise, noise.spread, noise.half_width(1, 0.05)) == (Noise(), math.inf, math.inf)
    noise = noise.with_differences([1.0, 2.0, 3.0])
    assert (noise.squares, noise.freedom, noise.spread) == (2.0, 2, 1.0)
    noise = noise.with_aa(2.0)
    assert (noise.squares, noise.freedom) == (6.0, 3)
    assert noise.half_width(1, 0.05) == pytest.approx(2 * noise.half_width(4, 0.05))
    estimate = interval([1.0, 3.0], Noise(0.02, 200))
    assert estimate.low + estimate.high == pytest.approx(2 * estimate.mean) == 4.0
    assert estimate.sure_low < estimate.low < 2.0
    half = Noise(0.02, 200).half_width(2, boundaries(LOOKS)[1])  # the level of the second look
    assert estimate.high - estimate.mean == pytest.approx(half)
    assert interval([1.0] * 3, Noise(0.02, 200)).sure_low < 1.0


def searching(entries, incumbent=0, **options):
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1, **options)
    search.entries[1:] = [
        Contender(number, {"scheduler": "mq-deadline", "fifo_batch": number}, **each)
        for number, each in enumerate(entries, 1)
    ]
    search.incumbent = incumbent
    return search


def test_the_finalists_are_the_best_that_work_and_not_the_luckiest():
    search = searching(
        [
            {"offset": 0.30, "differences": [0.30] * 4},
            {"offset": 0.29, "differences": [0.35]},  # one lucky block
            {"offset": 0.29, "differences": [0.32] * 4},
            {"offset": 0.29, "differences": [0.4, 0.2, 0.26, 0.26]},
            {"offset": 0.29, "differences": [0.9] * 4, "failed": True},
            {"offset": 0.29, "differences": [0.9] * 4, "violations": [-0.1, 0.2]},
            {"offset": 0.27, "differences": [0.9] * 4},  # it lost
            {"offset": 0.29},
        ],
        incumbent=1,
    )
    assert [each.number for each in search.finalists()] == [1, 3, 2]
    lost = [{"offset": -0.01, "differences": [x]} for x in (-0.2, -0.1)]
    assert [each.number for each in searching(lost).finalists()] == [2]
    later = searching([{"offset": 0.3, "differences": [0.1], "reference": r} for r in (0.0, 0.2)])
    assert [each.number for each in later.finalists()] == [2, 1]


def test_an_estimate_is_against_the_default():
    search = searching([{"reference": 0.2, "differences": [0.1, 0.3]}])
    estimate = search.interval_of(1)
    plain = interval([0.1, 0.3], search.pooled(search.entries[1]))
    assert [estimate.mean, estimate.low, estimate.high, estimate.sure_low] == pytest.approx(
        [each + 0.2 for each in (plain.mean, plain.low, plain.high, plain.sure_low)]
    )
    assert search.interval_of(0) is None


def test_first_each_tunable_goes_to_both_ends_alone_and_nothing_is_tried_twice():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 2**32 + 1, stall=12)
    tunables = {t.name: t for t in small_space().tunables_of("mq-deadline")}
    tried = []
    while not search.is_over:
        ask = search.ask()
        assert ask == search.ask()
        assert (ask.block, ask.challenger, ask.incumbent) == (len(tried), len(tried) + 1, 0)
        assert ask.has_aa == (ask.block in (0, 4, 8))
        tried.append({name: value for name, value in ask.settings.items() if name in tunables})
        search.tell(ask, Observation(-0.5 + 0.01 * len(tried[-1])))
    assert len(tried) == 12
    ends = [{name: end} for name, t in tunables.items() for end in (t.low, t.high)]
    assert sorted(map(str, tried[:6])) == sorted(map(str, ends))
    assert len(set(map(str, tried))) == 12
    for each in tried:
        assert all(tunables[name].low <= v <= tunables[name].high for name, v in each.items())
    assert any(len(each) > 1 for each in tried[6:])
    importance = search.importance("mq-deadline")
    assert set(importance) == set(tunables)
    assert sum(importance.values()) == pytest.approx(1)


def test_each_scheduler_is_first_tried_as_it_is():
    (kyber,) = table_space(["kyber"], only=("read_lat_nsec",)).schedulers
    space = Space((SchedulerSpace("none", ()), kyber))
    search = Search(space, {"scheduler": "bfq"}, 1)
    seen = []
    for _ in range(4):
        seen.append(search.ask())
        search.tell(seen[-1], Observation(-0.5))
    assert [ask.settings for ask in seen[:2]] == [{"scheduler": "none"}, {"scheduler": "kyber"}]
    assert all(set(ask.settings) == {"scheduler", "read_lat_nsec"} for ask in seen[2:])
    assert search.importance("kyber") == search.importance("none") == {}


def test_a_winner_becomes_the_incumbent_from_which_the_next_step_goes():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    first = search.ask()
    while search.incumbent == 0:
        ask = search.ask()
        assert (ask.challenger, ask.block < BLOCKS_MOST) == (1, True)
        search.tell(ask, Observation(0.5, aa=0.01 if ask.has_aa else None))
    assert (search.incumbent, search.since_incumbent) == (1, 0)
    winner = search.entries[1]
    assert len(winner.differences) >= 2
    assert 0.4 < winner.offset < 0.5  # less than was seen: it is the best of many
    ask = search.ask()
    assert (ask.challenger, ask.incumbent, ask.block) == (2, 1, len(winner.differences))
    assert search.entries[2].reference == winner.offset
    assert first.settings.items() <= ask.settings.items()
    search.tell(ask, Observation(None))
    assert (search.since_incumbent, search.entries[2].failed) == (1, True)
    assert search.entries[2].offset == winner.offset - 1
    other = search.ask()
    search.tell(other, Observation(0.0))
    assert search.entries[3].offset == winner.offset


def test_a_setting_that_misses_a_constraint_never_wins_even_against_a_worse_one():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    ask = search.ask()
    blocks = 0
    while search.challenger is not None:
        search.tell(search.ask(), Observation(0.5, violation=0.3, incumbent_violation=0.4))
        blocks += 1
    assert (search.incumbent, search.entries[ask.challenger].feasible) == (0, False)
    assert 2 <= blocks <= BLOCKS_MOST
    assert search.entries[0].violation == pytest.approx(0.4)


def test_one_block_that_misses_a_constraint_may_be_bad_luck():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    ask = search.ask()
    search.tell(ask, Observation(0.5, violation=0.3))
    assert search.challenger == ask.challenger
    search.tell(search.ask(), Observation(0.5, violation=0.3))
    assert (search.challenger, search.incumbent) == (None, 0)


def test_a_setting_within_the_limit_may_be_nearer_to_it_than_the_incumbent():
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1)
    ask = search.ask()
    while search.challenger is not None:
        search.tell(search.ask(), Observation(0.5, violation=-0.1, incumbent_violation=-2.0))
    assert search.incumbent == ask.challenger


def test_no_tunable_of_the_table_has_values_below_zero_and_flags_are_0_or_1():
    tunables = {tunable.name: tunable for each in TABLE.values() for tunable in each}
    assert min(tunable.low for tunable in tunables.values()) == 0
    for flag in ("front_merges", "low_latency", "strict_guarantees"):
        assert (tunables[flag].low, tunables[flag].high) == (0, 1)


def test_steps_along_one_tunable_are_over_after_the_start(monkeypatch):
    search = Search(small_space(), {"scheduler": "mq-deadline"}, 1, stall=STARTUP + 6)
    steps = []
    step = Search._step
    monkeypatch.setattr(Search, "_step", lambda self: steps.append(len(self.entries)) or step(self))
    while not search.is_over:
        search.tell(search.ask(), Observation(-0.5))
    assert steps == list(range(1, STARTUP + 2))
    assert len(search.entries) == STARTUP + 7


def test_a_small_space_ends():
    (space,) = table_space(["bfq"], only=("low_latency",)).schedulers
    tunables = (replace(space.tunables[0], default=1),)
    search = Search(Space((SchedulerSpace("bfq", tunables),)), {"scheduler": "bfq"}, 1)
    rng = random.Random(1)
    while not search.is_over and (ask := search.ask()):
        search.tell(ask, Observation(rng.gauss(0, 0.1)))
    assert [e.settings for e in search.entries] == [
        {"scheduler": "bfq"},
        {"scheduler": "bfq", "low_latency": 0},
    ]


def experiment():
    work = Workload("r", "random-reads", "iops", secondary=("latency_ns_p99",))
    other = Workload("w", "file-test", "throughput_bytes_per_s")
    return Experiment(
        "t", "io", Target("scratch", size_bytes=1 << 20),
        (Candidate("none", {"scheduler": "none"}),), (work, other), "none", 1,
    )  # fmt: skip


OFFERED = {"r": ("iops", "latency_ns_p99"), "w": ("throughput_bytes_per_s",)}


def test_the_score_weighs_the_workloads_and_leaves_out_controls():
    one, two = experiment().workloads
    third = Workload("c", "file-test", "iops", negative_control=True)
    works = (replace(one, weight=3.0), replace(two, metric="elapsed_s"), third)
    weighed = replace(experiment(), workloads=works)
    runs = {"r": run(0, "r", "x", iops=math.e), "w": run(0, "w", "x", elapsed_s=math.e**2)}
    assert score(weighed, runs) == pytest.approx((3 * 1 - 1 * 2) / 4)
    slow = {**runs, "r": run(0, "r", "x", iops=1 / math.e)}
    assert score(weighed, slow) == pytest.approx((3 * -1 - 1 * 2) / 4)
    assert score(weighed, {"r": runs["r"]}) is None
    assert score(weighed, {**runs, "w": run(0, "w", "x", elapsed_s=0.0)}) is None
    assert score(replace(weighed, workloads=(third,)), runs) is None
    limits = [Constraint("iops", math.e**2, True, ""), Constraint("elapsed_s", math.e, True, "")]
    assert violation(limits, runs.values()) == pytest.approx(1.0)
    assert violation(limits, [runs["r"]]) == pytest.approx(-1.0)
    assert violation(limits, []) == violation([], runs.values()) == 0.0


def run(block, workload, candidate, **metrics):
    return Run(block, 0, workload, candidate, 1, 1, "ok", "", 1.0, metrics)


def test_a_block_becomes_an_observation():
    ask = Match(2, 1, 0, {"scheduler": "bfq"}, True)
    limit = Constraint("latency_ns_p99", 1e6, True, "latency_ns_p99<1ms")
    runs = [
        run(2, "r", "none", iops=100.0, latency_ns_p99=5e5),
        run(2, "w", "none", throughput_bytes_per_s=100.0),
        run(2, "r", "none (A/A)", iops=100.0 * math.e, latency_ns_p99=5e5),
        run(2, "w", "none (A/A)", throughput_bytes_per_s=100.0),
        run(2, "r", "bfq", iops=200.0, latency_ns_p99=2e6),
        run(2, "w", "bfq", throughput_bytes_per_s=100.0),
        run(1, "r", "bfq", iops=1.0, latency_ns_p99=1.0),
    ]
    labels = ("bfq", "none", "none (A/A)")
    observation = observed(ask, labels, experiment(), [limit], runs)
    assert observation.difference == pytest.approx(math.log(2) / 2 - 0.25)
    assert observation.aa == pytest.approx(0.5)
    assert observation.violation == pytest.approx(math.log(2))
    assert observation.incumbent_violation == pytest.approx(-math.log(2))
    plain = observed(replace(ask, has_aa=False), labels, experiment(), [limit], runs)
    assert (plain.difference, plain.aa) == (pytest.approx(math.log(2) / 2), None)
    failed = observed(ask, labels, experiment(), [limit], [r for r in runs if r.workload == "r"])
    assert failed is None  # the incumbent has no value, so the block says nothing
    missing = [r for r in runs if (r.workload, r.candidate) != ("w", "bfq")]
    assert observed(ask, labels, experiment(), [limit], missing) is None  # nothing is known
    for gate, fatal in (("others", True), ("io-errors", False), ("io-errors", True)):
        is_failure = fatal and gate == "io-errors"
        finding = GateFinding(gate, "", fatal=fatal)
        torn = replace(run(2, "w", "bfq"), status="discarded", gates=(finding,))
        seen = observed(ask, labels, experiment(), [limit], [*missing, torn])
        assert (seen is not None and seen.difference is None) is is_failure


def trial(label, first, second):
    return Trial(label, label, 1, 0.0, None, None, True, False, first, second)


def test_the_front_holds_what_no_other_beats_on_both():
    metrics = (metric_named("iops"), metric_named("latency_ns_p99"))
    trials = [trial("a", 100, 5), trial("b", 90, 6), trial("c", 80, 2), trial("d", None, 1)]
    assert [t.label for t in tune_page.front(trials, metrics)] == ["a", "c"]


def test_without_optuna_there_is_a_hint(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SpecError, match="optuna") as error:
        Search(small_space(), {"scheduler": "none"}, 1)
    assert error.value.hint == (
        "pip install optuna scikit-learn; with pipx: pipx inject schedlab optuna scikit-learn"
    )


# The slow ones come last, so that a wrong line is mostly noticed by a quick one.


def test_a_known_optimum_is_found_through_noise():
    """A setting with at least 70 % of what can be gained is among the best three."""
    effect = 0.4
    best = []
    for seed in range(6):
        search = searched(seed, effect)
        best.append(max(advantage(each.settings, effect) for each in search.finalists()))
    assert sum(each >= 0.7 * effect for each in best) >= 5, best


def test_the_tunable_that_matters_is_the_important_one():
    importance = searched(3, 0.8).importance("mq-deadline")
    assert max(importance, key=importance.get) == "read_ahead_kb"
    assert sum(importance.values()) == pytest.approx(1)


def test_without_effect_the_fresh_measurement_says_so():
    """The search may be fooled; the final measurement must not be: at least 9 of 10."""
    from schedlab.analyse.answer import answer
    from schedlab.nouns import Samples

    fooled = 0
    for seed in range(10):
        search = searched(seed, 0.0, blocks=40)
        rng = random.Random(seed + 1000)
        names = ["default", *(f"#{each.number}" for each in search.finalists())]
        rows = [(block, name) for block in range(8) for name in (*names, "default (A/A)")]
        samples = Samples(
            "reads", metric_named("throughput_bytes_per_s"),
            tuple(name for _, name in rows), tuple(block for block, _ in rows),
            tuple(1e8 * math.exp(rng.gauss(0, NOISE)) for _ in rows),
        )  # fmt: skip
        of = answer([samples], baseline="default", aa=("default", "default (A/A)"))
        fooled += of.base_loss is not None
    assert fooled <= 1
