"""One run with Spark and one Chromium, shared by all tests of the pages."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from helpers.feeds import connect, send
from helpers.run import Run, free_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOWN = "main h1:not(.soft)"
"""What a page has once it shows figures."""
PAGES = (
    "/",
    "/topics",
    "/topics/raw",
    "/topics/live",
    "/dead",
    "/syncs",
    "/syncs/orders",
    "/db",
    "/pipeline",
    "/health",
)
SCRIPT = '{"id": 1, "symbol": "<script>window.hit = 1</script><img src=x onerror=window.hit=1>", "bid": 150.0}'


OWN = """import pathlib
from gauss.contracts.function import arrow_function


@arrow_function()
def priced(batch, broken):
    if pathlib.Path(broken).exists():
        raise RuntimeError("the <b>price</b> service does not answer")
    return batch
"""
"""A processor that fails while a file exists."""


def pipeline(feed: int, out: int, broken: Path) -> str:
    return f"""
formats = [{{ name = "quote", plugin = "json", config = {{ fields = [
    {{ name = "id", type = "int64" }}, {{ name = "symbol", type = "string" }}, {{ name = "bid", type = "double" }},
] }} }}]
topics = [
    {{ name = "raw", storage = "memory", storage_config = {{ storage_size = 50_000 }} }},
    {{ name = "high", storage = "file" }},
    {{ name = "live", storage = "memory", storage_config = {{
        mode = "table", format = "quote", key_field = "symbol",
    }} }},
    {{ name = "orders", storage = "memory" }},
    {{ name = "priced", storage = "memory" }},
    {{ name = "bulk", storage = "memory", storage_config = {{ storage_size = 1000 }} }},
]

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {feed}, max_record_bytes = 1000, input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "high"
plugin = "filter"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "high" }}
config = {{ input = {{ format = "quote" }}, where = ".bid > 100" }}

[[processors]]
name = "copy"
plugin = "passthrough"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "live" }}

[[processors]]
name = "pricing"
plugin = "own:priced"
source = {{ topic = "orders", read = "offset" }}
target = {{ topic = "priced" }}
config = {{ input = {{ format = "quote" }}, options = {{ broken = "{broken}" }} }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "bulk", read = "offset" }}
config = {{ port = {out}, input = {{ format = "quote" }}, output = {{ framing = "newline", delimiter = "\\n" }} }}

[[syncs]]
name = "bulk"
source = {{ connector = "file", path = "bulk", format = "csv" }}
destination = {{ connector = "topic" }}
streams = [{{ name = "bulk", mode = "incremental" }}]

[[syncs]]
name = "orders"
source = {{ connector = "file", path = "orders", format = "csv" }}
destination = {{ connector = "topic" }}
streams = [{{ name = "orders", mode = "incremental" }}]
"""


@dataclass
class Served:
    """The pages of a process in a browser."""

    access: Path
    """The file with the address of the API and a token."""
    browser: Browser
    problems: list[str] = field(default_factory=list)
    sessions: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return str(json.loads(self.access.read_text())["endpoint"])

    def url(self, role: str = "operator") -> str:
        """A link that signs in."""
        found = json.loads(self.access.read_text())
        request = urllib.request.Request(
            f"{found['endpoint']}/api/session/codes",
            data=json.dumps({"role": role}).encode(),
            headers={"Authorization": f"Bearer {found['token']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return str(json.loads(reply.read())["url"])

    def session(self, role: str) -> tuple[str, str]:
        """The cookie of a session, as a sign-in sets it."""
        if role not in self.sessions:
            body = json.dumps({"code": self.url(role).partition("#")[2]}).encode()
            headers = {"Content-Type": "application/json"}
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.endpoint}/api/session", data=body, headers=headers), timeout=30
            ) as reply:
                name, _, value = str(reply.headers["Set-Cookie"]).partition(";")[0].partition("=")
            self.sessions[role] = name, value
        return self.sessions[role]

    @contextmanager
    def opened(
        self, path: str = "/", *, role: str = "operator", width: int = 1280, dark: bool = False
    ) -> Iterator[Page]:
        """A page of a new session. At its end no error may stand in the console."""
        context = self.browser.new_context(
            base_url=self.endpoint,
            viewport={"width": width, "height": 844},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        page = context.new_page()
        self.problems = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        try:
            name, value = self.session(role)
            context.add_cookies([{"name": name, "value": value, "url": self.endpoint, "sameSite": "Strict"}])
            page.goto(path)
            page.wait_for_selector(SHOWN)
            yield page
            assert self.problems == []
        finally:
            context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        # The browser reports each refused request; pages show those beside their cause.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.problems.append(message.text)


@dataclass
class Pages(Served):
    """The pages of a run in a browser."""

    run: Run = field(kw_only=True)
    feed: int = field(kw_only=True)
    out: int = field(kw_only=True)
    """The port of the sink."""

    def send(self, *records: str) -> None:
        send(self.feed, "".join(f"{record}\n" for record in records).encode())


@pytest.fixture(scope="package")  # Playwright keeps an event loop, beside which other tests can't run theirs
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.fail("no Chromium: install it with `make packages`, or as the package chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="package")
def pages(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("pages")
    for name in ("orders", "bulk"):
        (folder / name / name).mkdir(parents=True)
    (folder / "own.py").write_text(OWN)
    feed, out = free_port(), free_port()
    run = Run(folder, pipeline(feed, out, folder / "broken")).start()
    found = Pages(run.data_dir / "engine.json", browser, run=run, feed=feed, out=out)
    found.send(*(f'{{"id": {number}, "symbol": "S{number % 4}", "bid": {90 + number % 20}}}' for number in range(500)))
    yield found
    run.end()


@pytest.fixture
def flow(pages: Pages) -> Iterator[Callable[[], None]]:
    """Records that keep coming for the time of a test."""
    stopping = threading.Event()

    def feed() -> None:
        with suppress(OSError), connect(pages.feed) as sock:
            number = 1000
            while not stopping.wait(0.02):
                number += 1
                sock.sendall(f'{{"id": {number}, "symbol": "F", "bid": 120.5}}\n'.encode() * 20)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    yield lambda: time.sleep(0)
    stopping.set()
    thread.join(10)
