"""Probes of flash and what follows from them: page, channels, dies, planes, times, link.

Two reads that begin together are slower where they need the same part: by a transfer on the same
channel, by a page read on the same die, by both on the same plane.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlab_sim.fit.draws import PARTS
from schedlab_sim.fit.fitted import UNKNOWN, Fitted, time_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schedlab_sim.fit.reads import Reads

#: Pages between two reads that begin together, at most, and pairs at each distance of a round.
DISTANCES_MAX, PAIRS, ROUNDS = 300, 15, 3
PAIR_SECONDS = 45.0
#: The share of times below which there is no noise: it can only add.
LOW = 0.15
#: Pages of one read.
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PAGES = tuple(4096 << i for i in range(5))
IN_ORDER = 1.3
PAGES_PER_BLOCK = 256
#: Blocks of a plane that the model keeps free (`logical_pages` in crates/sim/src/ftl/mod.rs).
KEPT_BLOCKS = 7
#: What no read shows, with usual values.
NEVER_READ = {
    "flash.page_write": "700us", "flash.block_erase": "3500us", "buffer.size": "8MiB",
    "ftl.over_provisioning": 0.07,
}  # fmt: skip
#: Steps below this share of the highest one are none.
LEAST_STEP = 0.05
#: Other parts are possible where they miss by no more than so many times as much.
RIVAL = 1.1
#: A time is another one below this share.
SAME = 0.93
#: A channel and a die are seen where they take so many times as long as the link.
APART = 1.3
Parts = tuple[int, int, int]


@dataclass(frozen=True)
class FlashProbes:
    """Everything that was read; all times in ns.

    `pairs`: time until both of two reads so many pages apart have completed. `lengths`: time
    of one read of so many pages. `iops`: by depth. `is_page_seen`: whether the size of a page was.
    """

    size_bytes: int
    single: float
    single_spread: float
    pairs: NDArray[Any]
    lengths: Mapping[int, float]
    iops: Mapping[int, float]
    tags: int
    page_bytes: int
    is_page_seen: bool


def probe_flash(reads: Reads, tags: int) -> FlashProbes:
    """All probes of a device without moving parts, about 60 s."""
    reads.progress("single reads")
    looks = [reads.latencies_ns(reads.places(150))]
    single = float(np.quantile(looks[0], LOW))
    reads.progress("rate by depth")
    iops = {depth: reads.rate_per_s(depth, 2.0) for depth in sorted({1, min(4, tags), tags})}
    reads.progress("page size")
    page_bytes, is_page_seen = _page_bytes(reads)
    reads.progress("channels, dies, planes")
    count = max(5, min(PAIRS, int(PAIR_SECONDS / (ROUNDS * DISTANCES_MAX * 2 * single / 1e9))))
    # A part of a page each, so that neighbours are not merged into one read.
    distances = [k * page_bytes for k in range(1, DISTANCES_MAX + 1)]
    pairs = _pairs(reads, distances, count, page_bytes)
    looks.append(reads.latencies_ns(reads.places(150)))
    reads.progress("size of a read")
    lengths = _lengths(reads, page_bytes)
    # The host may have been busy at one of the two; of the quantile, not of times that may be late.
    single, further = min((*np.quantile(times, (LOW, LOW + 0.1)),) for times in looks)
    spread = float(further / single - 1)
    return FlashProbes(
        reads.size_bytes,
        float(single),
        spread,
        pairs,
        lengths,
        iops,
        tags,
        page_bytes,
        is_page_seen,
    )


def _page_bytes(reads: Reads) -> tuple[int, bool]:
    """The size of a page, and whether it could be seen.

    Two short reads of one page need the same part; the first distance at which they do not is a
    page. Where there is one part only, or one read at a time, reads across the end of a page are
    slower than others.
    """
    block = reads.block_bytes
    near = _pairs(reads, (2 * block, *PAGES), 20, align=2 * PAGES[-1])
    if found := first_apart(near):
        return found, True
    steps = (reads.size_bytes - (1 << 20)) // (2 * PAGES[-1])
    places = (2 * reads.draws.integers(0, steps, 25) + 1).astype(np.int64)

    def low(offset: int, size: int) -> float:
        return float(np.quantile(reads.latencies_ns(places * size + offset, 2 * block), LOW))

    across = [size for size in PAGES if low(-block, size) > low(0, size) / SAME]
    return (across or PAGES)[0], bool(across)


def first_apart(times: Sequence[float] | NDArray[Any]) -> int | None:
    """The first size at whose distance two reads are fast, None where they never are; `times` are
    those of one page, then of the distances of `PAGES`.

    Fast is nearer to the least than to one page: on a busy host each time is a little off.
    """
    if min(times) > SAME * times[0]:
        return None
    limit = (times[0] + min(times)) / 2
    return next(size for size, time in zip(PAGES, times[1:], strict=True) if time < limit)


def _pairs(reads: Reads, distances: Sequence[int], count: int, align: int) -> NDArray[Any]:
    """Times until both of two short reads have completed, so far apart. In rounds, of which the
    least counts: a host that is busy for a while is so for all distances, and not in every round.
    """
    rounds = [
        [_pair(reads, distance, reads.block_bytes, count, align) for distance in distances]
        for _ in range(ROUNDS)
    ]
    least: NDArray[Any] = np.min(rounds, axis=0)
    return least


def _pair(reads: Reads, distance: int, length: int, count: int, align: int) -> float:
    """One time of these, of places that are multiples of `align`."""
    first = reads.places(count, align, distance + 2 * align)
    offsets = np.column_stack((first, first + distance)).ravel()
    rows = reads.timed(offsets, length, depth=2, together=True)
    both = rows[:, 1].reshape(-1, 2).max(1) - rows[:, 0].reshape(-1, 2).min(1)
    return float(np.quantile(both, LOW))


def _lengths(reads: Reads, page_bytes: int) -> dict[int, float]:
    """Times of reads of so many pages, in rounds as well; a longer read takes no less."""
    rounds = [[_length(reads, n, page_bytes) for n in LENGTHS] for _ in range(ROUNDS)]
    least = np.minimum.accumulate(np.min(rounds, axis=0)[::-1])[::-1]
    return dict(zip(LENGTHS, map(float, least), strict=True))


def _length(reads: Reads, pages: int, page_bytes: int) -> float:
    places = reads.places(9, page_bytes, (pages + 1) * page_bytes)
    return float(np.quantile(reads.latencies_ns(places, pages * page_bytes), LOW))


def fit_flash(probes: FlashProbes) -> Fitted:
    """The device file of a flash device; what reads do not show is unknown."""
    page, single = probes.page_bytes, probes.single
    slope = _slope(probes.lengths)
    in_order = probes.iops[max(probes.iops)] * single / 1e9 < IN_ORDER
    noise = max(0.01, probes.single_spread)
    fitted = Fitted(probes.size_bytes)
    if in_order:
        channels, dies = _channels_of_lengths(probes.lengths, slope), 1
        planes, read, transfer = _of_one_at_a_time(single, slope * channels, channels)
        fitted.notes.append("it serves one read at a time: dies and planes cannot be seen")
    else:
        # Two reads take no less than one: a host may have been busy at all of the single ones.
        single = min(single, float(np.quantile(probes.pairs, LOW)))
        steps = probes.pairs - single
        channels, dies, planes = split_steps(steps)
        transfer, read = times_of(levels(steps, channels, dies, planes))
        if dies * planes == 1:
            # Only the sum is seen; long reads show how fast the channels are.
            transfer = min(slope * channels, 0.8 * read)
            read -= transfer
    is_seen = in_order or steps.max() > 0.1 * single
    others = [] if in_order else rivals(steps, (channels, dies, planes))
    is_faint = transfer < 1.5 * LEAST_STEP * (read + transfer)
    doubts = set() if in_order else _doubts((channels, dies, planes), others, is_faint)
    # Of all channels that share a slower link only the link is seen.
    is_link = not in_order and channels == 1 and dies > 1
    if not is_seen:
        fitted.notes.append(
            "no two reads wait for each other: never written or trimmed blocks answer without the "
            "flash, and a cache hides it; fit a device whose blocks have been written"
        )
    link = _link_bytes_per_s(probes.lengths, channels, page, single)
    rest = max(0.0, single - read - transfer - (page * 1e9 / link if link else 0))
    unknown = UNKNOWN if not is_seen else None
    hidden = unknown or (UNKNOWN if in_order else 0.0)
    if doubts and is_seen:
        fitted.notes.append(
            "the steps of two reads fit other parts as well: "
            + ", ".join(sorted(key.partition(".")[2] for key in doubts))
        )
    for key, count in zip(PARTS, (channels, dies, planes), strict=True):
        doubt = UNKNOWN if key in doubts else 0.0
        fitted.put(key, count, (unknown if key == PARTS[0] else hidden) or doubt)
    fitted.put("flash.packages_per_channel", 1, 0.0)
    row_bytes = channels * dies * planes * PAGES_PER_BLOCK * page
    blocks = math.ceil(1.07 * probes.size_bytes / row_bytes) + 8
    fitted.put("flash.blocks_per_plane", blocks, 0.0)
    fitted.put("flash.pages_per_block", PAGES_PER_BLOCK, UNKNOWN)
    fitted.put("flash.page", page, 0.0 if probes.is_page_seen else UNKNOWN)
    # Of planes that read and move by turns the longer time is seen, but not which one it is.
    split = unknown or (UNKNOWN if in_order or dies * planes == 1 else None)
    seen = [(transfer, read), *(times_of(levels(steps, *each)) for each in others)]
    _put_times(fitted, seen, single, noise, split, is_link)
    is_link_seen = link is not None and "flash.channels" not in doubts
    fitted.put("link.bytes_per_s", link or 3.2e9, 0.15 if is_link_seen else UNKNOWN)
    fitted.put("link.latency", time_text(rest), _share(noise, single, rest))
    fitted.put("queue.depth", 1 if in_order else probes.tags, 0.0)
    fitted.put("ftl.in_flight", 1 if in_order else probes.tags, 0.0)
    _put_unread(fitted, blocks)
    fitted.tables |= {"name": "fitted", "service": "parallel"}
    fitted.tables["buffer"]["keeps"] = "write-only"
    return fitted


def _put_times(
    fitted: Fitted, seen: Sequence[tuple[float, float]], single: float, noise: float,
    split: str | None, is_link: bool,
) -> None:  # fmt: skip
    """Moving and reading a page, the first of `seen`; others are those of other parts."""
    transfer, read = seen[0]
    moves, reads = (
        max(abs(math.log(max(each, 1.0) / max(of[0], 1.0))) for each in of)
        for of in zip(*seen, strict=True)
    )
    # What a slower link hides of moving is taken for reading.
    least = max(noise * single / max(read, 1.0), 0.02, 0.5 * transfer / max(read, 1.0) * is_link)
    fitted.put("flash.page_read", time_text(read), split or max(least, reads))
    split = split or (UNKNOWN if is_link else None)
    least = _share(noise, single, transfer)
    fitted.put("flash.page_transfer", time_text(transfer), split or max(least, moves))


def _put_unread(fitted: Fitted, blocks: int) -> None:
    """Usual values of what no read shows; `blocks` are those of a plane."""
    for key, value in NEVER_READ.items():
        fitted.put(key, value, UNKNOWN)
    if fitted.value("queue.depth") == 1:
        fitted.put("buffer.size", "0", UNKNOWN)
    kept = math.ceil(1e4 * KEPT_BLOCKS / (blocks - KEPT_BLOCKS)) / 1e4
    if kept > fitted.value("ftl.over_provisioning"):
        # A plane has so few blocks that no usual share is possible: none is drawn.
        fitted.put("ftl.over_provisioning", kept, 0.0)


def _of_one_at_a_time(single: float, moved: float, channels: int) -> tuple[int, float, float]:
    """Planes, reading and transfer of a page of a device that serves one read at a time; `moved` is
    what each further page of a long read takes on its channel.

    One plane reads and moves by turns, and only the sum is seen. Of several one reads while another
    page is moved: a further page takes its transfer alone.
    """
    if channels == 1 and moved < SAME * single:
        transfer = max(moved, single / 2)
        return 2, single - transfer, transfer
    transfer = min(moved, single / 2)
    return 1, single - transfer, transfer


def _share(noise: float, single: float, time: float) -> float:
    """The error of a difference of times as a share of it."""
    return float(min(1.0, max(0.02, 0.5 * noise * single / max(time, 1.0))))


def _slope(lengths: Mapping[int, float]) -> float:
    """Time that each further page of a long read takes."""
    long, longest = sorted(lengths)[-4], max(lengths)
    return (lengths[longest] - lengths[long]) / (longest - long)


def _channels_of_lengths(lengths: Mapping[int, float], slope: float) -> int:
    """Pages that one read moves at the same time."""
    one = lengths[1]
    return max(n for n, time in lengths.items() if time - one <= 0.5 * (n - 1) * slope)


def _link_bytes_per_s(
    lengths: Mapping[int, float], channels: int, page_bytes: int, single: float
) -> float | None:
    """The link's speed: what pages of different channels add to a read; None where too little."""
    most = max(n for n in lengths if n <= channels)
    added = lengths[most] - lengths[1]
    return None if most < 3 or added < 0.004 * single else (most - 1) * page_bytes * 1e9 / added


