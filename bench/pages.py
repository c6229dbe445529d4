"""What the pages of a run cost: nothing until opened, little while open, whatever the size of the pipeline.

Processor time is that of Gauss only. The browser has a process of its own, which competes for the same cores, so the
socket path is compared by bytes per second of the engine's processor time.
"""

from __future__ import annotations

import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

MIB, BLOCK = 1 << 20, 1 << 20
STARTS, ROUNDS, SECONDS, MANY, PAGES = 7, 5, 6.0, 300, 20
LINE = b"x" * 99 + b"\n"
QUOTE = b'{"id": 1, "symbol": "AAPL", "bid": 229.41, "ask": 229.52}\n'
FEED, OUT, FIRST = 19_100, 19_300, 19_400
HEAD = 'topics = [{ name = "raw", storage = "memory" }]\n'
FRAMING = '{ framing = "newline", delimiter = "\\n" }'
PLAIN = f"""{HEAD}
[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {FEED}, input = {FRAMING} }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "raw", read = "offset" }}
config = {{ port = {OUT}, output = {FRAMING} }}
"""
START = "from gauss.cli.main import main; main()"
WITHOUT = f"import gauss.web.mount as mount; mount.Pages = lambda app, site: app; {START}"


def many() -> str:
    """A pipeline of 300 topics and 300 processors."""
    half, parts = MANY // 2, []
    for number in range(half):
        one, other = f"in.{number:03}", f"out.{number:03}"
        for topic in (one, other):
            parts.append(f'[[topics]]\nname = "{topic}"\nstorage = "memory"\n')
        parts.append(
            f'[[processors]]\nname = "copy.{number:03}"\nplugin = "passthrough"\n'
            f'source = {{ topic = "{one}", read = "offset" }}\ntarget = {{ topic = "{other}" }}\n'
        )
        parts.append(
            f'[[processors]]\nname = "feed.{number:03}"\nplugin = "tcp-source"\ntarget = {{ topic = "{one}" }}\n'
            f"config = {{ port = {FIRST + number}, input = {FRAMING} }}\n"
        )
    return "\n".join(parts)


class Run:
    """A `gauss run`, with the link that it prints."""

    def __init__(self, config: Path, *, pages: bool = True) -> None:
        began = time.monotonic()
        folder = tempfile.mkdtemp(dir=config.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START if pages else WITHOUT, "run", str(config), "--quiet", "--data-dir", folder],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.link = next(word for line in self.process.stdout for word in line.split() if word.startswith("http"))
        self.seconds = time.monotonic() - began

    def used(self, marker: str = "") -> float:
        """Processor seconds of control, or of the child whose command has `marker`."""
        own = psutil.Process(self.process.pid)
        found = next(
            (each for each in own.children(recursive=True) if marker and each.cmdline()[1:3] == ["-m", marker]), own
        )
        return float(sum(found.cpu_times()[:2]))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@contextmanager
def started(config: Path, *, pages: bool = True) -> Iterator[Run]:
    run = Run(config, pages=pages)
    try:
        yield run
    finally:
        run.stop()


class Visitor:
    """A browser that is signed in to a run."""

    def __init__(self, browser: Browser, run: Run) -> None:
        self.base, _, code = run.link.partition("/#")
        self.context: BrowserContext = browser.new_context(reduced_motion="reduce")
        first = self.context.new_page()
        first.goto(f"{self.base}/#{code}")
        first.wait_for_selector("main h1:not(.soft)")
        first.close()

    def open(self, path: str) -> Page:
        page = self.context.new_page()
        page.goto(self.base + path)
        page.wait_for_selector("main h1:not(.soft)")
        return page


def share(run: Run, seconds: float = SECONDS) -> float:
    """Share of a core that control uses."""
    before = run.used()
    time.sleep(seconds)
    return (run.used() - before) / seconds


