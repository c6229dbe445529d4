"""What each page shows of a real run, and what an operator does there."""

from __future__ import annotations

import json

import pytest

from helpers.waiting import wait_until
from web.conftest import SCRIPT, Pages

pytestmark = pytest.mark.system


@pytest.mark.usefixtures("flow")
def test_graph_shows_live_rates_and_the_headline_says_that_data_flows(pages: Pages) -> None:
    with pages.opened() as page:
        page.wait_for_selector("h1 >> text=/flow/", timeout=60_000)
        node = page.locator("[data-id='topic raw']")
        assert "flowing" in str(node.get_attribute("aria-label"))
        assert page.locator(".edge").count() >= 4
        for mode in ("Lag", "Kind", "Pressure"):
            page.click(f".segments >> text={mode}")
            assert page.locator(".legend span").count() >= 3


def test_a_node_docks_its_tail_raw_decoded_and_filtered(pages: Pages) -> None:
    with pages.opened() as page:
        page.click("[data-id='topic raw']")
        page.wait_for_selector(".tail-row")
        assert page.url.endswith("?topic=raw")
        page.fill(".tail input", ".bid > 108")
        page.keyboard.press("Enter")
        rows = "[...document.querySelectorAll('.tail-row code')].map((row) => JSON.parse(row.textContent).bid)"
        wait_until(lambda: (bids := page.evaluate(rows)) and min(bids) > 108, what="only high bids")
        page.fill(".tail input", ".bid >")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tail [role=alert]")
        page.click(".tail .segments >> text=Raw")
        page.click(".tail >> text=Pause")
        page.wait_for_selector("text=paused")


def test_a_record_that_is_a_script_is_shown_and_not_run(pages: Pages) -> None:
    pages.send(SCRIPT)
    with pages.opened("/?topic=raw") as page:
        page.wait_for_selector(".tail-row >> text=onerror")
        page.goto("/topics/raw")
        page.wait_for_selector(".tail-row >> text=onerror")
        assert page.evaluate("window.hit") is None


def test_a_processor_shows_its_plan_and_previews_what_an_action_does(pages: Pages) -> None:
    with pages.opened("/?processor=high") as page:
        page.wait_for_selector(".plan dt >> text=guarantee")
        page.fill("#seek-to", "earliest")
        page.click("[data-testid=seek]")
        page.wait_for_selector("dialog >> text=read again")
        assert page.evaluate("document.activeElement.dataset.keep !== undefined")
        page.click("dialog [data-keep]")
        page.click("[data-testid=rebuild]")
        page.wait_for_selector("dialog >> text=read again from the first one")
        assert page.is_disabled("dialog .danger.solid")
        page.fill("dialog input", "high")
        page.click("dialog .danger.solid")
        page.wait_for_selector("text=Rebuild of high is on its way")


def test_topics_are_listed_filtered_and_opened(pages: Pages) -> None:
    with pages.opened("/topics") as page:
        assert page.locator("tbody tr").count() == 5
        page.keyboard.press("/")
        page.keyboard.type("hig")
        wait_until(lambda: page.locator("tbody tr").count() == 1, what="one topic")
        assert "filter=hig" in page.url
        page.click("a.name")
        page.wait_for_url("**/topics/high")
        page.wait_for_selector("text=What it promises")


def test_the_scan_box_completes_shows_faults_and_returns_rows(pages: Pages) -> None:
    with pages.opened("/topics/raw") as page:
        page.click(".segments >> text=Scan")
        page.wait_for_selector("text=candidates")
        page.click("[data-testid=scan]")
        page.keyboard.type("select(.b")
        page.click("[role=listbox] >> text=.bid")
        page.keyboard.type(" > ")
        page.wait_for_selector(".caret >> text=^")
        page.keyboard.type("107) | {symbol, bid}")
        page.wait_for_selector(".caret", state="detached")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=/rows.* in \\d+ ms/")
        assert page.locator(".scan th").all_inner_texts() == ["symbol", "bid"]
        page.click(".segments >> text=JSON")
        page.wait_for_selector(".scan .code div")
        page.click("text=Copy curl")
        assert "curl" in page.evaluate("navigator.clipboard.readText()")


