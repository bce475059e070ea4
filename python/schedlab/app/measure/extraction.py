"""Extract an archive from a cold cache, again and again, in a directory of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.host.control import Control
from schedlab.kinds import source_tree
from schedlab.kinds.archive_extraction import extraction


def extractions(
    archive: Path,
    directory: Path,
    repeat: int,
    archive_spec: tuple[int, str] | None,
    report: Callable[[str], None],
) -> Iterator[dict[str, float]]:
    """Real, user and system seconds and the CPU share of each extraction.

    `archive_spec` (size in bytes, compressor) generates the archive first. SpecError when it exists
    already, or when the archive is none.
    """
    if archive_spec and archive.exists():
        raise SpecError(f"{archive}: exists", "omit --make-archive, or name another file")
    if archive_spec:
        size_bytes, compressor = archive_spec
        files = source_tree.write_archive(archive, size_bytes, compressor, seed=1)
        report(f"generated {archive}: {files} files")
    if not archive.is_file():
        raise SpecError(f"{archive}: is not a file", "name a tar archive, or add --make-archive")
    with Control(report=report) as control:
        own = control.directory(directory)
        for _ in range(repeat):
            control.drop_caches()
            tar = extraction(archive, own)
            if tar.status:
                raise SpecError(f"{archive}: {tar.message}", "is it a tar archive?")
            yield {
                "real_s": tar.elapsed_s,
                "user_s": tar.user_s,
                "system_s": tar.system_s,
                "cpu_share": tar.cpu_s / tar.elapsed_s,
            }
