"""Whole plans, drawn at random with several of everything: of a budget, of boots, of blocks; and
what is typed for them."""

import json
import math
import random
from dataclasses import replace

from whole import plain

from schedlab.design import boots, candidates, grid, io_families
from schedlab.design.plan import make_plan
from schedlab.design.planning import PilotRun, plan_budget
from schedlab.errors import SpecError
from schedlab.nouns import AA_SUFFIX, Candidate, Experiment, Metric, Stopping, Target, Workload
from schedlab.tune import goal, space

WORKS = ("random", "bulk", "alone", "control", "desk")
NAMES = ("none", "bfq", "kyber", "adios")


def asked(call, *of, **more):
    """What a call gives, or the words of its refusal."""
    try:
        return json.dumps(plain(call(*of, **more)))
    except SpecError as error:
        return f"refused: {error} | {error.hint}"


def pilot(rng):
    """The pilot block of some workloads: runs with bins or none, lengths and noises all other."""
    works = rng.sample(WORKS, rng.randint(2, 5))
    arms = rng.sample(NAMES, rng.randint(2, 4))
    arms += [arms[0] + AA_SUFFIX] if rng.random() < 0.6 else []
    for work in works:
        usual, bins, noise = rng.uniform(0.2, 9), rng.choice((0, 0, 20, 47)), rng.uniform(0.01, 0.4)
        for arm in arms:
            rates = tuple(rng.uniform(5, 9) for _ in range(bins and bins + rng.randint(0, 9)))
            spent = rng.uniform(0.1, 2), usual * rng.uniform(0.9, 1.1)
            if rng.random() < 0.95:
                value, shortest = rng.gauss(3, noise), rng.uniform(0.3, 2)
                yield PilotRun(work, arm, value, *spent, rates, shortest)


def foreseen(spread, blocks, names):
    return None if blocks < 3 else math.expm1(min(spread * names / math.sqrt(blocks), 5))


def test_plans_of_a_budget_are_what_they_were(golden):
    lines = []
    for seed in range(60):
        rng = random.Random(seed)
        runs, budget_s = [*pilot(rng)], rng.choice((20, 60, 120, 300, 900))
        weights = {work: float(rng.randint(1, 5)) for work in WORKS} if seed % 2 else None
        control, other = rng.sample(WORKS, 2)
        apart = {"controls": [control], "unordered": ["alone", other], "weights": weights}
        lines.append(f"{seed}: {asked(plan_budget, runs, budget_s, foreseen, **apart)}")
    golden("plans/budgets.txt", "\n".join(lines))


def experiment(names, works=2, **more):
    settings = tuple(Candidate(name, {"scheduler": name}) for name in names)
    each = tuple(Workload(work, "x", "iops", secondary=("latency_ns_p99",) * (at % 2))
                 for at, work in enumerate(WORKS[:works]))  # fmt: skip
    return Experiment("It", "io", Target("scratch"), settings, each, names[-1], 7, **more)


KINDS = tuple(boots.BootKind(*of) for of in (
    ("new", "6.18", "quiet quiet"), ("old kernel", "6.1"), ("one-cpu", "6.1", "maxcpus=1 nosmt"),
))  # fmt: skip
COMMAND_LINES = (
    "BOOT_IMAGE=/b quiet splash=1 splash=1", "splash=1 quiet a=2 quiet quiet",
    "maxcpus=1 b a b initrd=x splash=1", "nosmt splash=1 quiet maxcpus=1",
)  # fmt: skip


