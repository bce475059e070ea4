"""For all tests: Ctrl-C that is heard by the programs they start, and disks without room."""

import signal
import subprocess

import pytest

# A shell that starts the tests in the background sets SIGINT to "ignore", and programs inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def small_disk(tmp_path, request):
    """A tmpfs of 8 MiB, or of the size that a test gives as this fixture's parameter."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = getattr(request, "param", "8m")
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk]
    mounted = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs to mount a tmpfs: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)