def test_a_bad_record_is_corrected_tried_and_replayed(pages: Pages) -> None:
    pages.send('{"id": 77, "symbol": "BAD", "bid": "12x"}')
    wait_until(lambda: pages.run.api("/api/dlq")["total"] == 1, what="the dead letter")
    with pages.opened("/dead") as page:
        page.wait_for_selector("h1 >> text=1 dead letter")
        page.wait_for_selector(".letter mark")
        assert "12x" in page.inner_text(".letter mark")
        page.keyboard.press("e")
        page.click("[data-testid=try]")
        page.wait_for_selector("text=would be refused again")
        page.fill("textarea", '{"id": 77, "symbol": "BAD", "bid": 512.5}')
        page.click("[data-testid=try]")
        page.wait_for_selector("text=would pass now")
        page.click("[data-testid=replay-corrected]")
        page.wait_for_selector("h1 >> text=No dead letters")
    found = wait_until(
        lambda: [
            row for row in pages.run.api("/api/topics/high/latest?count=50&decoded=true")["records"]
            if "512.5" in json.dumps(row["data"])
        ],
        what="the corrected record",
    )  # fmt: skip
    assert len(found) == 1


def test_a_discarded_letter_comes_back_by_undo(pages: Pages) -> None:
    pages.send('{"id": 78, "symbol": "BAD", "bid": "13x"}')
    wait_until(lambda: pages.run.api("/api/dlq")["total"] == 1, what="the dead letter")
    with pages.opened("/dead") as page:
        page.wait_for_selector(".letter mark")
        page.keyboard.press("x")
        page.click(".toast >> text=Undo")
        page.wait_for_selector(".letter mark")
        assert pages.run.api("/api/dlq")["total"] == 1
        page.click("[data-testid=discard]")
        page.wait_for_selector("h1 >> text=No dead letters", timeout=20_000)
    assert pages.run.api("/api/dlq")["total"] == 0


def test_a_sync_is_started_and_its_cursor_edited(pages: Pages) -> None:
    (pages.run.folder / "orders" / "copied" / "one.csv").write_text("id,symbol\n1,A\n2,B\n")
    with pages.opened("/syncs") as page:
        page.click("[aria-label='Start orders']")
        page.wait_for_selector("text=/succeeded|failed/", timeout=60_000)
        page.click("a.name >> text=orders")
        page.wait_for_selector("text=History")
        wait_until(lambda: page.locator("main table").nth(1).locator("tbody tr").count(), what="a run")


def test_the_pipeline_file_shows_faults_in_place_and_links_to_nodes(pages: Pages) -> None:
    text = pages.run.config.read_text()
    try:
        with pages.opened("/pipeline") as page:
            assert "runs as it stands" in page.inner_text("h1")
            page.click("a[aria-label='high in the graph'] >> nth=0")
            page.wait_for_selector(".dock")
            pages.run.config.write_text(text.replace('plugin = "filter"', 'plugin = "filtre"'))
            page.goto("/pipeline")
            page.wait_for_selector("h1 >> text=1 error")
            assert "filtre" in page.inner_text(".err >> nth=0")
    finally:
        pages.run.config.write_text(text)


def test_health_lists_processes_queries_and_logs(pages: Pages) -> None:
    with pages.opened("/health") as page:
        assert page.locator("table >> nth=0").locator("tbody tr").count() == 3
        page.wait_for_selector("text=On Spark")
        page.wait_for_selector(".log > div")
        page.fill("input[type=search]", "no such line in any log")
        page.wait_for_selector("text=No line matches")


def test_a_killed_driver_is_seen_and_comes_back(pages: Pages) -> None:
    with pages.opened() as page:
        page.wait_for_selector("text=Live")
        pages.run.kill("gauss.stream.driver ")
        page.wait_for_selector("h1 >> text=Spark's driver restarts", timeout=30_000)
        assert "nothing is lost" in page.inner_text(".lead")
        page.wait_for_selector("h1:not(:has-text('driver'))", timeout=90_000)
        page.wait_for_selector("text=Live")
