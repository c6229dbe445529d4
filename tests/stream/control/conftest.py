"""A locked data directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.stream.control.datadir import Held, hold


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    data = hold(tmp_path / "data")
    yield data
    data.release()
