"""Collection page by page against a simulator of its own: a flash of one die and one plane.

With one plane everything needs its register, so that the flash is one server. What it serves next
is written down here once more, from docs/concepts/ssd-simulator.md.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from schedlab import sim

READ, PROGRAM, ERASE, TRANSFER = 60_000, 660_000, 3_500_000, 5_000
BLOCKS, PAGES, LOW, HIGH, LOGICAL = 24, 16, 3, 4, 256


@dataclass
class Tables:
    """Where the pages are; blocks are collected in the order in which they were filled."""

    place: dict[int, int] = field(default_factory=dict)
    holds: dict[int, list[int]] = field(default_factory=dict)
    full: list[int] = field(default_factory=list)
    fresh: int = 0
    erased: list[int] = field(default_factory=list)
    open: dict[str, int | None] = field(default_factory=lambda: {"host": None, "moved": None})

    def free(self) -> int:
        return BLOCKS - self.fresh + len(self.erased)

    def put(self, page: int, frontier: str) -> None:
        block = self.open[frontier]
        if block is None or len(self.holds[block]) == PAGES:
            if block is not None:
                self.full.append(block)
            if self.erased:
                block = self.erased.pop()
            else:
                block, self.fresh = self.fresh, self.fresh + 1
            self.open[frontier], self.holds[block] = block, []
        self.holds[block].append(page)
        self.place[page] = block

    def write(self, page: int) -> list[tuple[int, bool]]:
        """Moves of each block to collect, and whether they opened a block."""
        victims = []
        if page in self.place:
            held = self.holds[self.place[page]]
            held[held.index(page)] = -1
        self.put(page, "host")
        while self.free() < LOW or (victims and self.free() < HIGH):
            victim = self.full.pop(0)
            pages, before = [p for p in self.holds[victim] if p >= 0], self.free()
            for moved in pages:
                self.put(moved, "moved")
            victims.append((len(pages), self.free() < before))
            self.holds[victim] = []
            self.erased.append(victim)
        return victims


@dataclass
class Flash:
    """One server: the moves and erasures that it owes, and what waits."""

    victims: list[list[int]] = field(default_factory=list)
    free: int = BLOCKS
    owed: int = 0
    since: int = 0
    waiting: dict[bool, list[int]] = field(default_factory=lambda: {False: [], True: []})
    held: bool = False
    passed: int = 0

    def steps(self) -> int:
        return sum(moves + 1 for moves, _ in self.victims)

    def owes(self) -> bool:
        room = max(self.free - self.owed - 1, 0) * PAGES
        return self.steps() > 0 and (room == 0 or self.since < -(-self.steps() // room))

    def step(self) -> int:
        """The time of the next step of collection."""
        victim = self.victims[0]
        if self.held:
            self.held, self.since, victim[0] = False, self.since + 1, victim[0] - 1
            return TRANSFER + PROGRAM
        if victim[0]:
            self.held = True
            self.owed, victim[1] = self.owed + victim[1], 0
            return READ + TRANSFER
        self.victims.pop(0)
        self.owed, self.since = self.owed - 1, self.since + 1
        return ERASE

    def next(self) -> tuple[int, int | None]:
        """Time of what is served next, and the request that it is."""
        if self.steps() and self.free - self.owed <= 1:
            return self.step(), None
        if self.waiting[False] and self.passed < 2 * PROGRAM:
            self.passed += READ if self.waiting[True] else 0
            return READ + TRANSFER, self.waiting[False].pop(0)
        if self.waiting[True] and not self.owes():
            self.since = self.passed = 0
            return TRANSFER + PROGRAM, self.waiting[True].pop(0)
        return self.step(), None


def independent(requests: list[tuple[int, int, bool]]) -> list[int]:
    """When each of (arrival, page, is write) is done."""
    tables, flash, done, now = Tables(), Flash(), [0] * len(requests), 0
    left = list(enumerate(requests))
    while left or flash.steps() or any(flash.waiting.values()):
        if not (flash.steps() or any(flash.waiting.values())):
            now = max(now, left[0][1][0])
        while left and left[0][1][0] <= now:
            number, (_, page, is_write) = left.pop(0)
            if is_write:
                for moves, opens in tables.write(page):
                    flash.victims.append([moves, int(opens)])
                    flash.owed += 1 - opens
                flash.free = tables.free()
            flash.waiting[is_write].append(number)
        time, request = flash.next()
        now += time
        if request is not None:
            done[request] = now
    return done


@pytest.mark.parametrize(("seed", "every_ns"), [(1, 4_000_000), (2, 2_500_000), (3, 900_000)])
def test_every_request_is_done_when_an_own_simulator_says(seed: int, every_ns: int) -> None:
    rng = random.Random(seed)
    now, requests = 0, []
    for _ in range(3000):
        now += 1 + round(rng.expovariate(1 / every_ns))
        requests.append((now, rng.randrange(LOGICAL), rng.random() < 0.6))
    result = sim.run(
        workload=sim.Requests(
            arrival_ns=np.array([arrival for arrival, _, _ in requests]),
            offset_bytes=np.array([page * 4096 for _, page, _ in requests]),
            length_bytes=np.full(len(requests), 4096),
            operation=np.array([int(is_write) for _, _, is_write in requests]),
        ),
        device="nvme",
        service="parallel",
        log=True,
        **{
            **dict.fromkeys(
                ["flash__channels", "flash__dies_per_package", "flash__planes_per_die"], 1
            ),
            "flash__blocks_per_plane": BLOCKS,
            "flash__pages_per_block": PAGES,
            "ftl__free_blocks_low": LOW,
            "ftl__free_blocks_high": HIGH,
            "ftl__over_provisioning": 0.5,
            "ftl__collect": "fifo",
            "ftl__in_flight": 65_536,
            "queue__depth": 65_536,
            "buffer__size": 0,
            "buffer__page_time": 0,
            "controller__command": 0,
            "controller__completion": 0,
            "link__bytes_per_s": 0,
            "link__latency": 0,
        },
    )
    assert result.report["device"]["ftl"]["gc_moved_pages"] > 500
    simulated = np.zeros(len(requests), dtype=np.int64)
    simulated[result.log["index"]] = result.log["completed_ns"]
    np.testing.assert_array_equal(simulated, independent(requests))
