"""Streams of a sync that run at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.sync_world import World

CONNECTORS = '''
import time
from pathlib import Path
import sample
from gauss.contracts.connector.errors import ConnectorError

class Meeting(sample.Numbers):
    """Waits until as many streams read as are expected, and notes how many there are."""
    def run_read(self, stream):
        folder = Path(self.config["folder"])
        here = folder / f"{stream.stream_name}.here"
        here.touch()
        deadline = time.monotonic() + 20
        while len(found := list(folder.glob("*.here"))) < self.config["expected"] and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / f"{stream.stream_name}.met").write_text(str(len(found)))
        time.sleep(0.1)  # so that the others see this one
        if stream.stream_name == self.config.get("fails"):
            raise ConnectorError.auth("NO", "the password is wrong")
        try:
            return super().run_read(stream)
        finally:
            here.unlink()
'''


@pytest.fixture
def meeting(world: World) -> Iterator[World]:
    (world.folder / "meeting.py").write_text(CONNECTORS)
    sys.modules.pop("meeting", None)
    yield world
    sys.modules.pop("meeting", None)


@pytest.mark.parametrize("most", [1, 2])
def test_as_many_streams_run_at_once_as_are_allowed(meeting: World, most: int) -> None:
    source: dict[str, Any] = {"connector": "meeting:Meeting", "expected": most}
    assert meeting.sync(source=source, streams="*", max_parallel_streams=most).run().status == "succeeded"
    assert [(meeting.folder / f"{stream}.met").read_text() for stream in "ab"] == [str(most)] * 2


def test_a_stream_that_fails_leaves_the_others_to_their_end(meeting: World) -> None:
    source: dict[str, Any] = {"connector": "meeting:Meeting", "expected": 2, "fails": "a", "pause": 0.05}
    result = meeting.sync(source=source, streams="*", max_parallel_streams=2).run()
    assert [(each.stream, each.status) for each in result.streams] == [("a", "failed"), ("b", "succeeded")]
    assert result.status == "failed" and meeting.lines("a") == [] and meeting.lines("b") == list(range(1, 36))
