"""A config written to a file and judged."""

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
    """A small config without a fault, to be broken in one place."""
    return SOUND
