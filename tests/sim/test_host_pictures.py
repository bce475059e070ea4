"""Requests above a simulated device, read back: from the picture, the table and the log."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from golden import Golden

from schedlab.errors import SpecError
from schedlab.nouns import Candidate, Stopping
from schedlab.report.gantt import requests_chart
from schedlab.store.process_files import process_text
from schedlab_sim.cli.sim import sim
from schedlab_sim.device import device_text
from schedlab_sim.experiments import experiment_of, process_names
from schedlab_sim.results import HOST_LOG_DTYPE
from schedlab_sim.session import outcome_of
from schedlab_sim.simulation import Simulation, split_schedulers
from schedlab_sim.simulation_set import SimulationSet
from schedlab_sim.tables import aligned, host_table

MS = 1_000_000
FROM_MS = 200_000


def log_of(*rows: tuple[int, float, float, float, int]) -> Any:
    """Rows of (process, inserted, dispatched and completed in ms, sector), in their order."""
    log = np.zeros(len(rows), dtype=np.dtype(HOST_LOG_DTYPE))
    for at, (process, inserted, dispatched, completed, sector) in zip(log, rows, strict=True):
        at["process"], at["sector"] = process, sector
        at["inserted_ns"], at["dispatched_ns"] = round(inserted * MS), round(dispatched * MS)
        at["completed_ns"] = round(completed * MS)
    return log


def named(*names: str) -> dict[str, Any]:
    return {"processes": [{"name": name} for name in names]}


LATE = FROM_MS + 70
# Of a window of 770 ms on 770 pixels from 130 on, a millisecond is a pixel. Sector 1000 is 8 below
# the upper end of its 110 pixels, sector 0 is 8 above the axis.
PICTURES: dict[str, tuple[list[tuple[str, list[str], Any]], Any]] = {
    "two schedulers": (
        [
            ("A & <B>", ["x<y", "two"], log_of(
                (0, FROM_MS + 10, FROM_MS + 100.5, FROM_MS + 130, 0),
                (1, FROM_MS + 50, FROM_MS + 130, FROM_MS + 190.25, 1000),
                (0, FROM_MS + 140, FROM_MS + 200, FROM_MS + 200.2, 500),
            )),
            ("next", ["alone"], log_of((0, LATE, FROM_MS + 385, FROM_MS + 770, 4))),
        ],
        (FROM_MS, FROM_MS + 770),
    ),
    "what is outside of the window is cut or omitted": (
        [("none", ["one"], log_of(
            (0, 10, 20, 99.9, 10),  # over before the window
            (0, 10, 30, 100, 20),  # completed as it begins
            (0, 20, 50, 177, 30),
            (0, 110, 120, 870, 40),
            (0, 120, 870, 880, 50),
            (0, 130, 900, 990, 60),
            (0, 870, 871, 900, 70),  # inserted as it ends
            (0, 870.1, 880, 901, 80),  # begun after it
        ))],
        (100, 870),
    ),
    "the head in the order of dispatches": (
        [("none", ["one", "two"],
          log_of((0, 0, 300, 310, 1), (1, 0, 100, 320, 0), (0, 0, 200, 330, 1)))],
        (0, 770),
    ),
    "a device of one sector": ([("none", ["one"], log_of((0, 0, 300, 310, 0)))], (0, 770)),
    "nothing within the window": ([("none", ["one"], log_of((0, 0, 3, 310, 1)))], (500, 770)),
    "a window without length": ([("none", ["one"], log_of((0, 4, 5, 6, 7)))], (5, 5)),
    "colours repeat after eight": (
        [("none", [*"abcdefghij"], log_of(*((n, 10, 20, 30, n) for n in range(10))))], (0, 77)
    ),
    "a run without requests": ([("none", ["one"], log_of())], None),
    "of 4 to 9 ns, 8 is at four fifths": (
        [("none", ["one"], log_of((0, 0, 4e-6, 4e-6, 1), (0, 0, 5e-6, 8e-6, 1)))], None
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", PICTURES)
def test_pictures(title: str, golden: Golden) -> None:
    runs, window = PICTURES[title]
    svg = requests_chart([(name, named(*processes), log) for name, processes, log in runs], window)
    golden(f"gantt/{title.replace(' ', '-')}.svg", svg.replace("><", ">\n<"))


def test_every_scheduler_is_drawn_from_its_first_seed(tmp_path) -> None:
    pictures = []
    for seeds in ("1", "2"):
        chart = tmp_path / f"{seeds}.svg"
        words = ["run", "--device", "nvme", "--scheduler", "none;bfq", "--processes", "random32",
                 "--seconds", "0.01", "--seeds", seeds, "--gantt", str(chart)]  # fmt: skip
        assert CliRunner().invoke(sim, words, catch_exceptions=False).exit_code == 0
        pictures.append(chart.read_text())
    assert pictures[0] == pictures[1] and all(
        f">{name}<" in pictures[0] for name in ("none", "bfq")
    )


def test_at_most_1200_requests_are_drawn_of_a_scheduler() -> None:
    log = log_of(*((0, at / 10, at / 10, at / 10 + 0.05, at) for at in range(1300)))
    svg = requests_chart([("none", named("one"), log)], (10, 200))
    assert (svg.count("<title>one: "), svg.count("<circle")) == (1200, 1200)
    first, last = re.findall(r'<circle cx="([\d.]+)"', svg)[:: 1200 - 1]
    # The last of them is dispatched at 129.9 of 10 to 200 ms.
    assert float(first) == 130 and float(last) == pytest.approx(130 + 770 * 119.9 / 190, abs=1)


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        (1000, 500, 800),  # from the middle
        (620, 310, 610),
        (400, 100, 399),  # the last 300
        (301, 1, 300),
        (300, 0, 299),  # all
        (20, 0, 19),
        (1, 0, 0),
    ],
)
def test_without_a_window_300_requests_of_the_fastest_run_are_shown(
    count: int, first: int, last: int
) -> None:
    def completed(count: int, every: float) -> Any:
        times = [FROM_MS + every * at for at in range(count)]
        return log_of(*((0, ms, ms, ms, 1) for ms in times))

    counts = {"slow": (count // 2, 70), "fast": (count, 3), "slower": (count // 3, 7)}
    svg = requests_chart([(name, named("one"), completed(*of)) for name, of in counts.items()])
    ends = [
        float(s) for s in re.findall(r">Requests by scheduler, ([\d.]+) s to ([\d.]+) s<", svg)[0]
    ]
    assert ends == [(FROM_MS + 3 * first) / 1000, (FROM_MS + 3 * last) / 1000]


def figures(name: str, mbps: float, iops: float, mean_ms: float, p99_ms: float | None) -> Any:
    return {
        "name": name,
        "throughput_bytes_per_s": mbps * 1e6,
        "iops": iops,
        "latency_ns_mean": mean_ms * 1e6,
        "latency_ns_p99": None if p99_ms is None else p99_ms * 1e6,
    }


TABLE = """\
scheduler                   process              MB/s       1/s   mean ms    p99 ms
none                        reader           90000.00     150.5  90000.00  900000.0
none                        writer               0.25       1.0      0.75         –
none                        total            90000.25     151.5      2.00       3.0
bfq:slice_idle=0            reader               7.00       8.0      9.00      10.0
bfq:slice_idle=0            writer              11.00      12.0     13.00      14.0
bfq:slice_idle=0            total               15.00      16.0     17.00      18.0"""


def test_the_table_holds_means_over_the_seeds() -> None:
    def run(scheduler: str, reader: Any, writer: Any, total: Any) -> dict[str, Any]:
        one, two = figures("reader", *reader), figures("writer", *writer)
        return {
            "scheduler": scheduler, "processes": [one, two], "total": figures("total", *total)
        }  # fmt: skip

    runs = [
        run("none", (80e3, 100.5, 60e3, 7e5), (0.5, 2, 1, None), (80000.5, 102.5, 1, 2)),
        run("bfq:slice_idle=0", (7, 8, 9, 10), (11, 12, 13, 14), (15, 16, 17, 18)),
        run("none", (1e5, 200.5, 12e4, 11e5), (0, 0, 0.5, 5), (100000, 200.5, 3, 4)),
    ]
    assert host_table(runs) == TABLE.splitlines()


def test_rows_are_aligned_first_to_the_left_others_to_the_right() -> None:
    assert aligned([["a", "long", ""], ["bcd", "x", "yz"], ["", "", ""]]) == [
        "a    long",
        "bcd     x  yz",
        "",
    ]


def test_devices_and_processes_are_names_or_files(tmp_path: Path) -> None:
    shipped = device_text("disk7200")
    assert "rpm = 7200" in shipped and tomllib.loads(device_text("ncq2014"))
    for name in ("mine", "a:b.toml", "mine.toml"):
        file = tmp_path / name
        file.write_text(shipped)
        assert device_text(str(file)).strip() == shipped.strip()
    with pytest.raises(SpecError, match="device 'disk9' is not known") as caught:
        device_text("disk9")
    assert "disk7200" in caught.value.hint and "ncq2014" in caught.value.hint
    assert process_text("readers3") == {"text": "readers3"}
    assert process_text(file) == {"text": shipped, "place": str(file)}
    with pytest.raises(SpecError, match=r"missing\.toml"):
        process_text(tmp_path / "missing.toml")
    for other in ("readers4", "mine.txt", "mine.conf"):
        with pytest.raises(SpecError, match=rf"'{other}' is not one of .*readers3"):
            process_text(other)


def test_schedulers_are_split_at_commas_unless_one_has_tunables() -> None:
    assert split_schedulers(" none, ,mq-deadline,") == ["none", "mq-deadline"]
    assert split_schedulers("none ; bfq;") == ["none", "bfq"]
    several = split_schedulers("bfq:slice_idle=0,low_latency=0")
    assert len(several) == 1 and several[0].startswith("bfq:")
    assert split_schedulers("cfq:quantum=4;none") == ["cfq:quantum=4", "none"]


def compared(first, schedulers, processes, seeds):
    under = tuple(Candidate(name, {"scheduler": name}) for name in schedulers)
    return experiment_of(SimulationSet("host-queue", first, under, tuple(processes), seeds))


PROCESSES = """
[[process]]
name = "copy"
[[process]]
count = 2
[[process]]
count = 1
[[process]]
name = "pair"
count = 3
"""


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    path = tmp_path / "mixed.toml"
    path.write_text(PROCESSES)
    return str(path)


def test_names_of_processes_are_those_of_the_results(mixed: str) -> None:
    names = ["copy", "process-2-1", "process-2-2", "process-3", "pair-1", "pair-2", "pair-3"]
    assert process_names(mixed) == names
    run = Simulation(
        device="disk7200", scheduler="none", processes=mixed, seconds=0.1, size="8GiB"
    ).run()
    assert [each["name"] for each in run["processes"]] == names


@pytest.mark.parametrize("text", ["[[", "process = 5", '[[process]]\ncount = "x"\n'])
def test_a_file_that_has_no_processes_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"wrong\.toml: TOML parse error"):
        compared(
            Simulation(device="disk7200", scheduler="none", tags=4),
            ["none", "bfq"],
            [str(path)],
            range(2),
        )


def test_an_experiment_has_a_workload_for_each_process_and_for_all(tmp_path: Path) -> None:
    alone = tmp_path / "alone.toml"
    alone.write_text('[[process]]\nname = "one"\n')
    first = Simulation(
        device="disk7200",
        scheduler="none",
        tags=4,
        seconds=0.2,
        size="8GiB",
        seed=7,
        device_set={"rpm": 5400},
    )
    one = compared(first, ["none", "bfq:slice_idle=0"], ["readers3", str(alone)], range(7, 12))
    fixed = {
        "device": "disk7200", "tags": 4, "size": "8GiB", "seconds": 0.2, "warm_up_seconds": 0.0,
        "device_set": {"rpm": 5400},
    }  # fmt: skip
    expected = [
        (f"readers3 {name}".strip(), {**fixed, "processes": "readers3", "process": name})
        for name in ("reader-1", "reader-2", "reader-3", "")
    ]
    expected.append((str(alone), {**fixed, "processes": str(alone), "process": ""}))
    assert [(each.label, each.parameters) for each in one.workloads] == expected
    secondary = ("iops", "latency_ns_mean", "latency_ns_p99")
    assert {(each.kind, each.metric, each.secondary) for each in one.workloads} == {
        ("host-queue", "throughput_bytes_per_s", secondary)
    }
    assert [(each.label, dict(each.settings)) for each in one.candidates] == [
        (name, {"scheduler": name}) for name in ("none", "bfq:slice_idle=0")
    ]
    assert (one.kind, one.target.kind) == ("sim", "none")
    assert (one.baseline, one.seed, one.aa_arm, one.objective) == ("none", 7, False, "throughput")
    assert one.stopping == Stopping("fixed", 5)
    assert one.title == "I/O schedulers above the simulated disk7200"
    for text in ("none", "none,none", "none,bfq,none"):
        with pytest.raises(SpecError, match="two different schedulers"):
            compared(first, text.split(","), ["readers3"], range(5))


def test_a_run_of_an_experiment_gives_the_figures_of_its_process() -> None:
    first = Simulation(device="disk7200", scheduler="none", tags=4, seconds=0.2, size="8GiB")
    one = compared(first, ["none", "cfq"], ["readers3"], range(1, 3))
    direct = dataclasses.replace(first, scheduler="cfq", processes="readers3", seed=3).run()
    cfq = one.candidates[1]
    for place, workload in enumerate(one.workloads):
        outcome = outcome_of((workload, cfq), 3)
        process = (*direct["processes"], direct["total"])[place]
        assert outcome.metrics["iops"] == process["iops"]
        assert outcome.properties["dispatched"] == direct["order"]["dispatched"]
        assert outcome.histograms["latency_ns"] == [[*b.values()] for b in process["latency_bins"]]
    wrong = dataclasses.replace(
        one.workloads[0], parameters={**one.workloads[0].parameters, "process": "reader-9"}
    )
    with pytest.raises(SpecError, match="'reader-9' is not simulated") as caught:
        outcome_of((wrong, Candidate("none", {"scheduler": "none"})), 1)
    assert caught.value.hint == "one of: reader-1, reader-2, reader-3, total"
