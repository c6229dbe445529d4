"""What is checked of any page: contrast, named controls; and how a test goes from page to page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import CDPSession, Page

CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const skipped = "svg, [disabled], .sr, .skip, script, style, .word";
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || node.closest(skipped)) continue;
    const levels = [light(rgba(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
    const ratio = (levels[0] + 0.05) / (levels[1] + 0.05);
    if (ratio < 4.5) bad.push([text.slice(0, 40), node.className, ratio.toFixed(2)]);
  }
  return bad;
}"""
GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
"""Goes to a page as its links do, without loading anything anew."""
WITH_DOCK = ("/?topic=raw", "/?processor=high")
STOPS = "a[href], button, input, select, textarea, [tabindex='0'], [role=option]"
NAMES = f"""() => [...document.querySelectorAll("{STOPS}")]
  .filter((node) => node.checkVisibility() && !node.disabled)
  .filter((node) => !(node.innerText || node.ariaLabel || node.labels?.[0]?.innerText || node.title || "").trim())
  .map((node) => node.outerHTML.slice(0, 120))"""


def visit(page: Page, path: str) -> None:
    """Goes to a page, and waits for what it shows."""
    page.evaluate(GO, path)
    page.wait_for_selector(f"main[data-path='{path.partition('?')[0]}'] h1:not(.soft)")
    if path in WITH_DOCK:
        page.wait_for_selector(".tail-row" if "topic" in path else ".plan dt")


class Traffic:
    """Bytes that a page has received, as they are on the wire; of its socket, before they are compressed.
    `cold`: without what the browser keeps."""

    def __init__(self, network: CDPSession, *, cold: bool = False) -> None:
        self.loaded, self.pushed, self.html = 0, 0, 0
        network.on("Network.loadingFinished", self._finished)
        network.on("Network.webSocketFrameReceived", self._received)
        network.on("Network.responseReceived", self._answered)
        self._pages: set[str] = set()
        network.send("Network.enable")
        network.send("Network.setCacheDisabled", {"cacheDisabled": cold})

    def _answered(self, event: dict[str, Any]) -> None:
        if event["type"] == "Document":
            self._pages.add(event["requestId"])

    def _finished(self, event: dict[str, Any]) -> None:
        self.loaded += int(event["encodedDataLength"])
        if event["requestId"] in self._pages:
            self.html += int(event["encodedDataLength"])

    def _received(self, event: dict[str, Any]) -> None:
        self.pushed += len(event["response"]["payloadData"])
