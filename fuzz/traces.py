"""Block I/O traces that are written from known requests, to compare what is read."""

import json
from pathlib import Path

from mutation import mutate

from schedlab import _core
from schedlab.errors import SchedlabError
from schedlab_sim.simulation import Simulation

SECTOR, PAGE = 512, 4096
SECOND_NS, MS_NS, US_NS = 10**9, 10**6, 10**3


def _lines(head, rows):
    return (head + "".join(rows)).encode()


# format -> (smallest step of a time in ns, of an address in bytes, text of the requests)
FORMS = {
    "requests": (US_NS, PAGE, lambda rs: _lines(
        "arrival_ms,is_write,first_page,pages\n",
        (f"{t / MS_NS:.6f},{w},{o // PAGE},{n // PAGE}\n" for t, w, o, n in rs))),
    "msr": (100, SECTOR, lambda rs: _lines("", (
        f"{128166372003061629 + t // 100},usr,0,{('Read', 'Write')[w]},{o},{n},41286\n"
        for t, w, o, n in rs))),
    "spc": (US_NS, SECTOR, lambda rs: _lines("", (
        f"0,{o // SECTOR},{n},{'RW'[w]},{t / SECOND_NS:.6f}\n" for t, w, o, n in rs))),
    "iolog": (US_NS, SECTOR, lambda rs: _lines("fio version 3 iolog\n0 f1 add\n0 f1 open\n", (
        f"{t // US_NS} f1 {('read', 'write')[w]} {o} {n}\n" for t, w, o, n in rs))),
    "alibaba": (US_NS, SECTOR, lambda rs: _lines("", (
        f"419,{'RW'[w]},{o},{n},{1577808144360767 + t // US_NS}\n" for t, w, o, n in rs))),
    "tencent": (SECOND_NS, SECTOR, lambda rs: _lines("", (
        f"{1538323200 + t // SECOND_NS},{o // SECTOR},{n // SECTOR},{w},1063\n"
        for t, w, o, n in rs))),
    "systor": (100 * US_NS, SECTOR, lambda rs: _lines(
        "Timestamp,Response,IOType,LUN,Offset,Size\n",
        (f"{1455592201 + t / SECOND_NS:.4f},0.0002,{'RW'[w]},1,{o},{n}\n" for t, w, o, n in rs))),
    "mqsim": (1, SECTOR, lambda rs: _lines("", (
        f"{t} 4 {o // SECTOR} {n // SECTOR} {1 - w}\n" for t, w, o, n in rs))),
    "disksim": (US_NS, SECTOR, lambda rs: _lines("", (
        f"{t / MS_NS:.6f} 0 {o // SECTOR} {n // SECTOR} {1 - w}\n" for t, w, o, n in rs))),
    "fio-log": (MS_NS, SECTOR, lambda rs: _lines("", (
        f"{t // MS_NS}, 246083, {w}, {n}, {o}, 0\n" for t, w, o, n in rs))),
    "blkparse": (1, SECTOR, lambda rs: _lines("", (
        f"  8,0    3  {i + 1:7}  {t // SECOND_NS:4}.{t % SECOND_NS:09}   697  Q   {'RW'[w]} "
        f"{o // SECTOR} + {n // SECTOR} [kjournald]\n" for i, (t, w, o, n) in enumerate(rs)))),
}  # fmt: skip


def truth(rng, form):
    """A trace in `form`, and its facts as `schedlab trace stats` should have them."""
    step_ns, step, text = FORMS[form]
    requests, at_ns = [], 0
    for _ in range(rng.randint(1, 12)):
        offset, length = step * rng.randrange(1 << 18), step * rng.randint(1, 64)
        requests.append((at_ns, rng.randrange(2), offset, length))
        at_ns += step_ns * rng.randrange(2000)
    reads = [n for _, write, _, n in requests if not write]
    writes = [n for _, write, _, n in requests if write]
    return text(requests), {
        "requests": len(requests), "reads": len(reads), "writes": len(writes),
        "read_bytes": sum(reads), "write_bytes": sum(writes), "trims": 0,
        "end_bytes": max(offset + length for _, _, offset, length in requests),
        "span_ns": requests[-1][0] - requests[0][0],
    }  # fmt: skip


def statistics(file, form, skip):
    """The summary of a trace; ValueError where it is refused."""
    return json.loads(_core.trace_stats(str(file), form, json.dumps({"skip_bad_lines": skip})))


def check_truth(rng, form, file):
    """The facts of a trace, read back, are those it was written from. Its bytes."""
    data, facts = truth(rng, form)
    file.write_bytes(data)
    summary = statistics(file, form, False)["summary"]
    actual = {name: summary[name] for name in facts}
    # Seconds with a fraction are read as floating point: half a step is lost at most.
    span_ns, actual["span_ns"] = actual["span_ns"], facts["span_ns"]
    assert actual == facts, f"{form}: read {actual}, written {facts}"
    # Requests of a whole second are spread over it.
    lost_ns = FORMS[form][0] / (1 if form == "tencent" else 2)
    assert abs(span_ns - facts["span_ns"]) <= lost_ns, (form, span_ns, facts["span_ns"])
    return data


def check_damaged(rng, form, file, data):
    """A damaged trace is refused or understood, and what is understood adds up. Whether it was."""
    file.write_bytes(mutate(rng, data))
    try:
        summary = statistics(file, form, rng.random() < 0.5)["summary"]
    except ValueError:
        return False
    assert summary["requests"] == summary["reads"] + summary["writes"]
    assert summary["bytes"] == summary["read_bytes"] + summary["write_bytes"]
    most = summary["devices"] * (summary["end_bytes"] + PAGE)
    assert summary["footprint_bytes"] <= most
    assert summary["last_ns"] - summary["first_ns"] == summary["span_ns"]
    return summary["requests"] > 0


def check_simulated(form, file):
    """An understood trace, fitted to a small device, is served: every request, once."""
    how = {"format": form, "fit": "wrap", "skip_bad_lines": True, "volumes": "region"}
    try:
        result = Simulation(workload=Path(file), workload_set=how).run()
    except SchedlabError:
        return
    report = result.report
    assert report["requests"] == report["trace"]["requests"], "a request is lost"
    served = 0
    for direction in ("read", "write"):
        times = report[direction]["response"]
        assert sum(count for _, _, count in times["bins"]) == times["count"]
        assert not times["count"] or 0 <= times["mean"] <= times["max"] <= report["elapsed_ns"]
        served += times["count"]
    assert served <= report["requests"]
