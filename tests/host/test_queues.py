"""Which queues are below a path: real mounts, and made-up sysfs for devices that are not here."""

import platform
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from device_states import mounted, run

from schedlab.app import targets
from schedlab.app.apply import apply
from schedlab.errors import HostError, SpecError
from schedlab.host import devices, queues
from schedlab.host.queues import queues_below
from schedlab.host.settings import knobs
from schedlab.nouns import Candidate, Target

FILESYSTEMS = Path("/proc/filesystems").read_text(encoding="ascii").split()


@pytest.fixture
def place(loop, tmp_path):
    """A directory on an ext4 on a loop device."""
    with mounted(loop, tmp_path):
        (where,) = tmp_path.glob("schedlab-mount-*")
        yield where


@contextmanager
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", arguments[-1]], check=True)


def test_a_loop_device_is_in_the_set_and_its_disk_only_when_asked(place, loop):
    name = Path(loop).name
    (place / "sub").mkdir()
    queue_set = queues_below(place / "sub")
    assert (queue_set.queues, queue_set.mounts, queue_set.reasons) == ((name,), (), {})
    text = "\n".join(queue_set.lines())
    assert f"ext4 {place}\n  loop {name}: [none]" in text
    assert "nr_requests 128" in text
    # Named as a device, all that is mounted from it feels a switch.
    assert queues_below(loop).mounts == (f"{place} (ext4, on {name})",)
    disks = devices.disks_below("/")
    wider = queues_below(place, below=True)
    if not disks:
        pytest.skip("the disk below / cannot be seen here")
    assert set(wider.queues) == {name, *disks}
    assert any("it carries /" in why for disk in disks for why in wider.reasons[disk])


def test_another_mount_on_the_same_queue_must_be_named(place, loop, tmp_path):
    name = Path(loop).name
    inside, other = place / "disk.img", tmp_path / "other"
    other.mkdir()
    with inside.open("wb") as file:
        file.truncate(4 << 20)
    run("mkfs.ext4", "-q", "-F")(str(inside))
    with mount("--bind", str(place), str(other)):
        assert queues_below(place).reasons == {}  # the same file system
    with mount("-o", "loop", str(inside), str(other)):
        upper = queues_below(other, below=True)
        assert name in upper.queues
        assert any(f"it carries {place}" in why for why in upper.reasons[name])
        assert any(str(place) in line for line in upper.mounts)
        assert name not in queues_below(other).queues


def test_an_overlay_is_its_upper_and_lower_directories(new_loop, tmp_path):
    if "overlay" not in FILESYSTEMS:
        pytest.skip("needs overlayfs")
    names = []
    with ExitStack() as stack:
        layers = []
        for part in ("upper", "lower"):
            device, where = new_loop(), tmp_path / part
            where.mkdir()
            stack.enter_context(mounted(device, where))
            (mounted_at,) = where.glob("schedlab-mount-*")
            layers.append(mounted_at)
            names.append(Path(device).name)
        upper, lower = layers
        merged = tmp_path / "merged"
        for each in (upper / "up", upper / "work", merged):
            each.mkdir()
        options = f"lowerdir={lower},upperdir={upper}/up,workdir={upper}/work"
        stack.enter_context(mount("-t", "overlay", "-o", options, "overlay", str(merged)))
        queue_set = queues_below(merged)
        assert set(queue_set.queues) == set(names)
        assert any(line.strip().startswith("upper") for line in queue_set.lines())


def test_an_external_journal_of_ext4_is_in_the_set_and_in_a_switch(new_loop, tmp_path):
    """With one of two switched, half of the work would be measured under the old scheduler."""
    data, log, other = new_loop(), new_loop(), new_loop()
    run("mkfs.ext4", "-q", "-F", "-O", "journal_dev", "-b", "4096")(log)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", f"device={log}")(data)
    where = tmp_path / "mounted"
    where.mkdir()
    both = tuple(Path(device).name for device in (data, log))
    with mount(data, str(where)):
        queue_set = queues_below(where)
        assert set(queue_set.queues) == set(both)
        assert any(line.strip().startswith(f"journal {both[1]}") for line in queue_set.lines())
        target = Target("directory", str(where), switch=both)
        assert targets._switched(target)[0] == both
        for named, says in (
            ((data,), f"its files are on {both[1]} too, which --switch does not name"),
            ((log,), f"its files are on {both[0]} too, which --switch does not name"),
            ((*both, other), f"--switch {Path(other).name}: no file of {where} is on it"),
        ):
            with pytest.raises(SpecError, match=says) as caught:
                targets._switched(replace(target, switch=named))
            assert caught.value.hint == f"--switch {','.join(sorted(both))}"


