"""Writes a config to a file and checks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.config.check import Checked, check

Judge = Callable[[str], Checked]

SOUND = """\
[[topics]]
name = "quotes"
storage = "memory"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "quotes" }
config = { port = 9100, input = { framing = "newline" } }

[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "quotes", read = "offset" }
config = { port = 9300, output = { framing = "newline" } }
"""


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Checks a text as `gauss.toml`."""

    def run(text: str) -> Checked:
        file = tmp_path / "gauss.toml"
        file.write_text(text, encoding="utf-8")
        return check(file)

    return run


@pytest.fixture
def sound() -> str:
    """A small valid config, for tests that break one part of it."""
    return SOUND
