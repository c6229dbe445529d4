"""The events of jobs for any number of watchers, each at its own pace."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncGenerator

from starlette.concurrency import run_in_threadpool

from gauss.dbstates.store.jobs import TERMINAL, Jobs
from gauss.dbstates.store.metadata import now_ms
from gauss.model.errors import NotFound

SILENCE_SECONDS = 0.5
"""After this long without events the last event of a running task is repeated."""
PAGE = 200


class JobFeed:
    """Wakes watchers when a job has new events; nothing is kept for a watcher that does not read."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        jobs.watch(self._changed)

    def _changed(self, job: str) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._wake, job)

    def _wake(self, job: str) -> None:
        for event in self._waiting.get(job, ()):
            event.set()

    async def lines(self, job: str, first: int) -> AsyncGenerator[bytes, None]:
        """Events from a number on, to the end of the job."""
        self._loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        self._waiting[job].add(woken)
        try:
            running = await run_in_threadpool(self._jobs.running_task, job, first)
            while True:
                woken.clear()
                status, events = await run_in_threadpool(self._read, job, first)
                for text in events:
                    event = json.loads(text)
                    first = event["seq"] + 1
                    if event["type"] == "task":
                        running = text if event["task"]["status"] == "running" else None
                    yield text.encode() + b"\n"
                if not events:
                    if status in TERMINAL:
                        self._jobs.read_to_end(job)
                        return
                    try:
                        await asyncio.wait_for(woken.wait(), SILENCE_SECONDS)
                    except TimeoutError:
                        if running is not None:
                            yield json.dumps({**json.loads(running), "ts": now_ms()}).encode() + b"\n"
        finally:
            self._waiting[job].discard(woken)
            if not self._waiting[job]:
                del self._waiting[job]

    def _read(self, job: str, first: int) -> tuple[str, list[str]]:
        """Status, then events: those of an ended job are complete."""
        try:
            status = self._jobs.status(job)
        except NotFound:  # deleted while it was watched
            return "failed", []
        return status, self._jobs.events(job, first, PAGE)
