"""Pages of a pipeline of 300 topics and 300 processors: grouped, paged, and within their budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession

from helpers.run import Run, free_port
from web.conftest import SHOWN, Served

pytestmark = pytest.mark.system

HALF = 150
COLD_BYTES, HTML_BYTES, IDLE_BYTES = 450_000, 60_000, 2_000


def pipeline() -> str:
    parts = []
    for number in range(HALF):
        one, other = f"in.sensor{number:03}", f"out.sensor{number:03}"
        parts += [f'[[topics]]\nname = "{topic}"\nstorage = "memory"\n' for topic in (one, other)]
        parts.append(
            f'[[processors]]\nname = "copy.sensor{number:03}"\nplugin = "passthrough"\n'
            f'source = {{ topic = "{one}", read = "offset" }}\ntarget = {{ topic = "{other}" }}\n'
        )
        parts.append(
            f'[[processors]]\nname = "feed.sensor{number:03}"\nplugin = "tcp-source"\n'
            f'target = {{ topic = "{one}" }}\nconfig = {{ port = {free_port()},'
            ' input = { framing = "newline", delimiter = "\\n" } }\n'
        )
    return "\n".join(parts)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Served]:
    run = Run(tmp_path_factory.mktemp("large"), pipeline()).start()
    yield Served(run.data_dir / "engine.json", browser)
    run.end()


def test_hundreds_of_nodes_are_grouped_and_a_click_shows_the_members(large: Served) -> None:
    with large.opened() as page:
        page.wait_for_selector("[data-id^='group topic in']")
        assert page.locator(".node").count() == 4
        assert "150 topics" in page.inner_text("[data-id^='group topic in']")
        page.click("[data-id^='group topic in']")
        page.wait_for_selector("[data-id='topic in.sensor149']")
        page.click("text=Fold all groups")
        page.wait_for_selector("[data-id^='group topic in']")
        page.click(".rail-links >> text=Topics")
        page.wait_for_selector("text=Show 50 more of 300")
        assert page.locator("tbody tr").count() == 50
        page.click("text=Show 50 more of 300")
        assert page.locator("tbody tr").count() == 100


@pytest.mark.parametrize("name", ["`sensor${n}`", "n.toString(26).replace(/[0-9]/g, (digit) => 'qrstuvwxyz'[digit])"])
def test_thousands_of_nodes_are_grouped_even_without_common_names(large: Served, name: str) -> None:
    with large.opened() as page:
        found = page.evaluate(
            f"""async () => {{
              const {{ grouped }} = await import("gauss-web/layout.js");
              const column = [...Array(3000)].map((_, n) => `topic ${{{name}}}`);
              const closed = grouped([column], [], new Set());
              const open = grouped([column], [], new Set(Object.keys(closed.groups)));
              return [closed.columns.flat().length, open.columns.flat().length];
            }}"""
        )
        assert found == [1, 3000]


class Traffic:
    """Bytes that a page has received, as they are on the wire; of its socket, before they are compressed."""

    def __init__(self, network: CDPSession) -> None:
        self.loaded, self.pushed, self.html = 0, 0, 0
        network.on("Network.loadingFinished", self._finished)
        network.on("Network.webSocketFrameReceived", self._received)
        network.on("Network.responseReceived", self._answered)
        self._pages: set[str] = set()
        network.send("Network.enable")
        network.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def _answered(self, event: dict[str, Any]) -> None:
        if event["type"] == "Document":
            self._pages.add(event["requestId"])

    def _finished(self, event: dict[str, Any]) -> None:
        self.loaded += int(event["encodedDataLength"])
        if event["requestId"] in self._pages:
            self.html += int(event["encodedDataLength"])

    def _received(self, event: dict[str, Any]) -> None:
        self.pushed += len(event["response"]["payloadData"])


@pytest.mark.parametrize("path", ["/", "/topics"])
def test_pages_of_a_large_pipeline_keep_their_budgets(large: Served, path: str) -> None:
    with large.opened() as page:
        traffic = Traffic(page.context.new_cdp_session(page))
        page.goto(path)
        page.wait_for_selector(SHOWN)
        page.wait_for_selector(".node, tbody tr")
        page.wait_for_timeout(1000)  # of the first push, which has every row
        assert traffic.loaded < COLD_BYTES and 0 < traffic.html < HTML_BYTES, (traffic.loaded, traffic.html)
        loaded, pushed = traffic.loaded, traffic.pushed
        page.wait_for_timeout(3000)
        assert traffic.loaded + traffic.pushed - loaded - pushed < 3 * IDLE_BYTES
