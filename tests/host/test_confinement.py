"""What holds a started program, tried from inside: other block devices, files outside its target.

Truth is counted by the kernel: sectors in /sys/block/*/stat, and a checksum of the files outside.
"""

import ctypes
import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from device_states import written

from schedlab.errors import HostError
from schedlab.host.safety import owned
from schedlab.kinds.command import Command
from schedlab.run.command import launch
from schedlab.run.command.confinement import HeldDevice, Wall
from schedlab.run.command.launch import WorkGroup

WRITE = "dd if=/dev/urandom bs=64k count=2 oflag=direct conv=notrunc of="
# Ways to a block device that is not the held one; {n} is its number, {d} its path.
WAYS = {
    "its path": f"{WRITE}{{d}}",
    "a node in the target": f"mknod t b {{n}}; {WRITE}t",
    "a node that was there": f"{WRITE}there",
    "a node in memory": f"mknod /dev/shm/t b {{n}}; {WRITE}/dev/shm/t",
    "a node in /proc": f"mknod /proc/t b {{n}}; {WRITE}/proc/t",
    "another process": f"{WRITE}/proc/$PPID/root{{d}}",
    "a descriptor of its starter": f"for f in /proc/$PPID/fd/*; do {WRITE}$f; done",
    "what /dev covers": f"umount /dev; umount -l /dev; {WRITE}{{d}}",
    "a new devtmpfs": f"mkdir m; mount -t devtmpfs x m && {WRITE}m/$(basename {{d}})",
    "a new mount of it": "mkdir m; mount {d} m && dd if=/dev/urandom of=m/x bs=64k count=2",
    "the attributes of a mount": f"mount -o remount,dev,rw /; mknod t b {{n}}; {WRITE}t",
    "another namespace": f"nsenter -t $PPID -m {WRITE}{{d}}",
    "a user namespace": f"unshare -Urm sh -c 'mount -o remount,dev /; mknod t b {{n}}; {WRITE}t'",
    "a loop device over it": f"l=$(losetup -f --show {{d}}); {WRITE}$l",
    "discarding": "blkdiscard -f {d}; blkdiscard -f there",
    "another root": f"mkdir -p r; chroot / {WRITE}{{d}}",
    "a new user": f"setpriv --reuid 65534 --clear-groups {WRITE}there",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The target, beside files that nobody may change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (tmp_path / "target").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "target"


def started(line, place, device="", **parameters):
    """A shell line, confined as a command of a user is."""
    kind = Command(shell=line, **parameters)
    wall = Wall(HeldDevice.at(Path(device)) if device else None)
    assert not wall.missing
    group = WorkGroup(None, "test", wall)
    tokens = {"dir": place, "device": wall.device_path(kind), "run": "1", "seed": "1"}
    try:
        return launch.run(launch.launch_of(kind, "", tokens, group, timeout_s=30), group)
    finally:
        group.end()


def tree(directory):
    """Names and contents below a directory."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("confine", ["devices", "files"])
@pytest.mark.parametrize("way", WAYS)
def test_no_other_block_device_is_written_to(way, confine, place, new_loop):
    victim, held = new_loop(), new_loop()
    subprocess.run(["mkfs.ext4", "-q", victim], check=True)
    number = Path(victim).stat().st_rdev
    os.mknod(place / "there", 0o60666, number)
    before, file = written(victim), Path(f"/sys/block/{Path(victim).name}/loop/backing_file")
    content = hashlib.sha256(Path(file.read_text().strip()).read_bytes()).hexdigest()
    line = WAYS[way].format(d=victim, n=f"{os.major(number)} {os.minor(number)}")
    started(line, place, held, confine=confine)
    assert written(victim) == before
    assert hashlib.sha256(Path(file.read_text().strip()).read_bytes()).hexdigest() == content


def test_the_same_lines_do_write_where_nothing_holds_them(place, new_loop):
    """The test above can fail."""
    victim = new_loop()
    number = Path(victim).stat().st_rdev
    os.mknod(place / "there", 0o60666, number)
    for way in (
        "its path",
        "a node in the target",
        "a node that was there",
        "another process",
        "another namespace",
    ):
        before = written(victim)
        line = WAYS[way].format(d=victim, n=f"{os.major(number)} {os.minor(number)}")
        assert started(line, place, confine="nothing").status == 0
        assert written(victim) > before, way
        (place / "t").unlink(missing_ok=True)


@pytest.mark.parametrize("confine", ["devices", "files"])
def test_the_held_device_has_one_name_whatever_the_typed_path_leads_to_by_now(
    confine, place, new_loop, tmp_path
):
    held, victim, link = new_loop(), new_loop(), tmp_path / "link"
    link.symlink_to(held)
    descriptor = os.open(link, os.O_RDONLY | os.O_EXCL)
    link.unlink()
    link.symlink_to(victim)
    before = written(held), written(victim)
    target = f"/proc/{os.getpid()}/fd/{descriptor}"
    ended = started(f"{WRITE}@device@; {WRITE}{link}", place, target, confine=confine)
    os.close(descriptor)
    assert b"cannot open" in ended.stderr or b"failed to open" in ended.stderr
    assert written(held)[0] - before[0][0] == 256
    assert written(victim) == before[1]


@pytest.mark.parametrize("confine", ["devices", "files"])
def test_no_mount_has_devices_and_no_right_gives_them_back(confine, place, root_with_loop):
    """What the ways above try, looked at from the side of what stops them."""
    writable = (str(place.parent / "outside"),) if confine == "files" else ()
    line = "cat /proc/self/mountinfo; grep CapBnd /proc/self/status"
    shown = started(line, place, confine=confine, writable=writable).stdout.decode()
    *mounts, rights = shown.splitlines()
    own = ["pts", "null", "zero", "full", "random", "urandom", "tty"]
    options = {fields[4]: fields[5].split(",") for fields in map(str.split, mounts)}
    assert "ro" in options["/dev"] and set(writable) <= set(options)
    for name in own:
        options.pop(f"/dev/{name}", None)
    assert [path for path, words in options.items() if "nodev" not in words] == []
    assert " shared:" not in shown, "what it mounts would be mounted for all"
    # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, IPC_LOCK,
    # SYS_CHROOT, SYS_NICE
    kept = (0, 1, 3, 4, 5, 6, 7, 10, 14, 18, 23)
    assert not int(rights.split()[1], 16) & ~sum(1 << right for right in kept)


OUTSIDE = {
    "a new file": "echo x > {o}/new",
    "a file that is there": "echo x > {o}/precious",
    "removal": "rm -r {o}/precious; mv {o} {o}-gone",
    "a link out of the target": "ln -s {o} l; echo x > l/precious; ln {o}/precious h; echo x > h",
    "attributes": "chmod 777 {o}/precious; touch -d yesterday {o}/precious; chown 1:1 {o}",
    "another process": "for d in root cwd; do echo x > /proc/$PPID/$d{o}/precious; done",
    "a descriptor of its starter": "for f in /proc/$PPID/fd/*; do echo x > $f; done",
    "a remount": "mount -o remount,rw /; mount --bind -o rw {o} {o}; echo x > {o}/new",
    "a user namespace": "unshare -Urm sh -c 'mount -o remount,rw /; echo x > {o}/new'",
    "what is mounted above": "umount -l .; umount -l ..; echo x > {o}/new; echo x > ../outside/new",
    "a setting of the kernel": "echo 1 > /proc/sys/fs/lease-break-time; mkdir /sys/fs/cgroup/mine",
}


@pytest.mark.parametrize("way", OUTSIDE)
def test_files_outside_are_held_with_confine(way, place, root_with_loop):
    outside = place.parent / "outside"
    before, setting = tree(outside.parent), Path("/proc/sys/fs/lease-break-time").read_text()
    facts = outside.stat(), (outside / "precious").stat()
    line = OUTSIDE[way].format(o=outside)
    ended = started(f"{line}; echo done > inside && echo > $TMPDIR/x", place, confine="files")
    assert ended.status == 0, ended.stderr
    after = tree(outside.parent)
    assert after.pop(str(place / "inside"))
    assert {path: digest for path, digest in after.items() if not path.startswith(f"{place}/")} == {
        **before
    }
    assert Path("/proc/sys/fs/lease-break-time").read_text() == setting
    now = outside.stat(), (outside / "precious").stat()
    assert [(s.st_mode, s.st_uid, s.st_mtime_ns) for s in now] == [
        (s.st_mode, s.st_uid, s.st_mtime_ns) for s in facts
    ]
    assert not Path("/dev/shm/x").exists()


def test_files_are_the_commands_own_affair_without_confine(place, root_with_loop):
    outside = place.parent / "outside"
    assert started(f"echo x > {outside}/new; echo y > /dev/shm/schedlab-t", place).status == 0
    assert (outside / "new").read_text() == "x\n"
    Path("/dev/shm/schedlab-t").unlink()


def test_a_writable_place_is_the_exception(place, root_with_loop):
    outside = place.parent / "outside"
    kind = {"confine": "files", "writable": (str(outside),)}
    assert started(f"echo x > {outside}/new", place, **kind).status == 0
    assert (outside / "new").read_text() == "x\n"
    with pytest.raises(HostError, match="cannot confine"):
        started("true", place, confine="files", writable=(str(outside / "gone"),))


@pytest.mark.parametrize("confine", ["devices", "files"])
def test_the_mounts_of_other_sessions_are_left_out_so_that_they_can_be_unmounted(
    confine, tmp_path, root_with_loop
):
    """A copy of a mount in a program's namespace keeps its device busy until the program ends."""
    own, other = (tmp_path / owned.new_name("files") for _ in range(2))
    for directory in (own, other):
        directory.mkdir()
        owned.mount("tmpfs", directory, "tmpfs")
    try:
        ended = started("cat /proc/self/mountinfo", own, confine=confine)
        assert str(own).encode() in ended.stdout
        assert str(other).encode() not in ended.stdout
        assert other.is_mount()
    finally:
        for directory in (own, other):
            subprocess.run(["umount", directory], check=True)


def test_programs_find_what_they_need(place, root_with_loop):
    line = (
        "echo x > /dev/null; head -c 4 /dev/urandom > /dev/shm/r; echo out > /dev/stdout; "
        "script -qc 'test -t 0' /dev/null < /dev/null; cat /sys/block/loop0/dev; "
        "dd if=/dev/zero of=f bs=4k count=1 oflag=direct 2>&1"
    )
    for confine in ("devices", "files"):
        ended = started(f"set -e; {line}; rm /dev/shm/r", place, confine=confine)
        assert (ended.status, ended.stderr) == (0, b"")


def test_a_user_without_rights_is_held_by_a_user_namespace(place, root_with_loop):
    outside = place.parent / "outside"
    for directory in (place, outside):
        directory.chmod(0o777)
    for directory in list(place.parents)[:-2]:
        directory.chmod(directory.stat().st_mode | 0o055)
    reading, writing = os.pipe()
    if os.fork() == 0:  # not another Python, which may be in a home that nobody else can read
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after an exec
            text = Wall().missing
            if not text:
                line = f"id -u; echo x > inside; echo y > {outside}/new"
                ended = started(line, place, confine="files")
                text = (ended.stdout + ended.stderr).decode()
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.wait()
    text = os.read(reading, 4096).decode()
    os.close(reading)
    os.close(writing)
    if "allows no namespaces" in text:
        pytest.skip(text)
    assert text.splitlines()[0] == "65534"
    assert "Read-only file system" in text
    assert (place / "inside").read_text() == "x\n"
    assert not (outside / "new").exists()