def test_btrfs_on_two_devices(new_loop, tmp_path):
    if shutil.which("mkfs.btrfs") is None or "btrfs" not in FILESYSTEMS:
        pytest.skip("needs btrfs and mkfs.btrfs (btrfs-progs)")
    pair = [new_loop(128 << 20), new_loop(128 << 20)]
    run("mkfs.btrfs", "-q", "-f", pair[0])(pair[1])
    where = tmp_path / "mounted"
    where.mkdir()
    with mount(pair[0], str(where)):
        assert set(queues_below(where).queues) == {Path(device).name for device in pair}
        assert set(devices.disks_below(where)) == {Path(device).name for device in pair}
        assert queues_below(where).reasons == {}


def test_xfs_with_an_external_log(new_loop, tmp_path):
    if shutil.which("mkfs.xfs") is None or "xfs" not in FILESYSTEMS:
        pytest.skip("needs XFS and mkfs.xfs (xfsprogs)")
    data, log = new_loop(400 << 20), new_loop(100 << 20)
    run("mkfs.xfs", "-q", "-f", "-l", f"logdev={log}")(data)
    where = tmp_path / "mounted"
    where.mkdir()
    with mount("-o", f"logdev={log}", data, str(where)):
        assert set(queues_below(where).queues) == {Path(data).name, Path(log).name}


def test_swap_on_a_queue_must_be_named(loop):
    run("mkswap")(loop)
    run("swapon")(loop)
    try:
        queue_set = queues_below(loop)
        assert queue_set.reasons == {Path(loop).name: (f"it carries the swap area {loop}",)}
    finally:
        run("swapoff")(loop)


@pytest.mark.parametrize("kind", ["tmpfs", "proc"])
def test_without_a_queue_it_says_why(root_with_loop, tmp_path, kind):
    with mount("-t", kind, "none", str(tmp_path)):
        with pytest.raises(HostError, match=f"no request queue below this {kind}") as caught:
            queues_below(tmp_path)
        assert caught.value.hint
    with pytest.raises(HostError, match="does not exist"):
        queues_below(tmp_path / "nosuch")


class Sysfs:
    """A made-up /sys/block and /sys/class/block."""

    def __init__(self, root, patch):
        self.block, self.by_class, self.btrfs = root / "block", root / "class", root / "btrfs"
        for directory in (self.block, self.by_class, self.btrfs):
            directory.mkdir()
        patch.setattr(knobs, "CLASS_BLOCK", self.by_class)
        patch.setattr(knobs, "SYS_BLOCK", self.block)
        patch.setattr(devices, "SYS_BTRFS", self.btrfs)

    def disk(self, name, *slaves, scheduler=True, where=""):
        entry = self.block / where / name
        (entry / "queue").mkdir(parents=True)
        (self.by_class / name).symlink_to(entry)
        if scheduler:
            (entry / "queue" / "scheduler").write_text("[none] bfq\n", encoding="ascii")
            (entry / "queue" / "nr_requests").write_text("64\n", encoding="ascii")
        for slave in slaves:
            (entry / "slaves" / slave).mkdir(parents=True)
        return entry

    def partition(self, disk, name):
        entry = self.block / disk / name
        entry.mkdir()
        (entry / "partition").write_text("1", encoding="ascii")
        (self.by_class / name).symlink_to(entry)


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    return Sysfs(tmp_path, monkeypatch)


def names(name):
    return queues._names(queues._device(name, "", False))


