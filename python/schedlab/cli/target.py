"""Where the work goes, from the options, and which schedulers can be set there."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import HostError, SpecError
from schedlab.spec import Target

SCRATCH_BYTES = 1 << 30


def target_of(
    scratch: int | None,
    scratch_directory: Path,
    device: Path | None,
    destroy_data: Path | None,
    directory: Path | None,
    size_bytes: int,
) -> Target:
    """Where the work goes; exactly one of --scratch, --device, --directory."""
    named = [
        name
        for name, value in (
            ("--scratch", scratch),
            ("--device", device),
            ("--directory", directory),
        )
        if value is not None
    ]
    if len(named) > 1:
        raise SpecError(f"{' and '.join(named)} exclude each other", "give one of them")
    if destroy_data and destroy_data != device:
        raise SpecError(
            f"--destroy-data {destroy_data}: is not the device of --device",
            "name the same device in both, to be sure",
        )
    if device:
        from schedlab.host import devices

        size = devices.size_bytes(device)
        return Target("device", str(device), size, bool(destroy_data))
    if directory:
        if not directory.is_dir():
            raise SpecError(f"{directory}: is not a directory", "name an existing one")
        return Target("directory", str(directory), size_bytes)
    return Target("scratch", str(scratch_directory), scratch or SCRATCH_BYTES)


def describe(target: Target) -> str:
    """The target in a few words."""
    from schedlab.design.io_experiment import size_text

    size = size_text(target.size_bytes)
    if target.kind == "scratch":
        return f"a scratch loop device of {size}"
    return f"{target.path} ({size})"


def offered_schedulers(target: Target) -> tuple[str, ...]:
    """What the target's disk can be set to; the one that is set comes first for directories."""
    from schedlab.host import devices

    if target.kind == "scratch":
        return devices.loop_schedulers()
    disk = devices.disk_of(Path(target.path))
    if disk is None:
        raise HostError(f"{target.path}: has no disk below it", "name a directory on a disk")
    names, current = devices.schedulers(disk)
    if target.kind == "directory":
        return (current, *(name for name in names if name != current))
    return names


def check_offered(wanted: list[str], offered: tuple[str, ...], target: Target) -> None:
    """HostError for a scheduler that the kernel does not offer here."""
    if unknown := [name for name in wanted if name not in offered]:
        raise HostError(
            f"scheduler {unknown[0]!r} is not offered for {describe(target)}",
            f"use some of: {','.join(offered)}",
        )
    if target.kind == "directory" and set(wanted) - {offered[0]}:
        raise HostError(
            f"{target.path}: lies on a disk that is in use; its scheduler is not changed",
            "name the disk itself with --device, or use --scratch",
        )
