"""For tests of workloads: a load engine that answers as it is told."""

from __future__ import annotations

import pytest
from load_engine import Engine

from schedlab import _core


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that is asked instead of the real one."""
    engine = Engine()
    monkeypatch.setattr(_core, "run_io_job", engine)
    return engine
