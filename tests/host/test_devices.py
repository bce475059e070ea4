"""Which devices may be written to raw: refusal is the default, with every reason."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from device_states import claimed, mounted, read_only, swapping

from schedlab.errors import HostError
from schedlab.host import devices, facts
from schedlab.host.safety.consent import objections
from schedlab.host.settings import knobs


@contextmanager
def mounted_again(device, place):
    """A second mount of what is mounted."""
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_what_speaks_against_a_device_is_named(loop, tmp_path):
    """Beside data of unknown origin, which test_consent.py has."""

    def reasons():
        return "; ".join(objections(loop, allow_unknown_data=True))

    for use, said in ((read_only, "it is read-only"), (claimed, "the kernel is using it")):
        with use(loop):
            assert said in reasons()
    assert reasons() == ""
    with swapping(loop):
        assert "it is swap space in use" in reasons()
    assert reasons() == "it holds a swap signature (other)"
    with mounted(loop, tmp_path), mounted_again(loop, tmp_path / "again") as again:
        assert f"it is mounted on {tmp_path}/schedlab-" in reasons()
        assert f"it is mounted on {again}" in reasons()


def test_a_drive_without_a_medium_and_one_that_is_read_only_say_so(tmp_path):
    for name, text in {"size": "0", "ro": "1", "dev": "511:77"}.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert devices.reasons_in_use(tmp_path) == ["it is read-only", "it has no medium (size 0)"]


def test_of_all_devices_one_that_goes_meanwhile_is_left_out_and_one_that_fails_is_not(
    loop, monkeypatch
):
    def look(name):
        if name == gone or is_broken:
            raise HostError("it cannot be read")
        return name.upper()

    gone, there, is_broken = "loop-removed", Path(loop).name, False
    monkeypatch.setattr(devices, "with_queues", lambda: (gone, there))
    assert devices.each_with_queue(look) == {there: there.upper()}
    is_broken = True
    with pytest.raises(HostError, match="cannot be read"):
        devices.each_with_queue(look)


def test_what_is_no_block_device_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x")
    assert objections(file) == ("it is not a block device",)
    assert objections("/dev/nosuch") == ("it does not exist",)
    assert objections("/dev/null") == ("it is not a block device",)


def test_the_disk_of_the_root_is_found_and_refused():
    disks = devices.disks_below("/")
    if not disks:
        pytest.skip("the disk below / cannot be seen here (overlay or network file system)")
    for disk in disks:
        assert objections(disk)


def test_a_partition_is_found_to_lie_on_its_disk(tmp_path, monkeypatch):
    """On a made-up sysfs, as partitions of loop devices need a module parameter on some hosts."""
    block = tmp_path / "block" / "sda"
    (block / "sda1").mkdir(parents=True)
    (block / "sda1" / "partition").write_text("1", encoding="ascii")
    (block / "queue").mkdir()
    by_class = tmp_path / "class"
    by_class.mkdir()
    (by_class / "sda").symlink_to(block)
    (by_class / "sda1").symlink_to(block / "sda1")
    monkeypatch.setattr(knobs, "CLASS_BLOCK", by_class)
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path / "block")
    assert knobs.device_name("sda1") == knobs.device_name("/dev/sda") == "sda"
    assert knobs.queue_of("sda1") == block / "queue"
    for device in ("sdb", "/mnt/sda", "./sda", str(tmp_path / "sda")):
        with pytest.raises(HostError, match="no such block device"):
            knobs.device_name(device)
    with pytest.raises(HostError, match="has no scheduler"):
        knobs.scheduler_file("sda")


def test_a_device_file_in_a_directory_of_its_driver_is_found(tmp_path, monkeypatch, loop):
    """/dev/etherd/e0.0 is etherd!e0.0 in sysfs; here a loop device stands in for it."""
    number = Path(loop).stat().st_rdev
    by_class, numbers = tmp_path / "class", tmp_path / "numbers"
    block = by_class / "etherd!e0.0"
    (block / "queue").mkdir(parents=True)
    (block / "size").write_text("8", encoding="ascii")
    (block / "ro").write_text("1", encoding="ascii")
    numbers.mkdir()
    (numbers / f"{os.major(number)}:{os.minor(number)}").symlink_to(block)
    monkeypatch.setattr(knobs, "CLASS_BLOCK", by_class)
    monkeypatch.setattr(knobs, "SYS_BLOCK", by_class)
    monkeypatch.setattr(knobs, "NUMBERS", numbers)
    assert knobs.device_name(loop) == knobs.device_name("etherd!e0.0") == "etherd!e0.0"
    assert knobs.queue_of(loop) == block / "queue"
    assert devices.size_bytes(loop) == 4096
    assert "it is read-only" in objections(loop)
    assert str(knobs.device_file("etherd!e0.0")) == "/dev/etherd/e0.0"
    with pytest.raises(HostError, match="no such block device"):
        knobs.device_name("/dev/etherd/e1.0")


def test_a_device_above_others_names_them(tmp_path, monkeypatch):
    block = tmp_path / "dm-0"
    (block / "queue").mkdir(parents=True)
    (block / "slaves" / "sda").mkdir(parents=True)
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    with pytest.raises(HostError) as caught:
        knobs.scheduler_file("dm-0")
    assert "sda" in caught.value.hint


def test_sizes(loop):
    assert devices.size_bytes(loop) == 16 << 20 == facts.device(Path(loop).name)["size_bytes"]
    with pytest.raises(HostError, match="no such block device"):
        devices.size_bytes("/dev/nosuch")
