"""Random chains of apply, other programs' writes, reboots, reconnected devices and undo.

Afterwards the queue, and what was applied beside it to the machine, are as before byte by byte, but
for what another program was the last to set; that, and nothing else, is named. CHAINS=200 runs as
many; a failure names its seed.
"""

import os
import random
from pathlib import Path

import pytest

from schedlab.app.apply import applied
from schedlab.app.apply.applied import goes_with_scheduler
from schedlab.app.apply.apply import Request, ToApply, apply
from schedlab.app.apply.undo import undo
from schedlab.host.safety import owned
from schedlab.host.settings import knobs, settings
from schedlab.nouns import Candidate

# Settings of the machine, and what they are set to by us or by another program.
MACHINE = {
    "sysctl.vm.dirty_writeback_centisecs": ("501", "502", "503", "504"),
    "sysctl.vm.dirty_background_bytes": (str(300 << 20), str(400 << 20), str(500 << 20)),
    "thp": ("always", "madvise", "never"),
    "module.printk.time": ("Y", "N"),
}
FILES = {name: settings.resolve(name, "1", settings.SettingScope())[0][0] for name in MACHINE}
CHOICES = (
    ("none", {}),
    ("mq-deadline", {"fifo_batch": 3}),
    ("kyber", {"read_lat_nsec": 3_000_000, "nr_requests": 40}),
    ("bfq", {}),
    ("bfq", {"low_latency": 1, "slice_idle": 5}),
    ("bfq", {"read_ahead_kb": 64}),
)
# One tunable of each scheduler that no other is a view of, and what another program sets it to.
FOREIGN = {
    "mq-deadline": ("iosched/writes_starved", (5, 6)),
    "kyber": ("iosched/write_lat_nsec", (7_000_000, 8_000_000)),
    "bfq": ("iosched/back_seek_penalty", (4, 5)),
}


