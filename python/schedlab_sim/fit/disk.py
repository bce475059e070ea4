"""Probes of a disk and what follows from them: rotation, cache, zones, tracks, seek curve, order.

Noise of a host is one-sided, a read can only come later: the estimates are low quantiles, and
decisions are votes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlab_sim.fit.fitted import UNKNOWN, Fitted, of_one_curve, time_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from schedlab_sim.fit.reads import Reads

SECTOR = 512
MS = 1e6
#: Places of the device at which its rate is measured, and MiB that are read at each.
RATE_PLACES, RATE_MIB, RATE_DEPTH = 20, 16, 4
#: Distances of the seek curve, the shortest of some cylinders, and pairs at each.
DISTANCES, SHORTEST_BYTES, PAIRS = 13, 12 << 20, 90
PAUSE_S, TURN_MAX_S = 0.06, 0.02
#: Sizes of reads of what is cached.
HIT_SIZES = (4096, 32 << 10, 128 << 10)
#: A late hit looks like a miss, a miss is seldom as fast as a hit: so few votes are enough.
VOTES, ENOUGH = 9, 3
#: Completions are at one angle from this coherence on; rates are one below this difference.
COHERENT, SAME_RATE = 0.95, 0.03
#: Another number of heads is possible where it misses by no more than so many times as much.
RIVAL = 1.2
#: From this error on a time is not known.
VAGUE = 0.5
#: Skews that differ by less than this share of a turn are equal.
EVEN = 0.01
#: A skew hides a way, not most of a turn.
SKEW_MAX = 0.6
IN_ORDER = 1.25
#: Of a skew, the part that the way to the next track takes: the shipped models have .71 to .87.
HIDDEN = 0.82
HEADS = range(1, 9)


@dataclass(frozen=True)
class DiskProbes:
    """Everything that was read: times in ms, rates in bytes/s at shares of the device, angles.

    `rounds`: completions of the same sectors in turns, a row for each round.
    `hits`: times in ms of cached reads by size in bytes, with their error. `seeks`: rows (from, to,
    time) in bytes and ms.
    `angles`: rows (sector, completion) at the start of the disk. `iops`: by depth.
    """

    size_bytes: int
    rounds: NDArray[Any]
    hits: Mapping[int, float]
    read_ahead_bytes: int
    segments: int
    rates: Sequence[tuple[float, float]]
    angles: NDArray[Any]
    seeks: NDArray[Any]
    iops: Mapping[int, float]
    tags: int
    hit_error: float = 0.0


def probe_disk(reads: Reads, tags: int) -> DiskProbes:
    """All probes of a disk, about 90 s."""
    reads.progress("rotation")
    rounds = _rounds(reads)
    reads.progress("cache")
    hits, hit_error = _hits(reads)
    is_hit = _limit(hits)
    read_ahead = _read_ahead_bytes(reads, is_hit)
    segments = _segments(reads, is_hit)
    reads.progress("rate by place")
    # Not more at a time than it keeps: of a longer read it loses the beginning of the next one.
    record = 1 << int(np.log2(min(max(read_ahead, 64 << 10), 1 << 20)))
    rates = [(place, _rate(reads, place, record)) for place in np.linspace(0, 1, RATE_PLACES)]
    reads.progress("tracks")
    angles = _angles(reads, rates[0][1] * 60e-3 / 7.2)
    reads.progress("seek curve")
    distances = np.geomspace(SHORTEST_BYTES, 0.95 * reads.size_bytes, DISTANCES)
    seeks = np.vstack([_seeks(reads, distance, is_hit) for distance in distances])
    reads.progress("order of its queue")
    iops = {depth: reads.rate_per_s(depth, 3.0) for depth in sorted({1, min(32, tags)})}
    return DiskProbes(
        reads.size_bytes, rounds, hits, read_ahead, segments, rates, angles, seeks, iops, tags,
        hit_error,
    )  # fmt: skip


def _rounds(reads: Reads) -> NDArray[Any]:
    """Completions in ms of the same sectors, of each a row, in an order that changes: so many that
    none is still in the cache. In one order the turns between two reads of one would be equal.
    """
    for count in (24, 48, 96, 192):
        places = reads.places(count)
        first = reads.timed(places)
        rows = np.empty((count, 12))
        for turn in range(rows.shape[1]):
            order = reads.draws.permutation(count)
            timed = reads.timed(places[order])
            rows[order, turn] = timed[:, 1] / MS
        if np.median(timed[:, 1] - timed[:, 0]) > 0.3 * np.median(first[:, 1] - first[:, 0]):
            break
    return np.asarray(rows - rows.min())


def _hits(reads: Reads) -> tuple[dict[int, float], float]:
    """Times in ms of reads of what is cached, by size, and their error."""
    found: dict[int, list[float]] = {}
    for _ in range(24):
        for size in HIT_SIZES:
            (at,) = reads.places(1)
            reads.timed([at])
            time.sleep(PAUSE_S)
            # The second of two from the same place: it is cached whatever is read ahead.
            reads.timed([at + 4096], size)
            found.setdefault(size, []).append(reads.latencies_ns([at + 4096], size)[0] / MS)
    low = {size: float(np.quantile(times, 0.15)) for size, times in found.items()}
    spread = {size: float(np.quantile(times, 0.4)) - low[size] for size, times in found.items()}
    small, middle, large = HIT_SIZES
    most = (low[middle] - low[small]) * (large - small) / (middle - small)
    if low[large] - low[small] > 1.5 * most + 0.5:
        del low[large]  # More than a segment of the cache: it was read again.
    return low, max(spread[size] for size in low) / 2


def _limit(hits: Mapping[int, float]) -> Callable[[float], bool]:
    return lambda time_ms: time_ms < hits[4096] + 0.5


def _read_ahead_bytes(reads: Reads, is_hit: Callable[[float], bool]) -> int:
    """How far beyond a read its disk goes on by itself, to 4 KiB or 2 %."""

    def reaches(kib: int) -> bool:
        votes = 0
        for _ in range(VOTES):
            (at,) = reads.places(1, room_bytes=16 << 20)
            reads.timed([at])
            # At any angle: at one, what comes after it may be under the head each time.
            time.sleep(PAUSE_S + kib / 50e3 + reads.draws.uniform(0, TURN_MAX_S))
            votes += is_hit(reads.latencies_ns([at + (kib << 10)])[0] / MS)
        return votes >= ENOUGH

    return _highest(reaches, 4, 8192, 4) << 10 if reaches(4) or reaches(4) else 0


def _segments(reads: Reads, is_hit: Callable[[float], bool]) -> int:
    """After how many other reads the first one has left the cache."""

    def holds(count: int) -> bool:
        votes = 0
        for _ in range(VOTES):
            places = reads.places(count)
            reads.timed(places)
            votes += is_hit(reads.latencies_ns(places[:1])[0] / MS)
        return votes >= ENOUGH

    return _highest(holds, 1, 128, 1)


def _highest(holds: Callable[[int], bool], low: int, most: int, step: int) -> int:
    """The highest multiple of `step` that holds, to 2 %, `low` being one; up to `most` it doubles.
    What did not hold is asked again: a busy host makes a hit late for a while.
    """
    while True:
        high = 2 * low
        while high <= most and holds(high):
            low, high = high, 2 * high
        while high - low > max(step, low // 64):
            middle = (low + high) // (2 * step) * step
            low, high = (middle, high) if holds(middle) else (low, middle)
        if high > most or not holds(high):
            return low
        low = high


def _rate(reads: Reads, share: float, record: int) -> float:
    """Bytes/s of sequential reads at a place."""
    start = int(share * (reads.size_bytes - ((RATE_MIB + 2) << 20))) // 4096 * 4096
    rates = []
    # Several at a time: a host that asks late lets a disk that waits miss its turn. One that reads
    # ahead as much as it keeps loses more by them.
    for size, depth in ((record, RATE_DEPTH), (record // 2, 1)):
        places = range(start, start + (RATE_MIB << 20), size)
        rates.append(size * 1e9 / pace_ns(reads.timed(places, size, depth)[:, 1]))
        reads.timed(reads.places(2))
    return max(rates)


def pace_ns(done_ns: NDArray[Any]) -> float:
    """The time between two completions of a stream: of those that are far from each other, and so
    hardly changed by one that came late, the median (Theil and Sen).
    """
    ends = np.sort(done_ns)[1:].astype(float)
    first, second = np.triu_indices(len(ends), len(ends) // 2)
    return float(np.median((ends[second] - ends[first]) / (second - first)))


def _angles(reads: Reads, track_guess_bytes: float) -> NDArray[Any]:
    """Completions in ms at places of the first tracks, from the last one down: nothing of them has
    been read ahead.
    """
    span = int(24 * track_guess_bytes / SECTOR)
    rows = []
    for _ in range(5):
        sectors = np.sort(reads.draws.integers(0, span, 60))[::-1] // 8 * 8
        done = reads.timed(sectors * SECTOR)[:, 1] / MS
        rows.append(np.column_stack((sectors, done)))
    return np.vstack(rows)


def _seeks(reads: Reads, distance: float, is_hit: Callable[[float], bool]) -> NDArray[Any]:
    """Times of the second of two reads so far apart, either way."""
    starts = reads.places(PAIRS, room_bytes=int(distance * 1.03) + (2 << 20))
    further = distance * reads.draws.uniform(0.97, 1.03, PAIRS)
    ends = (starts + further.astype(int)) // 4096 * 4096
    # Near places from the far one down: what is read ahead of it is not the other.
    turn = (reads.draws.random(PAIRS) < 0.5) | (distance < 32 << 20)
    starts, ends = np.where(turn, ends, starts), np.where(turn, starts, ends)
    rows = reads.timed(np.column_stack((starts, ends)).ravel())
    times = (rows[1::2, 1] - rows[1::2, 0]) / MS
    kept = [not is_hit(each) for each in times]
    return np.column_stack((starts, ends, times))[kept]


def fit_disk(probes: DiskProbes) -> Fitted:
    """The device file of a disk; what reads do not show is unknown."""
    period, coherence = rotation(probes.rounds)
    hit, bus = probes.hits[4096], _bus_bytes_per_s(probes.hits)
    overhead = max(hit - 4096e3 / bus, 0.001)
    fitted = Fitted(probes.size_bytes)
    tracks = find_tracks(probes.angles, period, probes.rates[0][1] * period / 1e3 / SECTOR)
    is_known = None if tracks.is_known else UNKNOWN
    if tracks.coherence < COHERENT:
        tracks = replace(tracks, heads=1, track_skew_ms=0.0, cylinder_skew_ms=0.0)
    zones = find_zones(probes, period, tracks)
    seek, error = seek_times(probes, zones, tracks.heads, period, hit)
    if not tracks.cylinder_skew_ms:
        # Skews that hide the ways, with sectors that make the measured rates of them.
        skew = seek[0] / HIDDEN
        tracks = replace(tracks, track_skew_ms=skew, cylinder_skew_ms=skew)
        zones = find_zones(probes, period, tracks)
    # A stream that lost a turn at each cylinder would have shown it: the skew hides the seek.
    seek = (min(seek[0], HIDDEN * tracks.cylinder_skew_ms), *seek[1:])
    if not tracks.is_known:
        fitted.notes.append("tracks could not be told apart: the number of heads is not known")
    elif tracks.even:
        fitted.notes.append("one skew for tracks and cylinders: any number of heads is the same")
    in_order = probes.iops[max(probes.iops)] < IN_ORDER * probes.iops[1]
    fitted.tables |= {"model": "disk", "sector": "512"}
    fitted.put("rpm", round(60e3 / period), 0.0005 if coherence > 0.5 else 0.02)
    fitted.put("heads", tracks.heads, 0.0 if tracks.only and tracks.is_known else UNKNOWN)
    fitted.put("zones", zones, max(0.01, unevenness(probes.rates)))
    curve = of_one_curve(time_ms * MS for time_ms in seek)
    for name, time_ns in zip(("single", "average", "full"), curve, strict=True):
        # The shortest way is extrapolated.
        least = 0.15 if name == "single" else 0.02
        fitted.put(f"seek_{name}", time_text(time_ns), max(least, error * MS / time_ns))
    switch = HIDDEN * tracks.track_skew_ms * MS
    fitted.put("head_switch", time_text(switch), is_known or 0.1)
    fitted.put("track_skew", time_text(tracks.track_skew_ms * MS), is_known or 0.05)
    fitted.put("cylinder_skew", time_text(tracks.cylinder_skew_ms * MS), is_known or 0.05)
    fitted.put("write_settle", "500us", UNKNOWN)
    late = max(0.03, probes.hit_error)
    off = max(0.05, late / overhead)
    fitted.put("overhead", time_text(overhead * MS), off if off < VAGUE else UNKNOWN)
    moved = probes.hits[max(probes.hits)] - hit
    fitted.put("interface_bytes_per_s", round(bus), max(0.05, late / max(moved, 0.01)))
    fitted.put("queue_depth", 1 if in_order else probes.tags, 0.0)
    ahead = probes.read_ahead_bytes
    fitted.put("cache.segments", probes.segments, 1 / probes.segments / 2)
    fitted.put("cache.segment", max(2 * ahead, 128 << 10), UNKNOWN)
    fitted.put("cache.read_ahead", ahead, 0.02)
    return fitted


def _bus_bytes_per_s(hits: Mapping[int, float]) -> float:
    small, large = min(hits), max(hits)
    return (large - small) * 1e3 / max(hits[large] - hits[small], 0.01)


def rotation(rounds: NDArray[Any]) -> tuple[float, float]:
    """The time of a revolution in ms, and how coherent completions are with it, at most 1.

    Completions of one sector are whole revolutions apart; halves of a revolution fit as well, so it
    is the longest time that does.
    """
    span = float(rounds.max())

    def coherence(periods: NDArray[Any]) -> NDArray[Any]:
        angles = np.exp(2j * np.pi * rounds[None] / periods[:, None, None])
        return np.asarray(np.abs(angles.mean(2)).mean(1))

    periods = 1 / np.arange(1 / 20, 1 / 3, 0.15 / span)
    fit = np.concatenate([coherence(part) for part in np.array_split(periods, len(periods) // 400)])
    longest = periods[fit > 0.88 * fit.max()].max()
    near = longest * np.linspace(1 - 0.3 * longest / span, 1 + 0.3 * longest / span, 401)
    fit = coherence(near)
    return float(near[fit.argmax()]), float(fit.max())


@dataclass(frozen=True)
class Tracks:
    """Sectors of a track at the start, tracks of a cylinder, and the turns lost between them;
    `only`: no other number of heads fits nearly as well, `even`: every other one does.
    """

    sectors: int
    heads: int
    track_skew_ms: float
    cylinder_skew_ms: float
    coherence: float
    only: bool = True
    even: bool = False

    @property
    def unevenness_ms(self) -> float:
        """By how much the two skews differ."""
        return abs(self.cylinder_skew_ms - self.track_skew_ms)

    @property
    def most_skew_ms(self) -> float:
        """The larger of the two."""
        return max(self.track_skew_ms, self.cylinder_skew_ms)

    @property
    def is_known(self) -> bool:
        """Whether the angles tell the skews."""
        return (self.only or self.even) and self.coherence >= COHERENT


def find_tracks(angles: NDArray[Any], period_ms: float, guess: float) -> Tracks:
    """The tracks under which the completions of the first sectors come at one angle.

    After DIXtrac (Schindler and Ganger, 1999): a sector is under the head once in a revolution, at
    an angle that moves on by its share of the track, and by a skew at each track and cylinder.
    `guess` is the sectors that pass in a revolution of a sequential read.
    """
    places, turns = angles[:, 0], angles[:, 1] / period_ms

    def best(sectors: float, heads: int, skews: NDArray[Any], mores: NDArray[Any]) -> Tracks:
        track = places // sectors
        cylinder = track // heads
        at = np.exp(2j * np.pi * (turns - places / sectors))
        by_track = np.exp(-2j * np.pi * np.outer(skews, track)) * at
        fit = np.abs(by_track @ np.exp(-2j * np.pi * np.outer(mores, cylinder)).T) / len(at)
        one, two = np.unravel_index(fit.argmax(), fit.shape)
        skew, more = float(skews[one]), float(mores[two])
        # The fifth that fits worst came late.
        aligned = at * np.exp(-2j * np.pi * (skew * track + more * cylinder))
        off = np.abs(np.angle(aligned * np.conj(aligned.mean())))
        kept = aligned[off <= np.quantile(off, 0.8)]
        return Tracks(
            round(sectors), heads, skew * period_ms, (skew + more) * period_ms,
            float(np.abs(kept.mean())),
        )  # fmt: skip

    coarse, none = np.arange(0, 0.3, 0.02), np.zeros(1)
    first = [best(n, 1, coarse, none) for n in np.arange(guess * 0.97, guess * 1.25, 4)]
    first.sort(key=lambda each: -each.coherence)
    likely = {each.sectors + more for each in first[:4] for more in range(-4, 5, 2)}
    second = [
        best(n, heads, coarse, coarse if heads > 1 else none) for n in likely for heads in HEADS
    ]
    second.sort(key=lambda each: -each.coherence)
    near, found = np.arange(-0.02, 0.021, 0.002), []
    for each in second[:24]:
        skew = each.track_skew_ms / period_ms + near
        more = (each.cylinder_skew_ms - each.track_skew_ms) / period_ms + near
        for sectors in range(each.sectors - 3, each.sectors + 4):
            found.append(best(sectors, each.heads, skew, more if each.heads > 1 else none))
    # Of each number of heads the best one, as near as all completions together can tell.
    found.sort(key=lambda each: each.coherence)
    by_heads = {each.heads: each for each in found}
    found = [refined(each, places, turns, period_ms) for each in by_heads.values()]
    # A skew of a whole turn more is the same angle, and half of all that a stream could read.
    found = [each for each in found if each.most_skew_ms < SKEW_MAX * period_ms]
    if not found:
        return replace(first[0], coherence=0.0)
    least = min(1 - each.coherence for each in found)
    rivals = [each for each in found if 1 - each.coherence <= RIVAL * least]
    # Of equal skews every number of heads is the same: one. Else few, where these fit as well.
    is_even = max(each.unevenness_ms for each in rivals) < EVEN * period_ms
    close = [each for each in rivals if 1 - each.coherence <= 1.05 * least]
    few = min(close, key=lambda each: (each.heads, -each.coherence))
    if is_even:
        return replace(few, heads=1, only=False, even=True)
    return replace(few, only=len({each.heads for each in rivals}) == 1)


def refined(tracks: Tracks, places: NDArray[Any], turns: NDArray[Any], period_ms: float) -> Tracks:
    """Tracks and skews moved to the least squares of what is left of the angles: sectors and skew
    make up for each other between tracks, but within a track only sectors count.
    """
    best = tracks
    for is_sectors_free in (True, True, False):
        now, heads = best, best.heads
        track = places // now.sectors
        cylinder = track // heads
        skew, more = now.track_skew_ms, now.cylinder_skew_ms - now.track_skew_ms
        left = turns - places / now.sectors - (skew * track + more * cylinder) / period_ms
        left = np.angle(np.exp(2j * np.pi * (left - left[0]))) / 2 / np.pi
        left -= np.median(left)
        kept = np.abs(left) <= np.quantile(np.abs(left), 0.8)
        columns = [np.ones(len(left)), track]
        columns += [cylinder] if heads > 1 else []
        columns += [places / now.sectors] if is_sectors_free else []
        found = np.linalg.lstsq(np.column_stack(columns)[kept], left[kept], rcond=None)[0]
        sectors = round(now.sectors / (1 + found[-1])) if is_sectors_free else now.sectors
        skew += found[1] * period_ms
        more += (found[2] if heads > 1 else 0.0) * period_ms
        track = places // sectors
        aligned = turns - places / sectors - (skew * track + more * (track // heads)) / period_ms
        at = np.exp(2j * np.pi * aligned)
        off = np.abs(np.angle(at * np.conj(at.mean())))
        coherence = float(np.abs(at[off <= np.quantile(off, 0.8)].mean()))
        new = Tracks(sectors, heads, float(skew), float(skew + more), coherence)
        best = new if is_sectors_free or coherence > tracks.coherence else tracks
    return best if best.coherence >= tracks.coherence else tracks


def find_zones(probes: DiskProbes, period_ms: float, tracks: Tracks) -> list[dict[str, int]]:
    """Zones from the rates: places of nearly one rate are one zone."""
    heads = tracks.heads
    turn = period_ms + ((heads - 1) * tracks.track_skew_ms + tracks.cylinder_skew_ms) / heads
    runs: list[list[float]] = []
    starts: list[float] = []
    places = [share for share, _ in probes.rates]
    # A place is as fast as any behind it, and a late host only makes it slower.
    envelope = np.maximum.accumulate([rate for _, rate in probes.rates][::-1])[::-1]
    for index, (share, rate) in enumerate(zip(places, envelope, strict=True)):
        if runs and abs(rate / np.median(runs[-1]) - 1) < SAME_RATE:
            runs[-1].append(rate)
        else:
            starts.append((share + places[index - 1]) / 2 if index else 0.0)
            runs.append([rate])
    zones = []
    for start, end, run in zip(starts, [*starts[1:], 1.0], runs, strict=True):
        sectors = max(8, round(float(np.median(run)) * turn / 1e3 / SECTOR))
        size = (end - start) * probes.size_bytes / SECTOR
        zones.append(
            {"cylinders": math.ceil(size / (sectors * heads)), "sectors_per_track": sectors}
        )
    return zones


def unevenness(rates: Sequence[tuple[float, float]]) -> float:
    """By how much rates jump up and down from place to place, which no disk's do: the mean share
    by which one is off those beside it, without steps of zones.
    """
    logs = np.log([rate for _, rate in rates])
    off = logs[1:-1] - np.clip(logs[1:-1], *np.sort([logs[:-2], logs[2:]], axis=0))
    return float(np.mean(np.abs(off))) if len(off) else 0.0


def seek_times(
    probes: DiskProbes, zones: Sequence[Mapping[str, int]], heads: int, period_ms: float,
    hit_ms: float,
) -> tuple[tuple[float, float, float], float]:  # fmt: skip
    """Seek over one cylinder, the mean one and over all, in ms, and their standard error in ms.

    The curve is that of `Seek::ThreeTimes` in crates/sim/src/disk/seek.rs; of n times to random
    angles the least one waits for 1/(n + 1) of a revolution.
    """
    sectors = [zone["cylinders"] * zone["sectors_per_track"] * heads for zone in zones]
    ends = np.concatenate(([0], np.cumsum(sectors))) * SECTOR
    cylinders = np.concatenate(([0], np.cumsum([zone["cylinders"] for zone in zones])))
    whole = float(cylinders[-1])
    places = np.interp(probes.seeks[:, :2], ends, cylinders)
    distances = np.abs(places[:, 0] - places[:, 1])
    # Below two cylinders an arm may not move at all.
    far = distances >= 2
    distances, times = distances[far], probes.seeks[far, 2] - hit_ms
    order = np.argsort(distances)
    rows, values = [], []
    for group in np.array_split(order, DISTANCES):
        # Within a group longer ways take longer: the second half would hide the first.
        for part in np.array_split(group, 2):
            low = np.sort(times[part])
            count = len(low)
            least = [low[i] - (i + 1) * period_ms / (count + 1) for i in range(min(2, count))]
            further = float(np.mean(distances[part])) - 1
            rows.append((1.0, math.sqrt(further), further))
            values.append(float(np.mean(least)))
    matrix, wanted = np.array(rows), np.maximum(np.array(values), 0.0)
    (single, root, linear), rest = _least_squares_of_no_negative(matrix, wanted)
    full = single + root * math.sqrt(whole) + linear * whole
    average = (3 * math.sqrt(whole) * root + 10 * single + 5 * full) / 15
    error = rest / math.sqrt(max(len(values) - 3, 1)) / 2
    return (max(single, 0.01), average, full), error


def _least_squares_of_no_negative(matrix: Any, wanted: Any) -> tuple[NDArray[Any], float]:
    """(the factors ≥ 0 of a few columns that come nearest, how far that is): of the fits on every
    choice of columns without a negative factor the best one.
    """
    scale, columns = matrix.max(0), matrix.shape[1]
    best = (np.zeros(columns), float(np.linalg.norm(wanted)))
    for chosen in map(list, product((False, True), repeat=columns)):
        factors = np.zeros(columns)
        found = np.linalg.lstsq((matrix / scale)[:, chosen], wanted, rcond=None)[0]
        factors[chosen] = found / scale[chosen]
        rest = float(np.linalg.norm(matrix @ factors - wanted))
        if factors.min() >= 0 and rest < best[1]:
            best = (factors, rest)
    return best
