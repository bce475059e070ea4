"""The abilities of this machine: for each fact the value, what follows, what changes it.

Read only, works without root and on machines that lack half of it: a fact that cannot be found
out is shown as unknown. One function per fact, listed in `FACTS`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import SIMULATORS, HostError, as_root
from schedlab.host import devices, facts
from schedlab.host.safety import boots_held, journal, leftovers, owned, shelter
from schedlab.host.settings import knobs, setters, udev
from schedlab.package import has_simulators

QUANTA_MS = (1, 2, 5, 10, 20, 50, 100, 200)
_CAPABILITIES = {"SYS_ADMIN": 21, "SYS_NICE": 23, "SYS_RESOURCE": 24, "PERFMON": 38, "BPF": 39}
_IO_URING_SETUP = 425
_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}
# Disks that hold no data of their own, so that no tool sets a scheduler for them.
_UNSET = ("loop", "ram", "zram", "dm-", "md")
# What reading a fact raises where this machine lacks it.
UNKNOWN = (HostError, OSError, ValueError, LookupError, AttributeError)


@dataclass(frozen=True)
class Fact:
    """A line of `schedlab doctor`; `command` is empty where nothing needs or can be changed."""

    topic: str
    found: str
    follows: str
    command: str = ""


def examine(directory: Path, quanta_ms: Sequence[int] = QUANTA_MS) -> list[Fact]:
    """Every fact of this machine; `directory` is where scratch files would go."""
    facts_found: list[Fact] = []
    for topic, examiner in FACTS.items():
        try:
            facts_found += examiner()
        except UNKNOWN as error:
            facts_found.append(_unknown(topic, error))
    return [*facts_found, *quanta(quanta_ms), *space(directory)]


# An ability, the fact that decides it, and how what was found begins where it is there.
_ABILITIES = (
    ("I/O schedulers", "loop devices", "available"),
    ("emulated disks", "emulated device", "yes"),
    ("CPU policies", "privileges", "root"),
    ("sched_ext policies", "sched_ext", ("disabled", "enabled")),
    ("deep queues", "io_uring", "allowed"),
    ("kernel events", "BPF", "usable"),
    ("simulations", "simulators", "installed"),
)


def summary(facts_found: Sequence[Fact]) -> tuple[str, str, str]:
    """Three lines: what can be measured here, what cannot and why, and the one next command."""
    first: dict[str, Fact] = {}
    for fact in facts_found:
        first.setdefault(fact.topic, fact)
    able, unable = ["file tests"], []
    for ability, topic, begins in _ABILITIES:
        found = first[topic].found if topic in first else "unknown"
        if found.startswith(begins):
            able.insert(-1, ability)
        else:
            unable.append(f"{ability} ({topic}: {found})")
    command, without = "schedlab compare --quick", "schedlab lab run ncq-ssd"
    if "simulators" in first and first["simulators"].command:
        without = first["simulators"].command
    if os.geteuid() != 0:
        command = as_root(without, f"sudo {command}")
    if any(fact.command == "schedlab recover" for fact in facts_found):
        command = "schedlab recover"
    elif "loop devices" not in first or not first["loop devices"].found.startswith("available"):
        command = command if os.geteuid() else without
    return ", ".join(able), ", ".join(unable) or "nothing is missing", command


def _unknown(topic: str, error: Exception) -> Fact:
    return Fact(topic, f"unknown ({error})", "it is unknown")


def privileges() -> Iterator[Fact]:
    """Who we are, and which capabilities are missing."""
    status = knobs.text("/proc/self/status") or ""
    mask = int(re.findall(r"^CapEff:\s*(\w+)", status, re.MULTILINE)[0], 16)
    missing = [name for name, bit in _CAPABILITIES.items() if not mask >> bit & 1]
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    state = f"{who}, without {', '.join(missing)}" if missing else f"{who}, all capabilities"
    if os.geteuid() == 0:
        yield Fact("privileges", state, "schedlab can set schedulers and make scratch devices")
    else:
        follows = "only file tests under the current scheduler, and simulations"
        yield Fact("privileges", state, follows, "sudo schedlab ...")


def schedulers() -> Iterator[Fact]:
    """Each device: its scheduler, what it offers, the tunables now."""
    names = devices.with_queues()
    root_disks = devices.disks_below("/")
    for name in names:
        try:
            yield from [_scheduler(name, root_disks), *_queue(name)]
        except UNKNOWN as error:
            if name in devices.with_queues():  # not removed meanwhile
                yield _unknown(f"scheduler of {name}", error)
    if not names:
        follows = "you can compare only on a scratch device"
        yield Fact("schedulers", "no block device has a scheduler", follows)
    yield from scheduler_modules(Path("/lib/modules") / os.uname().release)


def scheduler_modules(modules: Path) -> Iterator[Fact]:
    """Schedulers below a directory of modules, and what loads them."""
    loadable = sorted(
        path.name.partition(".ko")[0]
        for path in modules.glob("kernel/block/*.ko*")
        if "iosched" in path.name or path.name.startswith(("bfq", "mq-deadline"))
    )
    if loadable:
        follows = "they appear in the list of a device when they are loaded"
        commands = "; ".join(f"modprobe {name}" for name in loadable)
        yield Fact("scheduler modules", " ".join(loadable), follows, commands)


def _scheduler(name: str, root_disks: Collection[str]) -> Fact:
    queue = knobs.queue_of(name)
    chosen, choices = knobs.read_value(queue / "scheduler"), knobs.offered(name)
    tunables = " ".join(f"{k}={v}" for k, v in knobs.tunables(queue).items())
    state = f"{chosen}, of {' '.join(choices)}; tunables: {tunables or 'none'}"
    follows = f"{len(choices)} schedulers can be compared"
    if len(choices) == 1:
        follows = "nothing to choose: the scheduler is on the device below, or in a module"
    if name in root_disks:
        follows += "; it holds /, so it changes only when you name it"
    return Fact(f"scheduler of {name}", state, follows, f"schedlab io set NAME {name}")


def _queue(name: str) -> Iterator[Fact]:
    """The facts that a device reports about itself, and how many requests its driver takes."""
    known = facts.queue_facts(name)
    # A loop device repeats what the disk below it reports: that one is asked, no work is disturbed.
    hardware = (knobs.SYS_BLOCK / name / "device").exists()
    doubt = facts.rotational_doubt(name) if hardware else ""
    if known["rotational"] is not None:
        follows = doubt or (
            "bfq waits for the next request of a process, because seeks are expensive"
            if known["rotational"]
            else "bfq and others treat it as an SSD"
        )
        command = f"echo 0 > /sys/block/{name}/queue/rotational" if doubt else ""
        yield Fact(f"rotational of {name}", str(int(known["rotational"])), follows, command)
    tags, narrowed = known["driver_tags"], known["driver_tags_in_use"]
    if tags:
        state = f"{tags} in {known['hardware_queues']} hardware queues"
        state += f", narrowed to {narrowed}" if narrowed not in (None, tags) else ""
        steps = knobs.tag_steps(knobs.queue_of(name)) if narrowed not in (None, tags) else None
        command = f"echo {steps[0]}, then {steps[1]} > nr_requests under none" if steps else ""
        follows = f"schedulers see a backlog only beyond {narrowed or tags} requests in flight"
        yield Fact(f"tags of {name}", state, follows, command)


def ext() -> Iterator[Fact]:
    """sched_ext: whether such a CPU scheduler is loaded."""
    state = knobs.text("/sys/kernel/sched_ext/state")
    if state is None:
        yield Fact("sched_ext", "not in this kernel", "only the built-in CPU policies")
    elif state == "disabled":
        yield Fact("sched_ext", "disabled", "CPU schedulers in BPF can be loaded")
    else:
        name = knobs.text("/sys/kernel/sched_ext/root/ops") or "unnamed"
        follows = "CPU results are for that scheduler"
        yield Fact("sched_ext", f"{state}: {name}", follows, "systemctl stop scx.service")


def simulators() -> Iterator[Fact]:
    """Whether their package is here."""
    if has_simulators():
        yield Fact("simulators", "installed", "`schedlab sim` needs no root")
    else:
        yield Fact("simulators", "missing", "no simulation, no emulated device", SIMULATORS)


def emulated_devices() -> Iterator[Fact]:
    """Whether the model of a device can be put behind a block device, and what is up."""
    from schedlab.host.emulated import keeper

    topic, device = "emulated device", Path("/dev/fuse")
    if not has_simulators():
        yield Fact(topic, "no: simulators missing", "no device can be emulated", SIMULATORS)
    elif os.geteuid() != 0:
        yield Fact(topic, "no: root missing", "only the simulator", "sudo schedlab ...")
    elif not device.exists() or not os.access(device, os.W_OK):
        command = "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN"
        yield Fact(topic, "no: /dev/fuse missing", "only the simulator", command)
    elif not owned.LOOP_CONTROL.exists():
        yield Fact(topic, "no: loop missing", "only the simulator", "modprobe loop")
    else:
        yield Fact(topic, "yes (fuse, loop, root)", "`schedlab device models` lists the models")
        status = knobs.text("/proc/self/status") or ""
        mask = int(re.findall(r"^CapEff:\s*(\w+)", status, re.MULTILINE)[0], 16)
        if not mask >> _CAPABILITIES["SYS_RESOURCE"] & 1:
            follows = "its server may wait for memory: leave some free below a file system"
            command = "in a container: --cap-add SYS_RESOURCE"
            yield Fact(topic, "CAP_SYS_RESOURCE is missing", follows, command)
        for each in keeper.kept(clear=False):
            ceiling_per_s, way_us = each.facts["ceiling_per_s"], each.facts["overhead_ns"] / 1e3
            state = f"{each.line()}; ceiling {ceiling_per_s:,}/s, overhead {way_us:.0f} µs"
            follows = f"models up to {ceiling_per_s // 2:,}/s can be emulated"
            yield Fact(topic, state, follows, f"schedlab device down {each.name}")
        if not Path("/dev/ublk-control").exists():
            yield Fact("ublk", "no", "emulated devices use FUSE and loop; nothing is lost")


def loop() -> Iterator[Fact]:
    """Whether a scratch device can be made."""
    if not owned.LOOP_CONTROL.exists():
        yield Fact("loop devices", "none", "no scratch device", "modprobe loop")
    elif not os.access(owned.LOOP_CONTROL, os.W_OK):
        yield Fact("loop devices", "not permitted here", "no scratch device", "sudo schedlab ...")
    else:
        depth = knobs.text("/sys/module/loop/parameters/hw_queue_depth") or "128"
        state = f"available, hardware queue {depth} deep"
        yield Fact("loop devices", state, f"schedulers see a backlog beyond {depth} in flight")


def set_by(root: Path = Path("/")) -> Iterator[Fact]:
    """Who sets the scheduler of each disk, in the order in which they act, and who wins."""
    names = sorted(p.name for p in knobs.SYS_BLOCK.iterdir() if not p.name.startswith(_UNSET))
    count = 0
    for name in names:
        settings = setters.setters_of(udev.disk(name), root)
        count += len(settings)
        last = setters.winner_at_boot(settings)
        for each in settings:
            follows = "it acts before others and loses"
            if each is last:
                follows = "it wins at boot, and may act during a run"
            elif each.is_refused:
                follows = "the kernel has no such scheduler and refuses it"
            elif each.source in setters.INDIRECT:
                follows = "it sets nothing itself"
            command = f"sed -n {each.line}p {each.file}" if each.line else f"cat {each.file}"
            value = f"{each.value}{'' if each.certain else ', perhaps'}"
            yield Fact("set by", f"{name}: {each.place} ({value})", follows, command)
    if profile := knobs.text(root / "etc/tuned/active_profile"):
        yield Fact(
            "set by", f"tuned, profile {profile}", "it may set CPU settings too", "tuned-adm off"
        )
    elif not count:
        found_none = "nothing (udev, tmpfiles, systemd, TLP, tuned)"
        yield Fact("set by others", found_none, "settings should not change by themselves")


def io_uring() -> Iterator[Fact]:
    """Ask the kernel: without parameters it fails with EFAULT where io_uring is allowed."""
    setting = knobs.text("/proc/sys/kernel/io_uring_disabled")
    code = _syscall_error(_IO_URING_SETUP, 1, None)
    if code in (errno.EFAULT, errno.EINVAL):
        yield Fact("io_uring", "allowed", "queue depths above 1 per worker can be measured")
    elif code == errno.ENOSYS:
        follows = "only psync and mmap: one request in flight per worker"
        yield Fact("io_uring", "not in this kernel (or hidden by seccomp)", follows)
    else:
        state = f"refused ({os.strerror(code)}; io_uring_disabled={setting or 'absent'})"
        follows = "only psync and mmap: one request in flight per worker"
        command = "sysctl kernel.io_uring_disabled=0" if setting not in (None, "0") else ""
        command = command or "allow io_uring in the container's seccomp profile"
        yield Fact("io_uring", state, follows, command)


def tracing() -> Iterator[Fact]:
    """BPF, BTF, tracefs and perf events."""
    number = _BPF.get(os.uname().machine)
    array_map = (ctypes.c_uint32 * 32)(2, 4, 4, 1)  # BPF_MAP_TYPE_ARRAY, key, value, entries
    code = _syscall_error(number, 0, array_map, 128) if number else errno.ENOSYS
    if code == 0:
        yield Fact("BPF", "usable", "bursts and block events are traced in the kernel")
    else:
        follows = "bursts through perf events or schedstat instead"
        yield Fact("BPF", f"refused ({os.strerror(code)})", follows, "sudo schedlab ...")
    if Path("/sys/kernel/btf/vmlinux").exists():
        yield Fact("BTF", "/sys/kernel/btf/vmlinux", "BPF programs fit this kernel as they are")
    else:
        follows = "no BPF tracing: it needs a kernel built with CONFIG_DEBUG_INFO_BTF"
        yield Fact("BTF", "missing", follows)
    where = [p for p in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing") if _has_events(p)]
    if where:
        yield Fact("tracefs", where[0], "the formats of trace points can be read")
    else:
        command = "mount -t tracefs tracefs /sys/kernel/tracing"
        follows = "trace points cannot be looked up by name"
        yield Fact("tracefs", "not mounted, or not permitted here", follows, command)
    level = knobs.text("/proc/sys/kernel/perf_event_paranoid")
    if level is None:
        yield Fact("perf events", "not in this kernel", "no fallback for BPF but schedstat")
        return
    own = int(level) <= 2 or os.geteuid() == 0
    follows = "context switches of your processes can be recorded" if own else "no perf fallback"
    command = "" if own else "sysctl kernel.perf_event_paranoid=2"
    yield Fact("perf events", f"perf_event_paranoid={level}", follows, command)


def real_time() -> Iterator[Fact]:
    """RT throttling, the fair server, and groups that take real-time away."""
    runtime = knobs.text("/proc/sys/kernel/sched_rt_runtime_us")
    period = knobs.text("/proc/sys/kernel/sched_rt_period_us")
    share = "no limit" if runtime == "-1" else f"{runtime} of {period} us"
    follows = "beside ordinary tasks, real-time workers get at most that share of a CPU"
    command = "" if runtime == "-1" else "sysctl kernel.sched_rt_runtime_us=-1"
    if not facts.has_rt_throttling():
        share, command = "not in this kernel", ""
        follows = "sched_rt_runtime_us bounds the share of deadline tasks only"
    yield Fact("RT throttling", share, follows, command)
    server = Path("/sys/kernel/debug/sched/fair_server/cpu0/runtime")
    if value := knobs.text(server):
        state = f"{value} ns a second for ordinary tasks"
        command = "echo 0 > /sys/kernel/debug/sched/fair_server/cpu*/runtime"
        yield Fact("fair server", state, "sched_rt_runtime_us does not change it", command)
    elif facts.release() >= (6, 12):
        state = "in this kernel (Linux >= 6.12); its share is not visible"
        command = "mount -t debugfs debugfs /sys/kernel/debug"
        yield Fact("fair server", state, "divide by CPU time, never by wall time", command)
    else:
        yield Fact("fair server", "not in this kernel", "only RT throttling limits real-time tasks")
    configured = facts.config().get("CONFIG_RT_GROUP_SCHED") == "y"
    if configured or list(Path("/sys/fs/cgroup").glob("cpu*/cpu.rt_runtime_us")):
        follows = "a new cpu cgroup (v1) has no real-time: SCHED_FIFO and RR fail with EPERM in it"
        command = "echo 950000 > GROUP/cpu.rt_runtime_us"
        yield Fact("RT_GROUP_SCHED", "on", follows, command)
    else:
        yield Fact("RT_GROUP_SCHED", "off, or not visible", "real-time policies work in cgroups")


def processor() -> Iterator[Fact]:
    """Frequency governor, SMT, turbo."""
    chosen = sorted(set(facts.governors().values()))
    steady = chosen in ([], ["performance"])
    follows = "frequency and results follow the load" if not steady else "nothing to change"
    command = "" if steady else "cpupower frequency-set -g performance"
    state = ", ".join(chosen) or "none visible (a virtual machine, or no cpufreq driver)"
    yield Fact("CPU governor", state, follows, command)
    smt = facts.smt()
    command = "echo off > /sys/devices/system/cpu/smt/control" if smt else ""
    follows = "two workers may share a core" if smt else "each CPU seems to be a core"
    yield Fact("SMT", {True: "on", False: "off", None: "unknown"}[smt], follows, command)
    turbo = facts.turbo()
    intel = (facts.CPU / "intel_pstate/no_turbo").exists()
    switch = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
    switch = switch if intel else "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
    follows = "speed depends on how many cores work and on heat" if turbo else "nothing to change"
    state = {True: "on", False: "off", None: "unknown (the kernel does not report it)"}[turbo]
    yield Fact("turbo", state, follows, switch if turbo else "")


def clock() -> Iterator[Fact]:
    """The clock source: reading another than tsc is a system call away or worse."""
    source = knobs.text(facts.CLOCK / "current_clocksource") or "unknown"
    available = (knobs.text(facts.CLOCK / "available_clocksource") or "").split()
    fast = source in ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
    follows = "reading the time is cheap" if fast else "reading the time disturbs short requests"
    better = not fast and "tsc" in available
    command = f"echo tsc > {facts.CLOCK}/current_clocksource" if better else ""
    yield Fact("clock source", f"{source} (of {' '.join(available)})", follows, command)


def machine() -> Iterator[Fact]:
    """Virtual machine or not, container or not."""
    platform = facts.virtualisation()
    product = f" ({platform['product']})" if platform["product"] else ""
    if platform["virtual_machine"]:
        follows = "the host schedules too: results hold only for this guest, at this time"
        yield Fact("machine", f"virtual{product}", follows)
    else:
        yield Fact("machine", f"physical{product}, as far as visible", "no hypervisor takes part")
    if facts.free_pages_reported():
        follows = "buffered reads of a fast device can measure the hypervisor's page faults"
        yield Fact("free memory", "goes back to the hypervisor", follows)
    if platform["container"]:
        follows = "devices, sysfs and system calls may be hidden or refused"
        yield Fact("container", "yes", follows)


def tools() -> Iterator[Fact]:
    """Programs that schedlab asks."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if shutil.which("blkid", path=path):
        yield Fact("blkid", "present", "schedlab checks raw devices for content before writing")
    else:
        yield Fact("blkid", "missing", "schedlab refuses raw writes", "apt install util-linux")


