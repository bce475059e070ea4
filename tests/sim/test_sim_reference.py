"""With the new features off, results are those of the version that was checked first, bit for bit.

`tests/data/sim/reference.json` holds SHA-256 of reports and logs as that version wrote them; that
of SPTF at depth 16 is from when it got its bound of age, those of `parallel` from when
dies took the place of planes on their own.
"""

import hashlib
import json
from pathlib import Path

import pytest

from schedlab_sim.simulation import Simulation

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "sim" / "reference.json").read_text())
NEW_KEYS = ("service", "steady", "warm_up", "trace")
NEW_DISK_KEYS = ("busy_ns", "kinds", "steady", "latency_interval", "trace", "write_cache")
SSD = {
    **{
        f"serial {workload} {policy}": {"workload": workload, "policy": policy}
        for workload in "ABCD"
        for policy in ("fcfs", "s", "sb", "ts", "tsb", "irbw-fifo", "stb", "sitf")
    },
    **{
        f"parallel {workload} {policy}": {
            "workload": workload,
            "policy": policy,
            "service": "parallel",
            "device_set": {"buffer.size": "8MiB"},
        }
        for workload in ("A", "D")
        for policy in ("fcfs", "tsb", "sitf")
    },
}
DISK = [
    {"depth": 16},
    {"rate": 60.0, "workload": "mixed4k"},
    {"workload": "seqread"},
    {"workload": "seqwrite", "depth": 2},
    {"workload": "seqread", "span": "1g", "rate": 200.0},
]


@pytest.mark.parametrize("name", SSD)
def test_ssd(name: str) -> None:
    settings = {"device_set": {"buffer.size": "16MiB"}, **SSD[name]}
    result = Simulation(requests=3000, log=True, **settings).run()
    report = {key: value for key, value in result.report.items() if key not in NEW_KEYS}
    for direction in ("read", "write"):
        report[direction] = {k: v for k, v in report[direction].items() if k != "interval"}
    text = json.dumps(report, sort_keys=True).encode()
    assert hashlib.sha256(text + result.log_bytes).hexdigest() == REFERENCE[name]


@pytest.mark.parametrize("policy", ["fcfs", "sstf", "scan", "clook", "sptf"])
@pytest.mark.parametrize("settings", DISK, ids=str)
def test_disk(policy: str, settings: dict) -> None:
    run = Simulation(device="disk7200", policy=policy, requests=3000, **settings).run()
    old = {key: value for key, value in run.items() if key not in NEW_DISK_KEYS}
    digest = hashlib.sha256(json.dumps(old, sort_keys=True).encode()).hexdigest()
    assert digest == REFERENCE[f"disk {policy} {settings}"]