def split_steps(steps: NDArray[Any]) -> tuple[int, int, int]:
    """Channels, dies of each, planes of each die: those whose groups of distances (another channel,
    the same one, die, plane) differ as two times would have them, with the least misfit.

    `steps[k − 1]`: by how much two reads k pages apart are slower than one.
    """
    found = _misfits(steps)
    least = min(misfit for misfit, _, _ in found)
    noise = max(0.03 * least, 5e-4 * float(np.ptp(steps)))
    return min((size, parts) for misfit, size, parts in found if misfit <= least + noise)[1]


def rivals(steps: NDArray[Any], parts: Parts) -> list[Parts]:
    """Others, of twice as many dies at most, that fit nearly as well."""
    if parts[1] * parts[2] == 1:
        return []
    found = _misfits(steps)
    most = RIVAL * min(misfit for misfit, _, each in found if each == parts)
    return [each for misfit, size, each in found
            if misfit <= most and size <= 2 * math.prod(parts) and each != parts]  # fmt: skip


def _doubts(parts: Parts, others: Sequence[Parts], is_faint: bool) -> set[str]:
    """The keys in which others differ; `is_faint`: no transfer was seen."""
    channels, dies, planes = parts
    doubts = {key for n, key in enumerate(PARTS) if any(each[n] != parts[n] for each in others)}
    is_one_group = channels > 1 and dies == 1 and (planes == 1 or is_faint)
    if is_one_group or (channels == 1 and dies > 1):
        # Without a step for a channel, dies of one channel look like channels.
        doubts |= {*PARTS[:2]}
    return doubts


