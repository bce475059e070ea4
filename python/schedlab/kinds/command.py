"""A user's command under every I/O scheduler.

Run by `run/io/io_commands.py`, which knows the order of its phases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.brought import sha256_of
from schedlab.kinds.launching import Launching
from schedlab.nouns import durability
from schedlab.nouns.quantities import size_text

Cache = Literal["cold", "drop", "warm", "as-is"]

COMMAND_METRICS = (
    "elapsed_synced_s", "elapsed_s", "cpu_s", "user_s", "system_s", "rss_bytes", "read_bytes",
    "written_bytes", "major_faults", "context_switches", *durability.METRICS,
)  # fmt: skip


class Command(Launching, frozen=True):
    """One run of a command, in the target's directory.

    `cache` is the state of the page cache at the start: `cold` empties it for the target alone,
    `drop` for the whole machine, `warm` reads the files of the target, or the bare device. `sync`
    selects whether the time includes writing back the command's dirty pages. Where BPF is allowed,
    the waits of its fsync and synced writes, and the commits of the file system's journal, are
    metrics of a command that syncs. `copy_in` is copied to the target once, or as often as `fresh`
    requests: before every run, or before the first run of every block. A temporary or emulated
    device then gets a new file system, too; files that `setup` wrote there are lost. `settle_s` is
    the longest wait for idle queues before a run. `anyway` measures a command that moves no data on
    the switched queues. `servers` are processes by name, or directories of control groups, that
    were started elsewhere: what they read is the command's. On a bare device (`filesystem =
    "none"`, or a device that may be overwritten) the command finds it as `@device@` and
    `SCHEDLAB_DEVICE`.
    """

    kind: ClassVar[str] = "command"
    metrics: ClassVar[tuple[str, ...]] = COMMAND_METRICS
    needs_files: ClassVar[bool] = True

    cache: Cache = "cold"
    sync: Literal["inside", "outside"] = "inside"
    settle_s: Annotated[float, Meta(gt=0)] = 30.0
    copy_in: str = ""
    copy_in_sha256: str = ""
    fresh: Literal["never", "block", "run"] = "never"
    servers: tuple[str, ...] = ()
    anyway: bool = False

    def programs(self) -> tuple[str, ...]:
        """The command, its phases, and the files copied to the target."""
        copied = (f"copy {self.copy_in} to the target",) if self.copy_in else ()
        return (*super().programs(), *copied)

    def brought(self) -> tuple[str, ...]:
        """The programs, the input, and the files copied to the target."""
        return (*super().brought(), *filter(None, [self.copy_in]))

    def check(self, label: str) -> None:
        """Check that the command can be started and the files to copy exist."""
        super().check(label)
        if self.copy_in and not Path(self.copy_in).exists():
            raise SpecError(f"{label}: {self.copy_in} does not exist", "name a file or directory")

    def notes(self, label: str) -> tuple[str, ...]:
        """Whether program or copied files are others than were measured."""
        lines = super().notes(label)
        if self.copy_in_sha256 and self.copy_in_sha256 != sha256_of(Path(self.copy_in)):
            lines = (*lines, f"{label}: {self.copy_in} differs from the one measured first")
        return lines

    def check_room(self, label: str, size_bytes: int) -> None:
        """SpecError when `copy_in` does not fit into a target of that size."""
        needed = tree_bytes(Path(self.copy_in)) if self.copy_in else 0
        if needed > size_bytes * 0.9:
            raise SpecError(
                f"{label}: {self.copy_in} has {size_text(needed)}, "
                f"the target {size_text(size_bytes)}",
                "use a larger --scratch",
            )


def tree_bytes(path: Path) -> int:
    """Bytes of all files below a directory, or of a file."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink())
