"""A job file as fio itself reads it: sections, options and values, from its own parser.

`fio --parse-only --debug=parse` prints every option that it takes, with variables and included
files resolved. That is held against a list of options and engines that measure; a job that has
another one is refused by name. fio runs where it can write to nothing (confine.rs), because its
parser acts, too: it loads an external engine.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from schedlab.errors import HostError, SpecError
from schedlab.kinds.brought import program_path
from schedlab.nouns.load_result import Ending
from schedlab.nouns.printable import is_printable
from schedlab.nouns.reading import read_bytes
from schedlab.store.fio_output import numbered

# How the target's device and its directory are called until there are any.
DEVICE, DIRECTORY = "/dev/schedlab-target", "/schedlab-target-directory"
ENGINES = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "io_uring", "libaio", "posixaio",
           "splice", "cpuio")  # fmt: skip
_OPTIONS = """
    name description stonewall wait_for_previous wait_for new_group group_reporting numjobs thread
    startdelay start_delay exitall exit_what exitall_on_error stats continue_on_error loops
    error_dump rw readwrite rw_sequencer bs blocksize ba blockalign bsrange blocksize_range bssplit
    bs_unaligned blocksize_unaligned bs_is_seq_rand size io_size io_limit fill_device fill_fs
    filesize file_append offset offset_align offset_increment number_ios random_generator
    random_distribution percentage_random allrandrepeat randrepeat randseed use_os_rand norandommap
    softrandommap nrfiles openfiles file_service_type fallocate fadvise_hint fsync fdatasync
    write_barrier sync_file_range sync direct atomic buffered overwrite runtime timeout time_based
    ramp_time clocksource mem iomem iomem_align mem_align hugepage-size verify do_verify verifysort
    verifysort_nrand verify_interval verify_offset verify_pattern verify_pattern_interval
    verify_fatal verify_async verify_async_cpus verify_backlog verify_backlog_batch verify_only
    verify_dump verify_write_sequence verify_header_seed experimental_verify trim_percentage
    trim_verify_zero trim_backlog trim_backlog_batch zonemode zonesize zonerange zonecapacity
    zoneskip read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits
    zone_reset_threshold zone_reset_frequency lockmem lockfile rwmixread rwmixwrite rwmixcycle nice
    prio prioclass thinktime thinktime_spin thinktime_blocks thinktime_blocks_type thinktime_iotime
    rate rate_min ratemin rate_iops rate_iops_min rate_process rate_cycle ratecycle
    rate_ignore_thinktime max_latency latency_target latency_window latency_percentile latency_run
    invalidate write_hint create_serialize create_fsync create_on_open create_only allow_file_create
    pre_read cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy end_fsync
    fsync_on_close unlink unlink_each_loop filename directory unique_filename filename_format
    ioengine iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete
    iodepth_batch_complete_min iodepth_batch_complete_max iodepth_low serialize_overlap
    io_submit_mode hipri hipri_percentage cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit
    fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored uncached nowait force_async
    userspace_reap thp cpuload cpuchunks cpumode exit_on_io_done zero_buffers refill_buffers
    scramble_buffers buffer_pattern buffer_compress_percentage buffer_compress_chunk
    dedupe_percentage dedupe_global dedupe_mode dedupe_working_set_percentage write_bw_log
    write_lat_log write_iops_log write_hist_log write_iolog log_avg_msec log_hist_msec
    log_hist_coarseness log_max_value log_offset log_prio log_entries log_unix_epoch
    log_alternate_epoch per_job_logs clat_percentiles lat_percentiles slat_percentiles
    percentile_list significant_figures disk_util disable_lat disable_clat disable_slat disable_bw
    disable_bw_measurement gtod_reduce gtod_cpu unified_rw_reporting kb_base unit_base bwavgtime
    iopsavgtime block_error_percentiles steadystate ss steadystate_duration ss_dur
    steadystate_ramp_time ss_ramp steadystate_check_interval ss_interval flow flow_id flow_watermark
    flow_sleep
    """
OPTIONS = frozenset(_OPTIONS.split())
# Options of which some values name files, separated by colons where fio takes several.
_PATHS = ("filename", "directory", "filename_format", "write_bw_log", "write_lat_log",
          "write_iops_log", "write_hist_log", "write_iolog")  # fmt: skip
_HINTS = {
    "ioscheduler": "fio would switch the scheduler itself: use --schedulers",
    "exec_prerun": "use --prepare",
    "exec_postrun": "use --conclude",
    "uid": "use --user",
    "gid": "use --user",
    "cgroup": "fio is in a control group of schedlab's",
}
DIRECTIONS = {"rw": ("read", "write"), "readwrite": ("read", "write"), "randrw": ("read", "write"),
              "trimwrite": ("trim", "write"), "randtrimwrite": ("trim", "write")}  # fmt: skip

# The facility and the process id, which are padded to 8 and to 5 places.
_LINE = re.compile(r"parse {4}(?:\d{5,}|(?=[\d ]{5} )\d{1,4} +(?<=parse {4}.{5})) (.*)$")


@dataclass(frozen=True)
class Option:
    """An option as fio takes it; `number` is its value in fio's own unit, where it is a number."""

    name: str
    value: str
    number: int | None = None