def test_plans_of_blocks_and_boots_are_what_they_were(golden):
    lines = []
    stops = (Stopping(blocks=5, may_extend=9), Stopping("until-decided", blocks=7), Stopping())
    for works, names, stopping in zip((3, 1, 2), (NAMES, NAMES[:3], NAMES[:2]), stops, strict=True):
        of = experiment(names, works, stopping=stopping, aa_arm=works != 1)
        for plan in (make_plan(of), make_plan(of, 2)):
            lines += [f"{plan.blocks} blocks, ends {plan.ends}", *map(str, plan.cells)]
    kinds = (KINDS, KINDS, KINDS[1:2])
    for count, of, ends in zip((3, 1, 2), kinds, ((2, 4), (3,), (2, 3)), strict=True):
        plan = boots.BootPlan(experiment(NAMES[:count]), of, ends, "quiet splash=1 splash=1")
        lines.append(f"{plan.boots} boots: {json.dumps(plain(plan.candidates))}")
        lines += [f"{at} {plan.round_of(at)} {plan.kind_of(at).label} {plan.folder_of(at)} "
                  f"{plan.experiment_of(at).seed}" for at in range(plan.boots)]  # fmt: skip
        lines += [f"{kind.label}: {boots.is_other(plan, kind, '6.1', line)}"
                  for kind in of for line in COMMAND_LINES]  # fmt: skip
    stops = (Stopping(), Stopping("precision", precision=0.1), Stopping(blocks=3, may_extend=5))
    for kind, stopping in zip(("sim", "io", "cpu"), stops, strict=True):
        of = replace(experiment(NAMES[:2]), kind=kind, stopping=stopping)
        for each in (KINDS[:2], KINDS[:1], (*KINDS[1:], KINDS[2])):
            lines.append(asked(boots.plan_boots, of, each, 4, "quiet", "reboot"))
    golden("plans/blocks-and-boots.txt", "\n".join(lines))


TYPED = """
none
none,,bfq
a=1
bfq:
bfq:=1
bfq:../x=1
../x
bfq:scheduler=none
none, mq-deadline:fifo_batch=32,writes_starved=4 ,bfq:low_latency=0,a=-1,b=1s
none,bfq,none,none
mq-deadline:fifo_batch=32,writes_starved=4,bfq:low_latency=0
bfq:a=1,b=x,c=-3,kyber:d=4,bfq:a=1,b=x,c=-3
none,a=1,=2
b fq
none:a=1,b=
zen=kyber sysctl.vm.dirty_bytes=100M cgroup.io.weight=300
none,bfq sysctl.vm.dirty_bytes=100M
bfq:a=1,b=2,c=3 d=4 b=5 c=6
sysctl.vm.x=1 sysctl.vm.y='a b' thp=never
x=6.1 cmdline='a b  c'
6.2 cmdline=q
cmdline='one two'
x=as-is
none a=1 b=2 a=3
none a=1 b
none 'a=1
mod=6.1 cmdline=x thp=never governor=y
knob.z=4 run='do it' undo=u"""
GRIDS = """{"label": "{test} {record_bytes}", "metric": "m",\
 "grid": {"test": ["read", "write"], "record_bytes": ["8k", "64k", 100]}}
{"settings": {"x": 1, "alpha": 9},\
 "grid": {"policy": ["fcfs", "tsb"], "alpha": [0.9, 1.0], "set.beta": [3, 2]}}
{"grid": {"size": [{"a": 1, "b": 2, "label": "small"}, {"a": 3, "c": 4}], "scheduler": ["s"]},\
 "label": "{size} of {scheduler}, {size}"}
{"label": "w {a}", "grid": {}}
{"grid": {"policy": ["s"], "workload.device_set.rpm": [5400], "many": [{"tags": 3}]}}
{"grid": [1]}
{"grid": {"a": [1], "b": []}}
{"grid": {"a": [1], "c": 3}}"""


def test_what_is_typed_for_a_plan_is_read_as_it_was(golden):
    lines = []
    for text in TYPED.splitlines():
        lines += [f"# {text}", asked(candidates.parse_candidates, text)]
        lines.append(f"{candidates.is_one(text)}: {asked(candidates.parse_candidate, text)}")
        lines.append(asked(boots.parse_kind, text, "6.9-running"))
    lines += [asked(grid.expanded, json.loads(table), inside, "here")
              for table in GRIDS.splitlines() for inside in ("settings", "parameters")]  # fmt: skip
    golden("plans/typed.txt", "\n".join(lines))


