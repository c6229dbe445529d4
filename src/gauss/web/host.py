"""NiceGUI as the host of the pages: one page for all paths, whose Vue component shows what its path names."""

from __future__ import annotations

import logging
from pathlib import Path

from fastapi import FastAPI
from nicegui import Client, app, core, ui
from nicegui.element import Element
from starlette.middleware.gzip import GZipMiddleware

from gauss.http.body import App, Receive, Scope, Send
from gauss.web.publisher import ROOM, Publisher
from gauss.web.security import ContentPolicy
from gauss.web.site import Site

RECONNECT_SECONDS = 30.0
COMPONENTS = Path(__file__).parent / "components"
ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M3 26c7 0 7-19 13-19s6 19 13 19"
 fill="none" stroke="#4c61ea" stroke-width="2.6" stroke-linecap="round"/>
<circle cx="16" cy="7" r="3" fill="#4c61ea"/></svg>"""

logging.getLogger("nicegui").setLevel(logging.ERROR)


class RunShell(Element, component="components/run_shell.js", esm={"gauss-web": str(COMPONENTS)}):
    """The Vue component of all pages of a run."""


class FleetShell(Element, component="components/fleet/fleet_shell.js", esm={"gauss-web": str(COMPONENTS)}):
    """The Vue component of all pages of a fleet."""


SHELLS: dict[str, type[Element]] = {"run": RunShell, "fleet": FleetShell}


class PageHost:
    """The ASGI application of the pages. NiceGUI has one application per process, so there is one host."""

    def __init__(self, site: Site) -> None:
        self._shell, self._styles = SHELLS[site.component], site.styles
        self._publisher = Publisher(site, core.sio)
        app.add_static_files("/_gauss/styles", COMPONENTS, max_cache_age=0)
        app.config.socket_io_js_transports = ["websocket"]
        self._parent = FastAPI()
        ui.run_with(
            self._parent,
            title=f"Gauss · {site.title}",
            favicon=ICON,
            dark=None,
            language="en-US",
            tailwind=False,
            binding_refresh_interval=None,
            reconnect_timeout=RECONNECT_SECONDS,
            message_history_length=0,
            gzip_middleware_factory=None,
            show_welcome_message=False,
        )
        for path in site.paths:
            ui.page(path)(self._page)
        self._app: App = GZipMiddleware(ContentPolicy(self._parent), minimum_size=500, compresslevel=5)
        self._lifespan = self._parent.router.lifespan_context(self._parent)

    async def start(self) -> None:
        await self._lifespan.__aenter__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _page(self, client: Client) -> None:
        for name in self._styles:
            ui.add_head_html(f'<link rel="stylesheet" href="/_gauss/styles/{name}">')
        shell = self._shell()

        async def watch(shown: bool) -> None:
            for sid in list(core.sio.manager.rooms.get("/", {}).get(client.id, {})):
                await (core.sio.enter_room(sid, ROOM) if shown else core.sio.leave_room(sid, ROOM))
            self._publisher.wake()

        shell.on("watch", lambda event: watch(bool(event.args)))
