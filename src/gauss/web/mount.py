"""Serves the pages of a process beside its API. NiceGUI is imported by the first request for a page, so that processes
which nobody looks at pay nothing."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from gauss.http.body import App, Receive, Scope, Send, header
from gauss.web.figures import Figures
from gauss.web.site import Site

if TYPE_CHECKING:
    from gauss.web.host import PageHost

OWN = ("_nicegui", "_nicegui_ws", "_gauss")
"""First words of the paths of what pages load."""


class Pages:
    """ASGI middleware that passes requests for pages on to NiceGUI."""

    def __init__(self, app: App, site: Site) -> None:
        self._app = Figures(app)
        self._site = site
        words = {path.split("/")[1] for path in site.paths} - {""}
        self._pages = re.compile(f"/({'|'.join([*sorted(words), *OWN])})(/.*)?")
        self._opening = asyncio.Lock()
        self._host: PageHost | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_page(scope):
            await self._app(scope, receive, send)
            return
        async with self._opening:
            if self._host is None:
                self._host = await self._opened()
        await self._host(scope, receive, send)

    def _is_page(self, scope: Scope) -> bool:
        if scope["path"] == "/":  # programs get the paths of the API there
            return scope["type"] == "http" and "text/html" in header(scope, b"accept")
        return self._pages.fullmatch(scope["path"]) is not None

    async def _opened(self) -> PageHost:
        from_module = await run_in_threadpool(_imported)
        host = from_module(self._site)
        await host.start()
        return host


def _imported() -> type[PageHost]:
    from gauss.web.host import PageHost

    return PageHost
