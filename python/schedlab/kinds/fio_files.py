"""The files of a job in its directory: those of the user that it would change, those it made."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.kinds.fio_reading import DEVICE, JobFile, JobSection, inside, paths_of
from schedlab.store.files import is_made_here, mark_made

_LOGS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")


def check_includes(label: str, jobs: JobFile, directory: Path) -> None:
    """SpecError where fio would include a file of the directory, where it looks first."""
    for file in jobs.files[1:]:
        if os.path.lexists(directory / file.name):
            raise SpecError(
                f"{label}: fio would include {directory / file.name}, and not {file}",
                "rename one of them",
            )


def check(label: str, jobs: JobFile, directory: Path, allowed: Sequence[str]) -> None:
    """SpecError for a file that a job would change and the user did not allow, and for a directory
    that is a link out of this one."""
    home, may = directory.resolve(), {Path(path).resolve() for path in allowed}
    for job in jobs.jobs:
        where = f"{label}: [{job.section}]"
        for pattern, is_data in _patterns(job):
            for folder in _found(str(Path(pattern).parent), home):
                if not folder.resolve().is_relative_to(home):
                    raise SpecError(f"{where}: {folder} leads out of {home}", "name another file")
            for path in _found(pattern, home):
                is_changed = not is_data or _changes(job, path)
                if is_changed and path not in may and not is_made_here(path):
                    raise SpecError(
                        f"{where}: would overwrite {path}, which schedlab did not make",
                        f"name another file, or allow it: --writable {shlex.quote(str(path))}",
                    )


def mark(jobs: JobFile, directory: Path, allowed: Sequence[str]) -> None:
    """Mark what the jobs made in a directory that `check` has seen, and nothing of the user's."""
    home, may = directory.resolve(), {Path(path).resolve() for path in allowed}
    for job in jobs.jobs:
        for pattern, is_data in _patterns(job):
            for path in _found(pattern, home):
                if path not in may and (not is_data or _changes(job, path)):
                    mark_made(path)


def _found(pattern: str, home: Path) -> list[Path]:
    """All that there is, also links that lead nowhere, which `Path.glob` leaves out."""
    names = glob.glob(pattern, root_dir=home, include_hidden=True)  # noqa: PTH207
    return [home / name for name in names]


def _patterns(job: JobSection) -> Iterator[tuple[str, bool]]:
    """(the name of a file that a job uses, as a pattern of `glob` in its directory; whether it is
    one of the files that its reads and writes go to)."""
    engine, form = job.value("ioengine"), job.value("filename_format")
    if not (engine and engine.value == "cpuio"):
        texts = [option.value for option in job.options if option.name == "filename"]
        paths = [inside(path) for text in texts for path in paths_of("filename", text)]
        names = [glob.escape(path) for path in paths if path != DEVICE]
        if not paths:
            known = re.split(r"(\$\w+)", form.value if form else "$jobname.$jobnum.$filenum")
            names = ["".join(_part(job, word) for word in known)]
        folder = job.value("directory")
        folders = [inside(path) for path in paths_of("directory", folder.value if folder else ".")]
        for name in names:
            yield from ((os.path.normpath(f"{glob.escape(f)}/{name}"), True) for f in folders)
    for option in job.options:
        if option.name in _LOGS:
            yield f"{glob.escape(inside(option.value or job.section))}_*.log", False
        elif option.name in ("write_iolog", "mem", "iomem"):
            yield from ((glob.escape(inside(path)), False)
                        for path in paths_of(option.name, option.value) if path)  # fmt: skip


def _part(job: JobSection, word: str) -> str:
    """A part of the format of names: only the name of the job is known."""
    if word == "$jobname":
        return glob.escape(job.section)
    return "*" if word.startswith("$") else glob.escape(word)


def _changes(job: JobSection, path: Path) -> bool:
    """Whether the job does more to one of its files than read it."""
    if job.is_on("unlink") or job.is_on("unlink_each_loop"):
        return True
    if set(job.directions()) != {"read"} or not path.is_file():
        return True
    sizes = [job.value(*names) for names in (("size",), ("filesize",), ("offset",))]
    needed = sum(each.number or 0 for each in sizes if each and "%" not in each.value)
    return needed > path.stat().st_size  # fio makes it as large as that