def test_workloads_of_families_are_what_they_were(golden, tmp_path):
    step = '[[process]]\nname = "{}"\nrecord = "{}KiB"\n'
    desk = tmp_path / "desk.toml"
    desk.write_text("".join(map(step.format, ("player", "browser", "tar"), (8, 4, 64))))
    sizes = (65536, 4096, 1 << 20)
    loads = (
        io_families.Load(("read", "write", "random-read"), sizes, 1 << 30, 2.5, 4, 2, True, "a.tar",
                         1 << 20, "gzip", "vim"),
        io_families.Load(("write",)),
    )  # fmt: skip
    names = (*((name,) for name in io_families.FAMILIES), ("timings", "weights"), (str(desk),))
    lines = [f"{objective} {of[0]}: {asked(io_families.workloads, of, load, objective)}"
             for objective in ("throughput", "latency", "fairness", "responsiveness")
             for of in (*names, ("no-such",)) for load in loads]  # fmt: skip
    golden("plans/families.txt", "\n".join(lines).replace(str(tmp_path), ""))


OFFERED = {
    "random": ("iops", "latency_ns_p99"), "bulk": ("throughput_bytes_per_s", "iops"),
    "alone": ("latency_ns_p99", "cpu_s"), "control": ("elapsed_s",),
}  # fmt: skip
GOALS = (
    ("iops", True, ("latency_ns_p99<5ms", "cpu_s>2s")), ("latency_ns_p99", False, ("iops>3k",)),
    ("", True, ("elapsed_s<1m", "iops>2", "cpu_s<4")), ("iops", False, ()),
    ("rss_bytes", False, ()), ("elapsed_s", False, ("elapsed_s<3s", "iops>2")),
    ("", True, ("iops~3",)), ("", True, ("cpu_s<x",)),
)  # fmt: skip
LIMITS = (
    "latency_ns_p99 < 5ms", "write_bytes_per_s>=50M", "elapsed_s<90s", " elapsed_s <= 2m ",
    "latency_ns_p99<0.5ms", "throughput_bytes_per_s>1M", "iops>=0.5", "tps>5", "tps>5m",
    "readers.read.iops>5", "latency_ns_p99<5", "latency_ns_p99", "iops<fast", "iops<0",
)  # fmt: skip
SPACES = (
    (("fifo_batch=2..64", "read_ahead_kb=1..900", "own=0..99"), ()),
    (("x=1..49", "y=1..50", "z=0..900", "read_lat_nsec=0..9", "slice_idle=0..4"), ()),
    (("rotational=0..1", "read_lat_nsec=1..9"), ("nr_requests",)), (("../x=1..2",), ()),
    (("own=3..400",), ("rotational", "low_latency", "nr_requests")),
    ((), ("write_expire", "wbt_lat_usec", "nope", "more")), (("a=3..2",), ()), (("b-c=5..",), ()),
)  # fmt: skip


def test_spaces_and_goals_of_tuning_are_what_they_were(golden):
    names, rng = ("mq-deadline", "bfq", "kyber", "none"), random.Random(2)

    def of_space(ranges, only):
        return space.table_space(names, [*map(space.parse_range, ranges)], only)

    lines = [asked(of_space, *each) for each in SPACES]
    for name in names * 3:
        values = space.few_changes(of_space(["own=5..6"], ()), name, rng)
        lines.append(f"{name}: {space.settings_of(of_space(['own=5..6'], ()), name, values)}")
    own = {name: Metric(name, unit, True, "") for name, unit in
           (("tps", "transactions/s"), ("readers.read.iops", "1/s"))}  # fmt: skip
    of = experiment(NAMES[:2], 4, notes=("first",), metrics=own)
    lines += [asked(goal.parse_constraint, text, of) for text in LIMITS]
    limit = goal.parse_constraint(LIMITS[0], of)
    lines.append(asked(lambda: [limit.violation(value) for value in (0, 1e3, 1e6, 1e7, 1e12)]))

    def of_goal(objective, higher, limits):
        each = [goal.parse_constraint(text, of) for text in limits]
        return goal.with_objective(of, OFFERED, objective, higher, each)

    golden("plans/tuning.txt", "\n".join([*lines, *(asked(of_goal, *each) for each in GOALS)]))
