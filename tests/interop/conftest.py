"""What several tests of interoperability need."""

import time
from pathlib import Path

import pytest
from interop.clocks import Clock


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process, and of each child that is told of it."""
    made = Clock(tmp_path / "clock")
    monkeypatch.setattr(time, "time", made)
    return made
