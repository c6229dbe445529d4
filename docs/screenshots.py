"""Takes the picture of the README: the graph of the demo, in a real Chromium."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "graph.png"
MOST_BYTES = 200_000
SECONDS = 240


def main() -> None:
    demo = [sys.executable, str(ROOT / "examples/12-market/demo.py"), "--seconds", str(SECONDS), "--rate", "4000"]
    with subprocess.Popen(demo, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            link = next(line.split()[-1] for line in running.stdout if "Watch it in a browser" in line)
            _shoot(link)
        finally:
            running.send_signal(signal.SIGINT)  # it stops its run; a SIGTERM would leave that behind
    assert PICTURE.stat().st_size <= MOST_BYTES, f"{PICTURE} has {PICTURE.stat().st_size:,} bytes"


def _shoot(link: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, reduced_motion="reduce")
        page.goto(link)
        page.wait_for_selector("[data-id='topic candles'][aria-label*='flowing']", timeout=1000 * SECONDS)
        page.wait_for_timeout(3000)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