def test_lvm_over_crypt_over_raid_over_partitions(sysfs):
    for disk in ("sda", "sdb"):
        sysfs.disk(disk)
        sysfs.partition(disk, f"{disk}1")
    sysfs.disk("md0", "sda1", "sdb1", scheduler=False)
    (sysfs.disk("dm-0", "md0", scheduler=False) / "dm").mkdir()
    (sysfs.block / "dm-0" / "dm" / "uuid").write_text("CRYPT-LUKS2-x", encoding="ascii")
    sysfs.disk("dm-1", "dm-0", scheduler=False)
    assert names("dm-1") == ("sda", "sdb")
    lines = list(queues._device("dm-1", "", False).lines())
    assert [line.strip().split(":")[0] for line in lines] == [
        "dm dm-1", "CRYPT dm-0", "md md0", "partition sda1", "disk sda",
        "partition sdb1", "disk sdb",
    ]  # fmt: skip
    assert lines[-1].endswith("disk sdb: [none] bfq, nr_requests 64")


def test_bcache_is_its_backing_and_its_cache_device(sysfs):
    sysfs.disk("sda")
    cache = sysfs.disk("nvme9n1")
    (cache / "bcache").mkdir()
    entry = sysfs.disk("bcache0", "sda", scheduler=False)
    (entry / "bcache" / "cache").mkdir(parents=True)
    (entry / "bcache" / "cache" / "cache0").symlink_to(cache / "bcache")
    assert names("bcache0") == ("nvme9n1", "sda")


def test_an_nvme_multipath_head_is_its_hidden_paths(sysfs):
    sysfs.disk("nvme0n1", scheduler=False, where="subsystem")
    for controller in ("nvme0", "nvme1"):
        number = controller[-1]
        sysfs.disk(f"nvme0c{number}n1", where=f"subsystem/{controller}")
    assert names("nvme0n1") == ("nvme0c0n1", "nvme0c1n1")


def test_btrfs_is_all_of_its_devices(sysfs):
    for disk in ("sda", "sdb", "sdc"):
        sysfs.disk(disk)
    for uuid, members in (("a", ("sdc",)), ("b", ("sda", "sdb"))):
        for member in members:
            (sysfs.btrfs / uuid / "devices" / member).mkdir(parents=True)
    assert devices.btrfs_members("sdb") == ("sda", "sdb")
    assert devices.btrfs_members("sdx") == ()


def test_doctor_prints_the_queues_below_a_path(loop):
    words = [sys.executable, "-m", "schedlab", "doctor", "--path", loop]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert result.stdout.startswith(f"loop {Path(loop).name}: ")
    assert "nr_requests" in result.stdout


def test_what_the_kernel_only_shows_is_not_writable(loop):
    queue = knobs.queue_of(loop)
    names = ("scheduler", "nr_requests", "logical_block_size", "missing")
    assert [knobs.writable(queue / name) for name in names] == [True, True, False, False]


@pytest.mark.parametrize("release", ["5.15.0-91-generic", "6.9.12-1", "6.10.0-rc1", "7.0.1"])
@pytest.mark.parametrize("model", ["host-managed", "host-aware", "none", ""])
def test_a_zoned_device_gets_no_scheduler_that_reorders_its_writes(
    sysfs, model, release, monkeypatch
):
    """Before Linux 6.10: since then the block layer keeps the order of a zone's writes."""
    monkeypatch.setattr(platform, "release", lambda: release)
    queue = sysfs.disk("sdx") / "queue"
    (queue / "scheduler").write_text("[none] mq-deadline bfq\n", encoding="ascii")
    if model:
        (queue / "zoned").write_text(f"{model}\n", encoding="ascii")
    zoned = model.startswith("host") and release[:3] in ("5.1", "6.9")
    for name in ("mq-deadline", "bfq", "none"):
        choice = apply.ToApply(Candidate(name, {"scheduler": name}))
        request = apply.Request(("sdx",), dry_run=True)
        if zoned and name != "mq-deadline":
            with pytest.raises(
                HostError,
                match=r"sdx is a zoned device.*before Linux 6\.10 its writes need mq-deadline",
            ):
                apply._check("sdx", choice, request)
        else:
            apply._check("sdx", choice, request)
