"""Tells open pages what has changed: one reading a second for all pages, and none while no page is looked at."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from socketio import AsyncServer
from starlette.concurrency import run_in_threadpool

from gauss.model.errors import GaussError
from gauss.web.site import Site

ROOM = "live"
"""The sockets of pages that are visible; a hidden tab leaves it."""
INTERVAL_SECONDS = 1.0

log = logging.getLogger("gauss.web")


class Publisher:
    """Sends what changed since the last reading, once for all pages."""

    def __init__(self, site: Site, sockets: AsyncServer) -> None:
        self._site = site
        self._sockets = sockets
        self._task: asyncio.Task[None] | None = None
        self._sent: dict[str, Any] = {}

    def wake(self) -> None:
        """Starts to publish, unless it does already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        self._sent = {}
        while self._sockets.manager.rooms.get("/", {}).get(ROOM):
            try:
                found = await run_in_threadpool(self._site.read)
            except GaussError as error:
                log.info("no figures for pages: %s", error.message)
            else:
                await self._sockets.emit("live", self._changes(found), room=ROOM)
            await asyncio.sleep(INTERVAL_SECONDS)

    def _changes(self, found: dict[str, Any]) -> dict[str, Any]:
        """What differs from the last reading. The first one is whole."""
        changes: dict[str, Any] = {"at_ms": int(time.time() * 1000)}
        for key, value in found.items():
            before = self._sent.get(key)
            if key in self._site.rows and before is not None:
                changes[key] = {name: row for name, row in value.items() if before.get(name) != row}
                if gone := [name for name in before if name not in value]:
                    changes[f"gone_{key}"] = gone
            elif value != before:
                changes[key] = value
        self._sent = found
        return changes
