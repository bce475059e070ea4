"""Latencies of simulated runs over time: every request is in its cell, in the first block only."""

from collections import Counter

import pytest
from calls import run

from schedlab.result import Result
from schedlab_sim.over_time import latencies_of
from schedlab_sim.simulation import Simulation

SSD = Simulation(requests=3000, log=True)
READER = {"device": "nvme", "scheduler": "bfq", "workload": None, "seconds": 2.0, "log": True}


@pytest.mark.parametrize("simulation", [SSD, Simulation(**READER, processes="reader-writers")])
def test_every_completed_request_is_in_the_bin_of_its_time_and_latency(simulation):
    result = simulation.run()
    found = latencies_of(result)
    names = [each["name"] for each in result.report.get("processes", [])]
    counts = Counter()
    for group, rows in found.items():
        for t, low, high, count in rows:
            counts[group, t, low, high] += count
    starts = sorted({t for _, t, _, _ in counts})
    for request in result.log:
        group = names[request["process"]] if "" not in found else ""
        t_ms = int(request["completed_ns"]) // 1_000_000
        taken = max(1, int(request["completed_ns"]) - int(request["arrival_ns"]))
        mine = [key for key in counts if key[0] == group and key[2] <= taken <= key[3]
                and key[1] == max(start for start in starts if start <= t_ms)]  # fmt: skip
        counts[mine[0]] -= 1
    assert len(result.log) > 1000 and not any(counts.values())


def test_processes_of_one_name_are_one_group():
    result = Simulation(**READER, processes="reader-writers").run()
    for each in result.report["processes"][1:]:
        each["name"] = "others"
    first, others = result.report["processes"][0]["name"], len(result.log)
    found = {name: sum(row[3] for row in rows) for name, rows in latencies_of(result).items()}
    mine = int((result.log["process"] == 0).sum())
    assert found == {first: mine, "others": others - mine}


def test_a_run_without_a_log_has_none():
    assert latencies_of(Simulation(requests=100).run()) == {}


def test_the_page_of_simulated_requests_has_a_map_for_each_policy(tmp_path):
    out = tmp_path / "r"
    run("sim", "compare", "--workloads", "A", "--policies", "fcfs,s", "--requests", 400, "--seeds",
        3, "--out", out)  # fmt: skip
    page = (out / "report.html").read_text("utf-8")
    assert page.count('class="chart heat"') == 2 and "Latency over time<" in page
    record = Result.load(out).record
    logged = [each.block for each in record.runs if "latencies " in each.raw]
    assert logged == [0, 0]
    shown = record.latencies["A", "fcfs"]
    assert [each.block for each in shown] == [0]
    assert sum(count for *_, count in shown[0].rows) == 400
