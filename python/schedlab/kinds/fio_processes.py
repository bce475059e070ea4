"""A fio job as the processes of a simulation: what it asks for is honoured, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.kinds import fio_reading
from schedlab.kinds.fio_reading import JobFile, JobSection, Option

Words = dict[str, tuple[str, ...]]
#: Options that change no request: what is reported, for how long, from what memory, in what file.
_WITHOUT_EFFECT = """
    name description new_group group_reporting numjobs thread exitall stats error_dump
    runtime timeout time_based ramp_time loops io_size io_limit number_ios clocksource
    random_generator allrandrepeat randrepeat randseed use_os_rand norandommap softrandommap
    openfiles fallocate fadvise_hint overwrite invalidate create_serialize create_fsync
    create_on_open allow_file_create pre_read end_fsync fsync_on_close unlink unlink_each_loop
    filename directory unique_filename filename_format mem iomem iomem_align mem_align hugepage-size
    lockmem nice cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy hipri
    fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored userspace_reap thp
    zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage
    buffer_compress_chunk dedupe_percentage dedupe_global dedupe_mode dedupe_working_set_percentage
    write_bw_log write_lat_log write_iops_log write_hist_log write_iolog log_avg_msec log_hist_msec
    log_hist_coarseness log_max_value log_offset log_prio log_entries log_unix_epoch
    log_alternate_epoch per_job_logs clat_percentiles lat_percentiles slat_percentiles
    percentile_list significant_figures disk_util disable_lat disable_clat disable_slat disable_bw
    disable_bw_measurement gtod_reduce gtod_cpu unified_rw_reporting kb_base unit_base bwavgtime
    iopsavgtime block_error_percentiles
    """
#: Options that the processes take over.
_HONOURED = """
    rw readwrite bs blocksize iodepth ioengine direct buffered size filesize offset
    offset_increment rwmixread rwmixwrite thinktime startdelay start_delay prio prioclass fsync
    """
_KNOWN = frozenset((_WITHOUT_EFFECT + _HONOURED).split())
#: Options that do nothing with these values.
_USUAL: Words = {
    "nrfiles": ("1",), "random_distribution": ("random",), "thinktime_blocks": ("1",),
    "iodepth_batch": ("1",), "iodepth_batch_submit": ("1",), "iodepth_batch_complete": ("1",),
    "iodepth_batch_complete_min": ("1",), "iodepth_batch_complete_max": ("1",),
    "thinktime_spin": ("0",), "verify": ("0",), "sync": ("0", "none"), "fdatasync": ("0",),
    "stonewall": ("0",), "wait_for_previous": ("0",), "zonemode": ("none",), "atomic": ("0",),
    "percentage_random": ("100",), "continue_on_error": ("none",), "io_submit_mode": ("inline",),
    "serialize_overlap": ("0",), "bs_is_seq_rand": ("0",),
}  # fmt: skip
_WAITING_ENGINES = ("psync", "sync", "vsync", "pvsync", "pvsync2")
_ENGINES = (*_WAITING_ENGINES, "io_uring", "libaio", "posixaio")
_WAYS = {"read": 1.0, "write": 0.0, "randread": 1.0, "randwrite": 0.0, "rw": None,
         "readwrite": None, "randrw": None}  # fmt: skip
_CLASSES = {1: "rt", 2: "be", 3: "idle"}
#: fio keeps n % of a device as this less n.
_PERCENT = (1 << 64) - 1


def processes_of_job(path: Path) -> Callable[[int], list[dict[str, object]]]:
    """The processes of a job file on a device of so many bytes, as a file of processes has them.

    SpecError for what no simulated process does, HostError where there is no fio to read the file.
    """
    jobs = fio_reading.read(path, {})
    if not jobs.jobs:
        raise SpecError(f"{path}: has no job", "add a [job] section")
    for job in jobs.jobs:
        _check(path, job)
    return lambda size_bytes: _processes(path, jobs, size_bytes)


def _refused(path: Path, job: JobSection, what: str, hint: str) -> SpecError:
    return SpecError(f"{path}: [{job.section}]: {what} is not simulated", hint)


def _check(path: Path, job: JobSection) -> None:
    for option in {each.name: each for each in job.options}.values():
        value = option.value.strip()
        if option.name in _KNOWN or value in _USUAL.get(option.name, ()):
            continue
        hint = f"omit {option.name}"
        if option.name in ("stonewall", "wait_for_previous", "wait_for"):
            hint = "jobs run at the same time: one file for each phase"
        raise _refused(path, job, f"{option.name}={value}" if value else option.name, hint)
    for names, known, hint in (
        (("rw", "readwrite"), tuple(_WAYS), f"one of {', '.join(_WAYS)}"),
        (("ioengine",), _ENGINES, f"one of {', '.join(_ENGINES)}"),
    ):
        chosen = job.value(*names)
        if chosen is not None and chosen.value.strip() not in known:
            raise _refused(path, job, f"{chosen.name}={chosen.value}", hint)
    block = job.value("bs", "blocksize")
    if block is not None and "," in block.value:
        raise _refused(path, job, f"{block.name}={block.value}", "one size for reads and writes")


def _processes(path: Path, jobs: JobFile, size_bytes: int) -> list[dict[str, object]]:
    """A device is one place for all that name it; every other file gets an equal share of it."""
    clones = [(job, number) for job in jobs.jobs for number in range(_number(job, 1, "numjobs"))]
    files = list(dict.fromkeys(_file_of(job, number) for job, number in clones))
    own = [name for name in files if not name.startswith("/dev/")]
    share = size_bytes // max(len(own), 1)
    found = []
    for job, number in clones:
        name = _file_of(job, number)
        at, room = (0, size_bytes) if name not in own else (share * own.index(name), share)
        found.append(_process(path, job, number, at, room))
    return found


def _file_of(job: JobSection, clone: int) -> str:
    """The file of a process; a name of its own where the job names none."""
    named = job.value("filename")
    return named.value.strip() if named else f"{job.section}.{clone}"


def _process(path: Path, job: JobSection, clone: int, at: int, room: int) -> dict[str, object]:
    way = job.value("rw", "readwrite")
    word = way.value.strip() if way else "read"
    record = _number(job, 4096, "bs", "blocksize")
    offset = _bytes(job.value("offset"), 0, room)
    offset += clone * _bytes(job.value("offset_increment"), 0, room)
    span = min(_bytes(job.value("size", "filesize"), room - offset, room), room - offset)
    if span < record:
        hint = "a larger device, or a smaller offset or size"
        raise SpecError(f"{path}: [{job.section}] begins or ends beyond its device", hint)
    engine, direct = job.value("ioengine"), job.is_on("direct")
    if (buffered := job.value("buffered")) is not None and job.value("direct") is None:
        direct = buffered.value.strip() == "0"
    waits = engine is None or engine.value.strip() in _WAITING_ENGINES or not direct
    process: dict[str, object] = {
        "name": job.section,
        "pattern": "random" if word.startswith("rand") else "sequential",
        "record": f"{record}",
        "depth": 1 if waits else _number(job, 1, "iodepth"),
        "read_share": _read_share(job, word),
        "offset": f"{(at + offset) // 512 * 512}",
        "span": f"{span // record * record}",
    }
    if not direct:
        process |= {"direct": False, "fsync_every": _number(job, 0, "fsync")}
    elif _number(job, 0, "fsync"):
        raise _refused(path, job, "fsync with direct=1", "omit fsync")
    if pause_us := _number(job, 0, "thinktime"):
        process["think"] = f"{pause_us}us"
    if late_us := _number(job, 0, "startdelay", "start_delay"):
        process["start"] = f"{late_us}us"
    if job.value("prio") or job.value("prioclass"):
        name = _CLASSES.get(_number(job, 2, "prioclass"), "be")
        process["ioprio"] = f"{name}:{_number(job, 4, 'prio')}" if name != "idle" else name
    return process


def _read_share(job: JobSection, word: str) -> float:
    share = _WAYS[word]
    if share is not None:
        return share
    option = job.value("rwmixread", "rwmixwrite")
    if option is None or option.number is None:
        return 0.5
    reads = option.number if option.name == "rwmixread" else 100 - option.number
    return reads / 100


def _number(job: JobSection, usual: int, *names: str) -> int:
    """The value of an option in fio's own unit."""
    option = job.value(*names)
    return usual if option is None or option.number is None else option.number


def _bytes(option: Option | None, usual: int, room: int) -> int:
    """A size in bytes, of which fio also takes a share of the place, in percent."""
    if option is None or not option.number:
        return usual
    if option.value.strip().endswith("%"):
        return room * (_PERCENT - option.number) // 100
    return option.number