@dataclass
class Section:
    """A section, with the options in it."""

    name: str
    options: list[Option] = field(default_factory=list)

    @property
    def is_global(self) -> bool:
        """fio compares six letters."""
        return self.name.startswith("global")


@dataclass(frozen=True)
class JobSection:
    """A job: the names of its processes in fio's output, and all options that hold for it; `own`
    are those of its section.
    """

    section: str
    options: tuple[Option, ...]
    own: tuple[Option, ...]

    def value(self, *names: str) -> Option | None:
        """The option of one of these names that comes last, and so holds."""
        return next((each for each in reversed(self.options) if each.name in names), None)

    def names(self) -> tuple[str, ...]:
        """The first process has the option `name`, its clones are called as the section is."""
        named, clones = self.value("name"), self.value("numjobs")
        first = named.value if named else self.section
        has_clones = clones is not None and clones.value.strip() not in ("0", "1")
        return (first, self.section) if has_clones else (first,)

    def is_on(self, name: str) -> bool:
        """Whether a switch is set."""
        option = self.value(name)
        return option is not None and option.value.strip() != "0"

    def directions(self) -> tuple[str, ...]:
        """Where it moves data, `mixed` for all of them together where its output has that, and
        `sync` where it syncs what it wrote."""
        engine, kind = self.value("ioengine"), self.value("rw", "readwrite")
        if engine and engine.value == "cpuio":
            return ()
        word = kind.value.partition(":")[0] if kind else "read"
        single = tuple(each for each in ("read", "write", "trim") if word.endswith(each))
        ways = DIRECTIONS.get(word, single or ("read",))
        ways = (*ways, "read") if self._reads_again() and ways == ("write",) else ways
        unified = self.value("unified_rw_reporting")
        mode = unified.value.strip() if unified else ""
        if mode in ("mixed", "1"):
            return ("mixed",)
        together = ("mixed",) if mode in ("both", "2") else ()
        synced = ("sync",) if self._syncs() and "write" in ways else ()
        return (*ways, *together, *synced)

    def _syncs(self) -> bool:
        """Whether it waits for its writes to be durable, in calls that fio times."""
        options = map(self.value, ("fsync", "fdatasync", "sync_file_range"))
        return any(option and option.value.strip() not in ("", "0") for option in options)

    def _reads_again(self) -> bool:
        """Whether it verifies what it wrote; fio has no time for that where all time is limited."""
        verify, asked = self.value("verify"), self.value("do_verify")
        if verify is None or verify.value == "0" or (asked and asked.value == "0"):
            return False
        is_timed = self.is_on("time_based") and self.value("runtime", "timeout") is not None
        return not is_timed or self.value("verify_backlog") is not None

    def seconds(self) -> float:
        """How long it lasts at most by its options; 0: until its data has been moved."""
        limit = self.value("runtime", "timeout")
        if limit is None or not limit.number:
            return 0.0
        extra = (self.value("ramp_time"), self.value("startdelay", "start_delay"))
        return sum(each.number or 0 for each in (limit, *extra) if each) / 1e6

    def waits(self) -> bool:
        """Whether it begins only when the jobs before it have ended."""
        return self.is_on("stonewall") or self.is_on("wait_for_previous")

    def line(self) -> str:
        """It as one command of fio, as `fio --showcmd` prints it."""
        words = [f"--name={self.section}"]
        words += [f"--{o.name}" if o.value == "" else f"--{o.name}={o.value}" for o in self.options]
        return shlex.join(["fio", *words])


