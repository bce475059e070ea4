"""Extracting an archive: a target that is too small, and an end by a signal."""

import signal
import subprocess
from pathlib import Path

import pytest

from schedlab.errors import SpecError
from schedlab.kinds.archive_extraction import ArchiveExtraction, timed
from schedlab.kinds.resolved import ResolvedTarget

MIB = 1 << 20


@pytest.fixture
def small(tmp_path):
    """A file system of 3 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "small", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def target_in(directory):
    return ResolvedTarget(directory, 3 * MIB, None, 512, False, directory, 3 * MIB, directory)


@pytest.mark.parametrize(
    ("size_bytes", "message"), [(4 * MIB, "the archive does"), (2 * MIB, "what the archive holds")]
)
def test_an_archive_that_does_not_fit_is_an_error_once(small, size_bytes, message):
    kind = ArchiveExtraction(size_bytes=size_bytes)
    with pytest.raises(SpecError, match=f"extraction: {message}.* MiB free") as error:
        kind.prepare(target_in(small), "extraction")
        kind.measure(target_in(small), "extraction", 1)
    assert "larger target" in error.value.hint
    assert {path.name for path in small.iterdir()} <= {"tree.tar.none"}


def test_an_extraction_that_fits_is_timed(small):
    kind = ArchiveExtraction(size_bytes=MIB // 2)
    kind.prepare(target_in(small), "extraction")
    outcome = kind.measure(target_in(small), "extraction", 1)
    assert outcome.metrics["elapsed_s"] > 0 and not outcome.gates
    assert {path.name for path in small.iterdir()} == {"tree.tar.none"}


def test_a_signal_to_us_alone_ends_the_program_as_well(tmp_path):
    """Otherwise it would hold the file system that is unmounted next."""
    pid_file = tmp_path / "pid"

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            timed(["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"], tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
