"""Where the work goes, from the options, and which schedulers can be set there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlab.errors import HostError, SpecError
from schedlab.spec import Candidate, Target

SCRATCH_BYTES = 1 << 30


def target_of(
    scratch: int | None,
    scratch_directory: Path,
    device: Path | None,
    destroy_data: Path | None,
    directory: Path | None,
    size_bytes: int,
    read_only: bool = False,
) -> Target:
    """Where the work goes; SpecError or HostError when the options do not say it clearly.

    A device that is in use or holds data takes part only when `read_only` says so: it is not
    written to either way, but whoever uses it feels the load and the change of its scheduler.
    """
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
    if read_only and (destroy_data or not device):
        other = "--destroy-data excludes it" if destroy_data else "it belongs to --device"
        raise SpecError(f"--read-only: {other}", "leave it out")
    if device:
        from schedlab.host import devices

        devices.size_bytes(device)
        if destroy_data:
            devices.require_destroyable(str(device), True)
        elif not read_only and (reasons := devices.reasons_against_writing(str(device))):
            raise HostError(
                f"{device} is refused: {'; '.join(reasons)}",
                "--read-only measures reads alone on it; --scratch SIZE makes an own device",
            )
        return Target("device", str(device), devices.size_bytes(device), bool(destroy_data))
    if directory:
        if not directory.is_dir():
            raise SpecError(f"{directory}: is not a directory", f"mkdir -p {directory}")
        return Target("directory", str(directory), size_bytes)
    return Target("scratch", str(scratch_directory), scratch or SCRATCH_BYTES)


def describe(target: Target) -> str:
    """The target in a few words."""
    from schedlab.design.io_experiment import size_text

    size = size_text(target.size_bytes)
    if target.kind == "scratch":
        return f"a scratch loop device of {size}"
    return f"{target.path} ({size})"


def disk_below(target: Target) -> str | None:
    """The kernel name of the disk that the work reaches; None where it does not exist yet."""
    from schedlab.host import devices, knobs

    if target.kind == "device":
        return knobs.device_name(target.path)
    if target.kind == "directory":
        disks = devices.disks_below(target.path)
        return disks[0] if len(disks) == 1 else None
    return None


def offered_schedulers(target: Target) -> tuple[str, ...]:
    """What the target's disk can be set to; for a directory only what is set."""
    from schedlab.host import devices, knobs

    if target.kind == "scratch":
        return devices.loop_schedulers()
    disk = disk_below(target)
    if disk is None:
        return ("as-is",)
    if target.kind == "directory":
        return (knobs.read_value(knobs.scheduler_file(disk)),)
    return knobs.offered(disk)


def check_offered(candidates: Sequence[Candidate], target: Target) -> tuple[str, ...]:
    """HostError for a scheduler that the kernel does not offer here; a note per legacy name."""
    from schedlab.host import knobs

    offered = offered_schedulers(target)
    notes = []
    for name in dict.fromkeys(str(c.settings["scheduler"]) for c in candidates):
        today = name if name in offered else knobs.LEGACY_SCHEDULERS.get(name, name)
        if today not in offered:
            raise HostError(
                f"scheduler {name!r} is not offered for {describe(target)}",
                f"use some of: {','.join(offered)}"
                if target.kind != "directory"
                else "the disk below a directory keeps its scheduler; "
                "name the disk with --device, or use --scratch",
            )
        if today != name:
            notes.append(f"{name} is the name of older kernels: measured as {today}")
    return tuple(notes)