@dataclass(frozen=True)
class JobFile:
    """All jobs of a file."""

    jobs: tuple[JobSection, ...]
    sections: tuple[Section, ...]
    files: tuple[Path, ...]

    def digest(self) -> str:
        """The SHA-256 of all files that fio read, in their order; of one that of its content."""
        digests = [hashlib.sha256(content_of(file)).hexdigest() for file in self.files]
        all_ = hashlib.sha256("\n".join(digests).encode()).hexdigest()
        return digests[0] if len(digests) == 1 else all_

    def reported(self) -> dict[str, tuple[str, ...]]:
        """The jobs of fio's output as their metrics are named, with the directions: processes of
        one group that report together have the name of the first, and the second of a name is
        `NAME#2`."""
        entries: dict[tuple[str, int, tuple[Option, ...]], tuple[str, ...]] = {}
        entry, group, before = ("", 0, tuple[Option, ...]()), 0, -1
        for number, job in enumerate(self.jobs):
            group += bool(number) and (job.waits() or job.is_on("new_group"))
            for name in job.names():
                if not job.is_on("group_reporting") or before != group:
                    entry = (name, group, job.own)
                entries[entry] = tuple(dict.fromkeys((*entries.get(entry, ()), *job.directions())))
                before = group
        labels = numbered([(name,) for name, *_ in entries])
        return {label: ways for label, ways in zip(labels, entries.values(), strict=True) if ways}

    def seconds(self) -> float:
        """How long fio runs at least: groups of jobs one after the other; 0: unknown."""
        total = longest = 0.0
        for job in self.jobs:
            if job.waits():
                total, longest = total + longest, 0.0
            longest = max(longest, job.seconds())
        return total + longest


def read(path: Path, environment: Mapping[str, str]) -> JobFile:
    """The jobs of a file as fio reads it; SpecError or HostError when it does not accept it."""
    content = content_of(path)
    for name in re.findall(r"\$\{(\w+)\}", content.decode(errors="replace")):
        value = environment.get(name, "")
        if not is_printable(value) or "\n" in value:
            raise SpecError(
                f"{path}: the variable {name} has a control character", f"--env {name}=VALUE"
            )
    key = (path.resolve(), content, tuple(sorted(environment.items())))
    jobs, digest = _read(*key)
    if jobs.digest() == digest:
        return jobs
    _read.cache_clear()  # an included file is another one by now
    return _read(*key)[0]


def content_of(path: Path) -> bytes:
    """A file of options; SpecError when it is none, or could make fio's lines look like others."""
    content = read_bytes(path, "name a fio job file")
    lines = content.decode(errors="replace").replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if not is_printable(line):
            raise SpecError(f"{path}: line {number}: has a control character", "remove it")
    return content


@functools.lru_cache(maxsize=16)
def _read(
    path: Path, content: bytes, environment: tuple[tuple[str, str], ...]
) -> tuple[JobFile, str]:
    """(the jobs, the digest of their files)."""
    if shutil.which("fio") is None:
        raise HostError("fio is not installed", "apt install fio")
    told = {"SCHEDLAB_DIRECTORY": DIRECTORY, "SCHEDLAB_DEVICE": DEVICE}
    status, stdout, stderr = _fio(path, {**dict(environment), **told})
    last_line = content.decode(errors="replace").rpartition("\n")[2]
    sections, files = _sections(stdout, last_line)
    for name in files[1:]:
        _check_included(path, name)
    if status:
        said = stderr.strip() or f"exit status {status}"
        raise SpecError(f"fio does not accept {path}: {said}", _cure(path, stderr))
    if not files:
        raise HostError("this fio does not print what it reads (--debug=parse)", "apt install fio")
    jobs, shared = [], list[Option]()
    for section in sections:
        if section.is_global:
            # A name for all is none: fio calls each job as its section.
            shared = [*shared, *(o for o in section.options if o.name != "name")]
        else:
            own = tuple(section.options)
            jobs.append(JobSection(section.name, (*shared, *own), own))
    file = JobFile(tuple(jobs), tuple(sections), (path, *map(Path, files[1:])))
    return file, file.digest()


def _cure(path: Path, stderr: str) -> str:
    """The hint for a job file that fio does not accept."""
    if engine := re.search(r"engine (\S+) not loadable", stderr):
        return f"this fio has no engine {engine[1]}: use one of {', '.join(ENGINES)}"
    if names := re.findall(r"\$\{(\w+)\}", stderr):
        values = " ".join(f"--env {name}=VALUE" for name in dict.fromkeys(names))
        return f"a variable has no value: {values}"
    return f"fio --parse-only {shlex.quote(str(path))}"