def _misfits(steps: NDArray[Any]) -> list[tuple[float, int, Parts]]:
    most = len(steps) // 2
    found: list[tuple[float, int, Parts]] = []
    for channels in range(1, min(64, most) + 1):
        for dies in range(1, most // channels + 1):
            for planes in (1, 2, 4):
                if channels * dies * planes <= most:
                    parts = (channels, dies, planes)
                    found.append((_misfit(steps, *parts), channels * dies * planes, parts))
    return found


def _groups(count: int, channels: int, dies: int, planes: int) -> list[NDArray[Any]]:
    distances = np.arange(1, count + 1)
    channel = distances % channels == 0
    die = distances % (channels * dies) == 0
    plane = distances % (channels * dies * planes) == 0
    return [~channel, channel & ~die, die & ~plane, plane]


def levels(steps: NDArray[Any], channels: int, dies: int, planes: int) -> list[float | None]:
    """The median step of each group, None of an empty one."""
    groups = _groups(len(steps), channels, dies, planes)
    return [float(np.median(steps[each])) if each.any() else None for each in groups]


def times_of(level: Sequence[float | None]) -> tuple[float, float]:
    """Transfer and reading of a page from the steps of the groups.

    On the same channel the second waits for a transfer, on the same die for reading or the
    transfer, on the same plane for both.
    """
    _, channel, die, plane = level
    both = plane or 0.0
    if die is not None:
        return (channel if channel is not None else both - die), max(die, both - die)
    transfer = channel or 0.0
    return transfer, both - transfer


def _misfit(steps: NDArray[Any], channels: int, dies: int, planes: int) -> float:
    """Mean absolute difference to the steps that two times would give."""
    level = levels(steps, channels, dies, planes)
    transfer, read = times_of(level)
    # A link that all channels share is a step as well, below that of a channel and of a die.
    free, least = level[0] or 0.0, LEAST_STEP * (read + transfer)
    if dies > 1 and min(transfer, read) < max(least, APART * free):
        return math.inf  # no step at all is another channel
    none = free if dies > 1 else min(free, least)
    expected = (none, transfer, max(read, transfer), read + transfer)
    groups = _groups(len(steps), channels, dies, planes)
    pairs = zip(groups, expected, strict=True)
    return sum(float(np.abs(steps[each] - step).sum()) for each, step in pairs) / len(steps)
