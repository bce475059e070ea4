"""One description of processes: the kernel is asked for the same places as the simulator."""

import json
import sys

from test_records import decoded

from schedlab.app.trace.block_io import record_device
from schedlab.store.process_files import processes_of
from schedlab_sim.simulation import Simulation

SIZE_BYTES, SEED, WANTED = 64 << 20, 5, 1000
LOAD = {
    "process": [
        {"name": "anywhere", "count": 2, "record": "4KiB"},
        {"name": "backwards", "pattern": "reverse", "record": "64KiB", "start": "100ms"},
    ]
}
PROGRAM = """
import json, sys
from pathlib import Path
from schedlab.kinds.processes import Processes
from schedlab.kinds.resolved import ResolvedTarget
device, size, seed, load = Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
target = ResolvedTarget(device, size, None, 512, True, device, size)
kind = Processes(processes=tuple(load["process"]), seconds=1.0, ramp_seconds=0.0)
outcome = kind.measure(target, "both", seed)
assert outcome.metrics["anywhere.throughput_bytes_per_s"] > 0
assert "backwards.latency_ns_mean" in outcome.metrics
"""


def test_the_first_requests_are_those_of_the_simulation(new_loop, tmp_path):
    loop = str(new_loop(SIZE_BYTES))
    words = [loop, *map(json.dumps, (SIZE_BYTES, SEED, LOAD))]
    record_device(
        loop, None, [sys.executable, "-c", PROGRAM, *words], tmp_path / "t.trace", anonymise=False
    )
    sent = [
        int.from_bytes(record[24:32], "little") * 512
        for record in sorted(
            decoded(tmp_path / "t.trace"), key=lambda r: int.from_bytes(r[:8], "little")
        )
    ]
    run = Simulation(
        device="disk7200", scheduler="none", processes=LOAD, size=str(SIZE_BYTES), seconds=60.0,
        seed=SEED, log=True,
    ).run()  # fmt: skip
    for number, row in enumerate(processes_of(LOAD, SIZE_BYTES, SEED)):
        ends = (row["offset"], row["offset"] + row["span"])
        real = [at for at in sent if ends[0] <= at < ends[1]][:WANTED]
        log = run.log[run.log["process"] == number]
        assert len(real) == WANTED
        assert real == [int(sector) * 512 for sector in log["sector"][:WANTED]]