def session() -> Iterator[Fact]:
    """Leftovers of dead sessions to restore, and the running sessions."""
    directory = journal.state_directory()
    paths = journal.sessions(directory)
    if not paths:
        yield Fact("journal", f"none in {directory}", "nothing to restore")
    for path in paths:
        owner = journal.read(path).owner
        if journal.is_alive(owner.partition(" ")[0]):
            yield Fact("journal", f"{path} of process {owner}", "wait until it ends")
        else:
            follows = "the next command that changes the host restores it"
            yield Fact("journal", f"{path} of a session that died", follows, "schedlab recover")


def boots() -> Iterator[Fact]:
    """The plan of boots that is under way."""
    if of := boots_held.held():
        follows = "the next boot may be one of its kernels"
        yield Fact("boots", f"a plan in {of.directory}", follows, "schedlab boots status")


def quanta(requested_ms: Sequence[int]) -> Iterator[Fact]:
    """HZ, and what each requested round-robin quantum becomes: a whole number of ticks, up."""
    ticks = knobs.ticks_per_second()
    real = ", ".join(f"{q}->{effective_quantum_ms(q, ticks):g}" for q in requested_ms)
    follows = f"round-robin quanta in ms become {real}"
    yield Fact("HZ", str(ticks), follows, "a kernel with CONFIG_HZ=1000" if ticks < 1000 else "")


