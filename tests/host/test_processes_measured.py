"""One description of processes: the kernel is asked for the same places as the simulator."""

import json
import sys

from described import LOAD, check_places

from schedlab.app.trace.block_io import record_device

SIZE_BYTES, SEED = 64 << 20, 5
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
    check_places(tmp_path / "t.trace", SIZE_BYTES, SEED)