def _sections(text: str, last_line: str) -> tuple[list[Section], list[str]]:
    """(sections in their order, files that were read).

    fio prints the lines of the file, too; behind a last line without an end it goes on at once.
    """
    sections: list[Section] = []
    files: list[str] = []
    for line in text.split("\n"):
        match = _LINE.match(line)
        body = match[1] if match else ""
        if last_line and body.startswith(last_line):
            joined = _LINE.match(body.removeprefix(last_line))
            body = joined[1] if joined else body
        if body.startswith("Parsing ini file "):
            files.append(body.removeprefix("Parsing ini file "))
        elif body.startswith("Parsing section ["):
            sections.append(Section(body.removeprefix("Parsing section [").removesuffix("]")))
        elif option := re.match(r"handle_option=(.*?), ptr=(.*)$", body):
            value = "" if option[2] == "(null)" else option[2]
            (sections or [Section("")])[-1].options.append(Option(option[1], value))
        elif (
            (number := re.match(r" +ret=0, out=(\d+)", body)) and sections and sections[-1].options
        ):
            last = sections[-1].options[-1]
            if last.number is None:
                sections[-1].options[-1] = Option(last.name, last.value, int(number[1]))
    return sections, files


def check(label: str, path: Path, jobs: JobFile) -> None:
    """SpecError for an option, an engine or a file that a measurement has no use for."""
    for section in jobs.sections:
        if not section.is_global and _problem(Option("name", section.name)):
            raise SpecError(
                f"{label}: {path}: [{section.name}] is outside the target: where no filename is "
                "given, fio takes the name of the section",
                "rename the section: [job]; a bare device is filename=${SCHEDLAB_DEVICE}",
            )
        for option in section.options:
            if problem := _problem(option):
                reason, hint = problem
                raise SpecError(f"{label}: {path}: [{section.name}]: {reason}", hint)
    if not jobs.jobs:
        raise SpecError(f"{path}: has no job", "add a [job] section")


def _problem(option: Option) -> tuple[str, str] | None:
    """(what is wrong with an option, what helps)."""
    name, value = option.name, option.value
    if name not in OPTIONS:
        hint = next((text for key, text in _HINTS.items() if name.startswith(key)),
                    "omit it; -- fio JOB runs fio as a command, held as commands are")  # fmt: skip
        return f"{name} is refused", hint
    if name == "ioengine" and value not in ENGINES:
        return f"ioengine={value} is refused", f"use one of {', '.join(ENGINES)}, or -- COMMAND"
    for path in map(inside, paths_of(name, value)):
        if path != DEVICE and (Path(path).is_absolute() or ".." in Path(path).parts):
            return (
                f"{name} = {path} is outside the target",
                f"omit {name}, or use a relative name: fio runs in the target's directory; a bare "
                "device is ${SCHEDLAB_DEVICE}",
            )
    return None


def inside(path: str) -> str:
    """A path in the target's directory as a relative one; others as they are."""
    if path == DIRECTORY or path.startswith(f"{DIRECTORY}/"):
        return path.removeprefix(DIRECTORY).lstrip("/") or "."
    return path


def paths_of(name: str, value: str) -> Iterator[str]:
    """The files that an option names, without the blanks that fio strips."""
    if name.endswith("_pattern"):
        yield from re.findall("'([^']*)", value)
    elif name in ("mem", "iomem"):
        yield value.partition(":")[2].strip()
    elif name in _PATHS:
        yield from map(str.strip, re.split(r"(?<!\\):", value))
    elif name == "name":
        yield value.strip()


def _check_included(path: Path, name: str) -> None:
    # fio looks in its own directory first, so no other path than this is the same file later.
    included = Path(name)
    is_beside = name == f"{path.parent}/{included.name}" and included.resolve() == included
    if not is_beside or not included.is_file():
        raise SpecError(
            f"{path}: include is refused: {name} is not a file beside the job",
            "put it there, or copy its options into this file",
        )
    content_of(included)


def _fio(path: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of fio reading a job file; nothing is writable meanwhile."""
    from schedlab import _core

    streams = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    streams += [os.memfd_create(name) for name in ("schedlab-stdout", "schedlab-stderr")]
    argv = ["fio", "--parse-only", "--debug=parse", str(path)]
    order = {"program": program_path("fio"), "argv": argv, "directory": "/",
             "environment": [f"{key}={value}" for key, value in environment.items()],
             "streams": streams, "confinement": {"files": True}}  # fmt: skip
    try:
        try:
            child = _core.Launched(json.dumps(order))
        except OSError as error:
            if error.filename != "confinement":
                raise HostError(f"cannot start fio: {error.strerror}", "fio --version") from error
            child = _core.Launched(json.dumps({**order, "confinement": None}))
        ending = child.wait(10.0)
        if not ending:
            raise HostError(f"fio did not read {path} within 10 s", "fio --parse-only FILE")
        texts = [os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")
                 for fd in streams[1:]]  # fmt: skip
    finally:
        for fd in streams:
            os.close(fd)
    status = msgspec.json.decode(ending, type=Ending).exit_status
    return status, texts[0], texts[1]
