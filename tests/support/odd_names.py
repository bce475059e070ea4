"""Names that a mount point can have, and a mount namespace in which nobody else sees them."""

import os
import subprocess
import sys

import pytest

NAMES = (
    b"\xff\xfe not UTF-8", b"new\nline", b"tab\t", b"back\\slash", b"a  b", b"\\040", b"\x0b\x0c\r",
    "em\u2003space\x85".encode(), b"-", b"escape \x1b[31m",
    b"quote ' \" `touch pwned` $(touch pwned)",
)  # fmt: skip


def in_namespace(program, *arguments, **options):
    """Run a Python program in a mount namespace of its own; skip where that is not allowed."""
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", program]
    probe = subprocess.run([*words[:4], "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"needs a mount namespace: {probe.stderr.strip()}")
    return subprocess.run(
        [*words, *map(os.fsencode, arguments)],
        check=False,
        capture_output=True,
        timeout=300,
        **options,
    )
