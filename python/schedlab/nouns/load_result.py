"""The result of a job of the load engine: what is used of crates/load/src/io/result.rs, whose keys
and units these are.
"""

from __future__ import annotations

from msgspec import Struct, field


class Latencies(Struct, frozen=True):
    """Latencies of requests, ns; `bins` are rows (low, high, count)."""

    count: int = 0
    mean: float = 0.0
    bins: list[list[int]] = field(default_factory=list)


class SideResult(Struct, frozen=True):
    """The reads or the writes of a group."""

    operations: int = 0
    bytes: int = 0
    errors: int = 0
    short: int = 0
    latency: Latencies = field(default_factory=Latencies)


class OverTime(Struct, frozen=True):
    """Completions in bins of `bin_ms`, as rows from the start of the job on."""

    bin_ms: int = 100
    window_ms: tuple[float, float] | None = None
    reads: list[list[int]] = field(default_factory=list)
    writes: list[list[int]] = field(default_factory=list)
    latencies: list[list[int]] = field(default_factory=list)


class Transactions(Struct, frozen=True):
    """Commits of the clients of a database."""

    count: int
    per_s: float


class Prepared(Struct, frozen=True):
    """Preparations before the clock started."""

    discarded: bool | None = None
    refused: str | None = None
    primed_bytes: int = 0


class WorkerResult(Struct, frozen=True):
    """A process or thread of a group."""

    bytes: int = 0


class GroupResult(Struct, frozen=True):
    """A group of equal processes."""

    name: str
    engine: str = ""
    elapsed_ns: int = 0
    cpu_user_ns: int = 0
    cpu_system_ns: int = 0
    reads: SideResult = field(default_factory=SideResult)
    writes: SideResult = field(default_factory=SideResult)
    start_lag: Latencies | None = None
    unissued: int = 0
    unanswered: int = 0
    oldest_pending_ns: int = 0
    series: OverTime = field(default_factory=OverTime)
    responses: list[tuple[int, int]] = field(default_factory=list)
    transactions: Transactions | None = None
    prepared: Prepared = field(default_factory=Prepared)
    device_bytes_read: int = 0
    device_bytes_written: int = 0
    load_generator_bottleneck: bool | None = None
    workers: list[WorkerResult] = field(default_factory=list)

    @property
    def sides(self) -> tuple[SideResult, SideResult]:
        """Reads and writes."""
        return self.reads, self.writes

    @property
    def cpu_ns(self) -> int:
        """CPU time of its workers."""
        return self.cpu_user_ns + self.cpu_system_ns


class InDriver(Struct, frozen=True):
    """Requests in the driver of a device, sampled in the window; or why there are no samples."""

    error: str | None = None
    mean: float = 0.0
    max: int = 0
    reads_mean: float = 0.0


class JobResult(Struct, frozen=True):
    """All groups of a job."""

    groups: list[GroupResult]
    interrupted: bool = False
    elapsed_ns: int = 0
    inflight: InDriver | None = None


class Ending(Struct, frozen=True):
    """The end of a launched program (crates/load/src/launch.rs): a status or a signal."""

    elapsed_ns: int
    status: int | None
    signal: int | None
    user_ns: int
    system_ns: int
    cpu_ns: int
    rss_bytes: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    read_bytes: int
    dirtied_bytes: int

    @property
    def exit_status(self) -> int:
        """As a shell has it."""
        return 128 + (self.signal or 0) if self.status is None else self.status

    @property
    def switches(self) -> int:
        """Context switches of both kinds."""
        return self.voluntary_switches + self.involuntary_switches


class TaskResult(Struct, frozen=True):
    """A task of a crew (crates/load/src/cpu/job.rs): ns since the common start, and CPU time."""

    pid: int = 0
    count: int = 0
    began_ns: int = 0
    elapsed_ns: int = 0
    calculation_cpu_ns: int = 0
    cpu_ns: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    checksum: int = 0
    completed: bool = True


class TasksResult(Struct, frozen=True):
    """A group of tasks; `attributes` are policy number, nice value, priority and slice of each."""

    name: str
    units: int = 0
    unfinished: int = 0
    response: list[list[int]] = field(default_factory=list)
    wakeup: list[list[int]] = field(default_factory=list)
    elapsed_ns: int | None = None
    cpu_ns: int = 0
    attributes: list[tuple[int, int, int, int]] = field(default_factory=list)
    tasks: list[TaskResult] = field(default_factory=list)


class CrewResult(Struct, frozen=True):
    """All groups of a crew, and the length of the counted window."""

    window_ns: int
    groups: list[TasksResult]

    @property
    def window_s(self) -> float:
        """The same in seconds."""
        return self.window_ns / 1e9

    def of(self, name: str) -> TasksResult:
        """A group by its name; an empty one where there is none."""
        return next((each for each in self.groups if each.name == name), TasksResult(name))