def moved_per_cpu(run: Run) -> float:
    """MiB that the engine moves from socket to socket per second of its processor time."""
    received = 0
    with socket.create_connection(("127.0.0.1", OUT)) as out, socket.create_connection(("127.0.0.1", FEED)) as feed:
        until = time.monotonic() + SECONDS / 2
        out.settimeout(1.0)
        before = run.used("gauss.stream.engine")

        def push() -> None:
            block = LINE * (BLOCK // len(LINE))
            while time.monotonic() < until:
                feed.sendall(block)

        thread = threading.Thread(target=push)
        thread.start()
        buffer = bytearray(BLOCK)
        while True:
            try:
                received += out.recv_into(buffer)
            except TimeoutError:
                if not thread.is_alive():
                    break
        return received / MIB / (run.used("gauss.stream.engine") - before)


def wire(page: Page, path: str) -> tuple[int, float]:
    """Bytes over the wire of a page that is opened anew, and ms per second of its main thread once it is idle."""
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    network.send("Performance.enable", {"timeDomain": "threadTicks"})
    total = 0

    def finished(event: dict[str, Any]) -> None:
        nonlocal total
        total += int(event["encodedDataLength"])

    def busy() -> float:
        found = network.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")

    network.on("Network.loadingFinished", finished)
    page.goto(path)
    page.wait_for_selector("main h1:not(.soft)")
    page.wait_for_timeout(2000)
    cold, before = total, busy()
    page.wait_for_timeout(1000 * SECONDS)
    return cold, 1000 * (busy() - before) / SECONDS


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def row(what: str, measured: str, aim: str) -> None:
        rows.append({"what": what, "measured": measured, "aim": aim})

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain, large = folder / "plain.toml", folder / "many.toml"
        plain.write_text(PLAIN)
        large.write_text(many())
        _ready(plain, row)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        stack.callback(browser.close)
        _small(plain, browser, row)
        _large(large, browser, row)
    return rows


def _ready(config: Path, row: Any) -> None:
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(STARTS):
        for pages, found in times.items():
            with started(config, pages=pages) as run:
                found.append(run.seconds)
    ratio = statistics.median(times[True]) / statistics.median(times[False])
    row("ready, with pages ÷ without", f"{ratio:.2f}, {statistics.median(times[True]):.2f} s", "0.95 … 1.05")


def _small(config: Path, browser: Browser, row: Any) -> None:
    with started(config) as run:
        visitor = Visitor(browser, run)
        alone = share(run)
        page = visitor.open("/")
        row("control, an idle page open", f"{100 * (share(run) - alone):+.1f} % of a core", "< 1 %")
        page.close()
        row("control, a tail at 50,000 records/s", f"{100 * _tail(run, visitor):.0f} % of a core", "")
        opened = [visitor.open("/") for _ in range(PAGES)]
        row(f"control, {PAGES} idle pages open", f"{100 * (share(run) - alone):+.1f} % of a core", "< 20 %")
        for each in opened:
            each.close()
        for path, pages, what in (
            ("/", 1, "a page"),
            ("/?topic=raw", 1, "a live tail"),
            ("/", PAGES, f"{PAGES} pages"),
        ):
            row(f"socket path, {what} open ÷ none", _socket_path(run, visitor, path, pages), "≥ 0.95")


def _socket_path(run: Run, visitor: Visitor, path: str, pages: int) -> str:
    """How the rate of a socket path compares, with and without open pages in turn."""
    without, opened = [], []
    for _ in range(ROUNDS):
        without.append(moved_per_cpu(run))
        shown = [visitor.open(path) for _ in range(pages)]
        opened.append(moved_per_cpu(run))
        for each in shown:
            each.close()
    base = statistics.median(without)
    return f"{statistics.median(opened) / base:.2f} of {base:,.0f} MiB per CPU-s"


def _tail(run: Run, visitor: Visitor) -> float:
    """Share of a core of control while a page follows a topic that gets 50,000 records a second."""
    ended = threading.Event()

    def feed() -> None:
        with socket.create_connection(("127.0.0.1", FEED)) as sock, socket.create_connection(("127.0.0.1", OUT)) as out:
            due = time.monotonic()
            while not ended.is_set():
                sock.sendall(QUOTE * 1000)
                due += 0.02
                while (left := due - time.monotonic()) > 0:
                    out.settimeout(left)
                    with suppress(TimeoutError):
                        out.recv(BLOCK)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    page = visitor.open("/?topic=raw")
    page.wait_for_selector(".tail-said >> text=/1 of/")
    found = share(run)
    ended.set()
    thread.join()
    page.close()
    return found


def _large(config: Path, browser: Browser, row: Any) -> None:
    with started(config) as run:
        visitor = Visitor(browser, run)
        alone = share(run)
        for path, name in (("/", "graph"), ("/topics", "list of topics")):
            page = visitor.open(path)
            extra = share(run) - alone
            cold, busy = wire(page, visitor.base + path)
            page.close()
            what = f"{MANY} topics, {MANY} processors, {name}: "
            row(what + "control", f"{100 * extra:+.1f} % of a core", "< 5 %")
            row(what + "over the wire", f"{cold / 1000:.0f} kB", "≤ 450 kB")
            row(what + "main thread", f"{busy:.0f} ms/s", "< 100 ms/s")


if __name__ == "__main__":
    for found in run():
        print(found)
