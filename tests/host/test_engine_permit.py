"""The load engine's own wall: it writes to a block device only with a consent."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from device_states import digest
from giving_up import given_up

from schedlab import _core
from schedlab.errors import HostError


def group(path, engine):
    workload = {
        "pattern": {"kind": "random"}, "direction": {"kind": "read"}, "record": 4096,
        "span": 1 << 20, "arrivals": {"kind": "closed", "depth": 1}, "seed": 11,
    }  # fmt: skip
    return {"name": "g", "path": path, "engine": engine, "workload": workload}


def sectors_written(device):
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[6])


def no_lock(path):
    return os.open(path, os.O_RDWR | os.O_EXCL)


def no_hold(path):
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("opened", [None, os.open, no_lock, no_hold])
@pytest.mark.parametrize("how", ["write", "mixed", "mmap", "io_uring", "log"])
def test_no_device_is_written_to_that_was_not_given_up(loop, how, opened, process):
    """The engine's own wall, behind Python's: a path or an ordinary descriptor is no leave."""
    load = group(loop, how if how in ("mmap", "io_uring") else "psync")
    if how == "log":
        load["log"] = {"path": loop, "span": 64 << 10}
    else:
        mixed = {"kind": "mixed", "read_percent": 50}
        load["workload"]["direction"] = mixed if how == "mixed" else {"kind": "write"}
    descriptor = -1
    if opened:
        descriptor = opened(loop, os.O_RDWR) if opened is os.open else opened(loop)
        (load["log"] if how == "log" else load)["fd"] = descriptor
    before, sectors = digest(loop), sectors_written(loop)
    try:
        job = json.dumps({"seconds": 0.1, "process": process, "groups": [load]})
        with pytest.raises(HostError, match=f"{loop}: refusing to write") as refused:
            _core.run_io_job(job)
    finally:
        if opened:
            os.close(descriptor)
    assert "--destroy-data" in refused.value.hint
    assert digest(loop) == before
    assert sectors_written(loop) == sectors


def test_a_device_that_was_given_up_is_written_to(loop):
    load = group(loop, "psync")
    load["workload"]["direction"] = {"kind": "write"}
    before = digest(loop)
    with given_up(load) as groups:
        result = json.loads(_core.run_io_job(json.dumps({"seconds": None, "groups": groups})))
    assert result["groups"][0]["writes"]["bytes"] == 1 << 20
    assert digest(loop) != before
