"""A load engine that answers as it is told, and what calls refuse as a golden file."""

import platform

import pytest
from calls import refused
from load_engine import Engine

from schedlab import _core

RELEASE = platform.release()


@pytest.fixture
def engine(monkeypatch):
    """The engine that is asked instead of the real one."""
    engine = Engine()
    monkeypatch.setattr(_core, "run_io_job", engine)
    return engine


@pytest.fixture
def say(request, tmp_path, golden):
    """Notes what a call refuses: all that a test notes is compared with a golden file."""
    told = []

    def note(function, *values, **named):
        message, hint = refused(function, *values, **named)
        lines = (message, f"  hint: {hint}")
        lines = (line.replace(str(tmp_path), "TMP").replace(RELEASE, "RELEASE") for line in lines)
        # A list of all that is known is not frozen here.
        told.extend(line if len(line) <= 160 else f"{line[:100]}…" for line in lines)

    yield note
    text = "\n".join(told)
    golden(f"refusals/{request.path.stem[5:]}/{request.node.name[5:]}.txt", text)
