"""Latencies of a simulated run over time, from its log: the rows of a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schedlab_sim.results import SimResult

# As in the load engine: bins of a quarter of an octave and of 100 ms; twice as long as often as a
# run needs for at most so many of them.
PER_OCTAVE, BIN_MS, BINS_MAX = 4, 100, 96
# Processes that have a map each; of more there is one of all together.
PROCESSES_MAX = 4


def latencies_of(result: SimResult) -> dict[str, list[list[int]]]:
    """By process, or of all (""): rows (t_ms, low_ns, high_ns, count) of the response times of what
    completed in the bin of time that begins at `t_ms`. Empty without a log.
    """
    import numpy as np

    log = result.log
    if not len(log):
        return {}
    taken_ns = (log["completed_ns"] - log["arrival_ns"]).astype(np.int64)
    at_ms = (log["completed_ns"] // 1_000_000).astype(np.int64)
    bin_ms = BIN_MS
    while int(at_ms.max()) >= bin_ms * BINS_MAX:
        bin_ms *= 2
    names = [each["name"] for each in result.report.get("processes", ())]
    if not 1 < len(set(names)) <= PROCESSES_MAX:
        return {"": _rows(at_ms, taken_ns, bin_ms)}
    places = np.array([names.index(name) for name in names])[log["process"]]
    return {
        name: _rows(at_ms[mine], taken_ns[mine], bin_ms)
        for place, name in enumerate(names)
        if (mine := places == place).any()
    }


def _rows(at_ms: NDArray[Any], taken_ns: NDArray[Any], bin_ms: int) -> list[list[int]]:
    import numpy as np

    level = np.floor(PER_OCTAVE * np.log2(np.maximum(taken_ns, 1))).astype(np.int64)
    pairs = np.stack([at_ms // bin_ms * bin_ms, level], axis=1)
    known, counts = np.unique(pairs, axis=0, return_counts=True)
    ends = np.ceil(2.0 ** (np.stack([known[:, 1], known[:, 1] + 1]) / PER_OCTAVE)).astype(np.int64)
    high = np.maximum(ends[1] - 1, ends[0])
    return np.stack([known[:, 0], ends[0], high, counts], axis=1).tolist()  # type: ignore[no-any-return]