class Chain:
    def __init__(self, device, backing, rng, boot):
        self.name, self.backing, self.rng, self.boot = Path(device).name, backing, rng, boot
        self.queue = knobs.SYS_BLOCK / self.name / "queue"
        self.is_applied = self.is_old = False
        self.tune()
        self.log = []
        self.begin()
        self.begin_machine()

    def begin(self):
        """From now on an undo restores what is here now."""
        self.original, self.ours, self.foreign = knobs.snapshot(self.queue), {}, {}

    def begin_machine(self):
        """What an undo restores, and what we set, of each file that is applied from now on."""
        self.first, self.set_to = {}, {}

    def tune(self):
        """What a user has set by hand before."""
        scheduler, tunables = self.rng.choice(
            [("bfq", {"low_latency": 0, "slice_idle": 3}), ("mq-deadline", {"fifo_batch": 7}),
             ("none", {})]
        )  # fmt: skip
        knobs.write_value(self.queue / "scheduler", scheduler)
        knobs.write_value(self.queue / "read_ahead_kb", "96")
        for name, value in tunables.items():
            knobs.write_value(self.queue / "iosched" / name, str(value))

    def apply(self):
        scheduler, tunables = self.rng.choice(CHOICES)
        if self.is_old or not self.is_applied:
            self.begin()
        choice = ToApply(Candidate(scheduler, {"scheduler": scheduler, **tunables}))
        apply(choice, Request((self.name,)), lambda line: None)
        self.is_applied, self.is_old = True, False
        self.ours = knobs.snapshot(self.queue)
        # What another program set and this apply left alone is now what an undo goes back to.
        beside = {n: v for n, v in self.foreign.items() if not goes_with_scheduler(n)}
        self.original |= {n: v for n, v in beside.items() if n not in tunables}
        self.foreign = {}

    def write(self):
        """Another program sets a file that no switch of a scheduler sets again."""
        name, values = self.rng.choice([("read_ahead_kb", (16, 256, 512)), ("nomerges", (1, 2))])
        self.set(name, self.rng.choice(values))

    def write_tunable(self):
        """Another program sets a tunable of the scheduler that is there."""
        scheduler = knobs.read_value(self.queue / "scheduler")
        if scheduler in FOREIGN:
            name, values = FOREIGN[scheduler]
            self.set(name, self.rng.choice(values))

    def switch(self):
        """Another program, such as a rule of udev, sets a scheduler."""
        self.foreign = {n: v for n, v in self.foreign.items() if not goes_with_scheduler(n)}
        self.set("scheduler", self.rng.choice(["none", "mq-deadline", "kyber", "bfq"]))

    def set(self, name, value):
        knobs.write_value(self.queue / name, str(value))
        self.foreign[name] = str(value)

    def reconnect(self):
        number = int(self.name.removeprefix("loop"))
        owned.remove_loop(number, str(self.backing))
        assert owned.add_loop(number)
        owned.attach_loop(number, self.backing)
        self.is_old = self.is_applied
        self.tune()
        self.begin()

    def reboot(self):
        self.boot.write_text(f"boot {self.rng.random()}\n")
        self.is_old = self.is_applied
        self.begin()
        self.begin_machine()

    def apply_machine(self):
        name = self.rng.choice(list(MACHINE))
        value = self.rng.choice(MACHINE[name])
        for path in filter(None, (FILES[name], knobs.companion(FILES[name]))):
            self.first.setdefault(path, knobs.read_value(path))
        apply(ToApply(Candidate("m", {name: value})), Request(()), lambda line: None)
        self.set_to[FILES[name]] = value

    def write_machine(self):
        name = self.rng.choice(list(MACHINE))
        knobs.write_value(FILES[name], self.rng.choice(MACHINE[name]))

    def undo(self):
        lines = []
        undo([], True, lines.append)
        self.is_applied = self.is_old = False
        return [line.split()[0] for line in lines if "another program" in line]

    def run(self):
        steps = [self.apply, self.apply, self.apply, self.write, self.write_tunable, self.switch,
                 self.reconnect, self.reboot, self.apply_machine, self.write_machine]  # fmt: skip
        for _ in range(self.rng.randrange(2, 9)):
            step = self.rng.choice(steps)
            self.log.append(step.__name__)
            step()
        was_here = self.is_applied and not self.is_old
        before = knobs.snapshot(self.queue)
        kept = {path: now for path, ours in self.set_to.items()
                if (now := knobs.read_value(path)) not in (ours, self.first[path])}  # fmt: skip
        named = self.undo()
        assert {name for name in named if "/queue/" not in name} == set(map(str, kept))
        for path, value in self.first.items():
            if knobs.companion(path) not in kept:
                assert knobs.read_value(path) == kept.get(path, value), path
        if was_here:  # settings of another boot or device: only the record goes
            self.check_queue(before, {n.partition("/queue/")[2] for n in named if "/queue/" in n})
        else:
            assert knobs.snapshot(self.queue) == before

    def check_queue(self, before, named):
        """Every file as before the first apply, but for what another program set last."""
        now, expected = knobs.snapshot(self.queue), dict(self.original)
        known = (self.original["scheduler"], self.ours["scheduler"])
        is_kept = before["scheduler"] not in known
        if is_kept:  # another program's scheduler, with all that goes with it
            expected = {n: v for n, v in expected.items() if not goes_with_scheduler(n)}
            expected |= {n: v for n, v in before.items() if goes_with_scheduler(n)}
        kept = {"scheduler"} if is_kept else set()
        for name, value in self.foreign.items():
            is_gone = name.startswith("iosched/") and (
                is_kept or before["scheduler"] != self.original["scheduler"]
            )
            if name == "scheduler" or is_gone or value in (self.ours.get(name), expected.get(name)):
                continue
            expected[name] = value
            kept.add(name)
        assert now == expected
        assert named == kept


@pytest.fixture
def machine():
    """Put the machine back, and say how."""
    ratio = knobs.companion(FILES["sysctl.vm.dirty_background_bytes"])
    usual = {path: knobs.read_value(path) for path in (*FILES.values(), ratio)}

    def put_back():
        for path, value in usual.items():
            if value != "0":  # of two files of one setting the one that is in force
                knobs.write_value(path, value)

    yield put_back
    put_back()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(4))
def test_a_chain_ends_as_it_began(new_loop, state, machine, tmp_path, monkeypatch, part):
    boot = tmp_path / "boot"
    boot.write_text("first\n")
    monkeypatch.setattr(applied, "BOOT_ID", boot)
    device = new_loop()
    backing = tmp_path / "disk-0.img"
    for number in range(int(os.environ.get("CHAINS", "20")) // 4):
        seed = 1000 * part + number
        machine()
        chain = Chain(device, backing, random.Random(seed), boot)
        try:
            chain.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {chain.log}") from error
