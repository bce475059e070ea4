"""Random chains of apply, other programs' writes, reboots, reconnected devices and undo.

Afterwards the queue is as before byte by byte, except for what another program was the last to
set; that, and nothing else, is named. CHAINS=200 runs as many; a failure names its seed.
"""

import os
import random
from pathlib import Path

import pytest

from schedlab.app import applied
from schedlab.app.apply import Choice, Request, apply
from schedlab.app.undo import undo
from schedlab.host import knobs, owned
from schedlab.spec import Candidate

CHOICES = (
    ("none", {}),
    ("mq-deadline", {"fifo_batch": 3}),
    ("kyber", {"read_lat_nsec": 3_000_000, "nr_requests": 40}),
    ("bfq", {}),
    ("bfq", {"low_latency": 1, "slice_idle": 5}),
    ("bfq", {"read_ahead_kb": 64}),
)


class Chain:
    def __init__(self, device, backing, rng, boot):
        self.name, self.backing, self.rng, self.boot = Path(device).name, backing, rng, boot
        self.queue = knobs.SYS_BLOCK / self.name / "queue"
        self.is_applied = self.is_old = False
        self.tune()
        self.expected = knobs.snapshot(self.queue)
        self.foreign = set()
        self.log = []

    def tune(self):
        """What a user has set by hand before."""
        scheduler, tunables = self.rng.choice(
            [("bfq", {"low_latency": 0, "slice_idle": 3}), ("mq-deadline", {"fifo_batch": 7}),
             ("none", {})]
        )  # fmt: skip
        knobs.write_value(self.queue / "scheduler", scheduler)
        for name, value in {**tunables, "../read_ahead_kb": 96}.items():
            knobs.write_value(self.queue / "iosched" / name if scheduler != "none" else
                              self.queue / Path(name).name, str(value))  # fmt: skip

    def apply(self):
        scheduler, tunables = self.rng.choice(CHOICES)
        if self.is_old or not self.is_applied:
            self.expected, self.foreign = knobs.snapshot(self.queue), set()
        choice = Choice(Candidate(scheduler, {"scheduler": scheduler, **tunables}))
        apply(choice, Request((self.name,)), lambda line: None)
        self.is_applied, self.is_old = True, False
        if "read_ahead_kb" in tunables and "read_ahead_kb" in self.foreign:
            self.foreign.discard("read_ahead_kb")
            self.expected["read_ahead_kb"] = self.first_read_ahead

    def write(self):
        """Another program: one of the files that no switch of a scheduler sets again."""
        if "read_ahead_kb" not in self.foreign:
            self.first_read_ahead = self.expected["read_ahead_kb"]
        value = str(self.rng.choice([16, 256, 512]))
        knobs.write_value(self.queue / "read_ahead_kb", value)
        self.expected["read_ahead_kb"] = value
        self.foreign.add("read_ahead_kb")

    def reconnect(self):
        number = int(self.name.removeprefix("loop"))
        owned.remove_loop(number, str(self.backing))
        assert owned.add_loop(number)
        owned.attach_loop(number, self.backing)
        self.is_old = self.is_applied
        self.tune()
        self.expected, self.foreign = knobs.snapshot(self.queue), set()

    def reboot(self):
        self.boot.write_text(f"boot {self.rng.random()}\n")
        self.is_old = self.is_applied
        self.expected, self.foreign = knobs.snapshot(self.queue), set()

    def undo(self):
        lines = []
        undo([], True, lines.append)
        self.is_applied = self.is_old = False
        return lines

    def run(self):
        for _ in range(self.rng.randrange(2, 7)):
            step = self.rng.choice([self.apply, self.apply, self.apply, self.write,
                                    self.reconnect, self.reboot])  # fmt: skip
            self.log.append(step.__name__)
            step()
        is_old = self.is_old
        lines = self.undo()
        if is_old:
            return  # settings of another boot or device: only the record goes
        assert knobs.snapshot(self.queue) == self.expected
        named = {line.split()[0].rpartition("/")[2] for line in lines}
        assert named <= self.foreign, lines


@pytest.mark.parametrize("part", range(4))
def test_a_chain_ends_as_it_began(new_loop, state, tmp_path, monkeypatch, part):
    boot = tmp_path / "boot"
    boot.write_text("first\n")
    monkeypatch.setattr(applied, "BOOT_ID", boot)
    device = new_loop()
    backing = tmp_path / "disk-0.img"
    for number in range(int(os.environ.get("CHAINS", "20")) // 4):
        seed = 1000 * part + number
        chain = Chain(device, backing, random.Random(seed), boot)
        try:
            chain.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {chain.log}") from error