def effective_quantum_ms(requested_ms: int, ticks_per_second: int) -> float:
    """msecs_to_jiffies of kernel/time/time.c, and back."""
    return -(-requested_ms * ticks_per_second // 1000) * 1000 / ticks_per_second


def space(directory: Path) -> Iterator[Fact]:
    """Room for scratch files, and on what."""
    try:
        status = os.statvfs(directory)
    except OSError as error:
        text = f"{directory}: {error.strerror}"
        yield Fact("free space", text, "it is not writable", "cd to a writable directory")
        return
    free = status.f_bavail * status.f_frsize
    kind = devices.mount_of(directory).kind or "unknown"
    disks = ", ".join(devices.disks_below(directory)) or "no disk visible"
    follows = "scratch devices there also use the scheduler and cache of the disk below"
    command = "schedlab compare --scratch 1G"
    if kind in ("tmpfs", "ramfs", "overlay"):
        follows = f"{kind} is not a place to measure storage"
        command = "name a directory on a disk"
    text = f"{free >> 20} MiB free in {directory} ({kind} on {disks})"
    yield Fact("free space", text, follows, command)


def guardian() -> Iterator[Fact]:
    """Whether what kills this command's control group would take the guardian along."""
    stuck = shelter.confining_groups()
    if not stuck:
        yield Fact("guardian", "it leaves the control groups", "it outlives `cgroup.kill`")
    elif shelter.has_systemd():
        yield Fact("guardian", "it asks systemd for a scope", "it should outlive `cgroup.kill`")
    else:
        follows = "killing that group ends both; the next schedlab command restores"
        yield Fact("guardian", f"stays in {', '.join(stuck)}", follows, "sudo schedlab ...")


def left_over() -> Iterator[Fact]:
    """Files of ours that outlived their session, after a power failure for example."""
    for left in leftovers.stale(journal.state_directory()):
        if Path(left.path).exists():
            follows = "a session left it when it ended, for example by a power failure"
            yield Fact(f"left-over {left.what}", left.path, follows, "schedlab recover")


def _has_events(where: str) -> bool:
    try:
        return (Path(where) / "events").is_dir()
    except OSError:
        return False


def _syscall_error(number: int, *arguments: object) -> int:
    """Make a system call; the error number, 0 if it succeeded (a descriptor is closed)."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    if result >= 0:
        os.close(result)
        return 0
    return ctypes.get_errno()


# topic, shown when the fact is unknown -> its examiner
FACTS: dict[str, Callable[[], Iterator[Fact]]] = {
    "machine": machine,
    "privileges": privileges,
    "schedulers": schedulers,
    "loop devices": loop,
    "set by others": set_by,
    "io_uring": io_uring,
    "tracing": tracing,
    "real time": real_time,
    "processor": processor,
    "clock source": clock,
    "sched_ext": ext,
    "simulators": simulators,
    "emulated device": emulated_devices,
    "tools": tools,
    "journal": session,
    "boots": boots,
    "guardian": guardian,
    "left-over files": left_over,
}
