"""A scan as an async stream, without an engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gauss.http.tail import follow
from helpers.waiting import wait_until


class Idle:
    """A stream that returns some batches and then waits until it is cancelled."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.cancelled = threading.Event()

    def __iter__(self) -> Iterator[int]:
        yield from range(self.batches)
        assert self.cancelled.wait(60)

    def keep(self) -> None: ...

    def cancel(self) -> None:
        self.cancelled.set()


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tail"]


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_consumer_that_leaves_ends_the_reading_thread(taken: int) -> None:
    stream = Idle(3)

    async def consume() -> list[bytes]:
        texts = follow(stream, b"%d".__mod__)
        found = [await anext(texts) for _ in range(taken)]
        if not taken:
            waiting = asyncio.ensure_future(anext(texts))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        await texts.aclose()
        return found

    assert asyncio.run(consume()) == [b"%d" % number for number in range(taken)]
    assert stream.cancelled.is_set()
    wait_until(lambda: not readers())
