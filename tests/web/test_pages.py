"""What each page shows of a real run, and what an operator does there."""

from __future__ import annotations

import json
import shlex

import pytest

from helpers.feeds import Collector
from helpers.waiting import wait_until
from web.conftest import SCRIPT, Pages

pytestmark = pytest.mark.system


@pytest.mark.usefixtures("flow")
def test_graph_shows_live_rates_and_the_headline_says_that_data_flows(pages: Pages) -> None:
    with pages.opened() as page:
        page.wait_for_selector("h1 >> text=/flow/", timeout=60_000)
        node = page.locator("[data-id='topic raw']")
        assert "flowing" in str(node.get_attribute("aria-label"))
        widths = page.evaluate(
            "[...document.querySelectorAll('.edge')].map((line) => parseFloat(line.style.strokeWidth))"
        )
        assert len(widths) >= 4 and max(widths) == 6 and min(widths) == 1.5, "a line is as wide as its rate"
        assert page.evaluate("getComputedStyle(document.querySelector('.beads')).animationName") == "none"
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
        assert page.locator("tbody tr").count() == 6
        first = page.inner_text("[data-id=raw]")
        assert "memory" in first and "/s" in first and "ago" in first and "of 50,000" not in first
        assert "up to date" in first or "behind" in first
        page.keyboard.press("/")
        page.keyboard.type("hig")
        wait_until(lambda: page.locator("tbody tr").count() == 1, what="one topic")
        assert "filter=hig" in page.url
        page.click("a.name")
        page.wait_for_url("**/topics/high")
        page.wait_for_selector("text=What it promises")
        assert "Oldest" in page.inner_text("dl.pairs") and "survives a restart" in page.inner_text("dl.pairs")
        assert page.locator("[aria-label=Table]").count() == 0


def test_a_table_topic_shows_rows_key_and_evolution(pages: Pages) -> None:
    with pages.opened("/topics/live") as page:
        page.wait_for_selector(".tail-row >> text=S1")
        table = page.locator("[aria-label=Table]")
        table.locator("dd >> text=symbol").wait_for()
        assert "A row is the newest record of its key" in table.inner_text()
        assert "no record deletes a key" in table.inner_text()


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
        page.wait_for_selector("text=/fuel, .* read/")
        page.click("text=Last minute")
        assert "range(ts: " in page.input_value("[data-testid=scan]")
        page.click("[aria-label='Time range'] >> text=All")
        assert page.input_value("[data-testid=scan]") == "select(.bid > 107) | {symbol, bid}"
        page.click(".segments >> text=JSON")
        page.wait_for_selector(".scan .code div")
        page.click("text=Copy curl")
        assert "curl" in page.evaluate("navigator.clipboard.readText()")
        page.click("text=Copy command")
        command = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    rows = pages.run.cli(*command[1:], "--limit", "3").stdout.splitlines()
    assert len(rows) == 4 and rows[0].split() == ["symbol", "bid"]


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


def test_all_letters_of_a_group_are_replayed(pages: Pages) -> None:
    pages.send(*(f'{{"id": {number}, "symbol": "BAD", "bid": "x"}}' for number in (81, 82)))
    wait_until(lambda: pages.run.api("/api/dlq")["total"] == 2, what="two dead letters")
    with pages.opened("/dead") as page:
        page.wait_for_selector("h1 >> text=2 dead letters, all for one reason")
        page.click("text=Replay all 2")
        page.wait_for_selector(".toast >> text=2 records of high replayed")
    wait_until(
        lambda: [each["attempts"] for each in pages.run.api("/api/dlq/letters")["letters"]] == [2, 2],
        what="the letters, refused again",
    )
    pages.run.cli("dlq", "discard", "--all", "--yes")


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
        page.wait_for_selector("h1 >> text=No dead letters")
        assert pages.run.api("/api/dlq")["total"] == 1, "it can still be undone"
        page.goto("/topics")  # leaving the page ends the time
        wait_until(lambda: pages.run.api("/api/dlq")["total"] == 0, 5, what="no letter")


def test_a_sync_is_started_and_its_cursor_edited(pages: Pages) -> None:
    (pages.run.folder / "orders" / "orders" / "one.csv").write_text("id,symbol,bid\n1,A,1.5\n2,B,2.5\n")
    with pages.opened("/syncs") as page:
        page.click("[aria-label='Start orders']")
        page.wait_for_selector("text=/succeeded, 2 rows/", timeout=120_000)
        page.click("a.name >> text=orders")
        page.wait_for_selector("text=History")
        wait_until(lambda: page.locator("main table").nth(1).locator("tbody tr").count(), what="a run")
        assert "none: reads everything" not in page.inner_text("main table >> nth=0")
        page.click("[aria-label='Edit the cursor of orders']")
        page.fill("[data-testid=cursor]", "{wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=alert] >> text=not JSON")
        page.fill("[data-testid=cursor]", "")
        page.keyboard.press("Enter")
        page.wait_for_selector("td >> text=none: reads everything")
        page.click("text=Start now")
        wait_until(lambda: page.locator("main table").nth(1).locator("tbody tr").count() > 1, what="a second run")
        wait_until(lambda: pages.run.topic("orders")["appended"] == 4, what="rows that were read again")


def test_a_running_sync_is_shown_live_and_stopped(pages: Pages) -> None:
    rows = "".join(f"{number},A,1.5\n" for number in range(5000))  # more than the topic takes without a client
    (pages.run.folder / "bulk" / "bulk" / "one.csv").write_text(f"id,symbol,bid\n{rows}")
    with pages.opened("/syncs/bulk") as page:
        page.click("text=Start now")
        page.wait_for_selector("h1 >> text=running", timeout=60_000)
        page.wait_for_selector("text=Rows so far")
        page.wait_for_selector("text=MiB/s")
        wait_until(lambda: pages.run.topic("bulk")["records"] >= 1000, what="a full topic")
        page.click(".page-head >> text=Stop")
        page.wait_for_selector("text=bulk writes what it has read, and stops")
        client = Collector(pages.out)
        try:
            page.wait_for_selector("main table >> nth=1 >> text=/cancelled|succeeded/", timeout=60_000)
        finally:
            client.close()
        page.wait_for_selector("h1 >> text=/idle/")


def test_a_processor_that_has_failed_says_why_and_is_retried(pages: Pages) -> None:
    broken = pages.run.folder / "broken"
    broken.touch()
    pages.run.api("/api/topics/orders/records", "POST", b'{"id": 1, "symbol": "A", "bid": 1.5}\n')
    try:
        with pages.opened() as page:
            page.wait_for_selector("h1 >> text=pricing has failed", timeout=120_000)
            assert "1 record waits for it and is not lost" in page.inner_text(".lead")
            page.click("text=Why")
            page.wait_for_selector(".dock [role=alert] >> text=the <b>price</b> service does not answer")
            page.click("[data-testid=skip]")
            page.wait_for_selector("dialog >> text=The skipped records become dead letters")
            page.click("dialog [data-keep]")
            broken.unlink()
            page.click("[data-testid=retry]")
            page.wait_for_selector("dialog >> text=1 record waits for it")
            page.click("dialog footer >> text=Retry")
            page.wait_for_selector("text=Retry of pricing is on its way")
            page.wait_for_selector(".dock .chip >> text=running")
    finally:
        broken.unlink(missing_ok=True)
    offered = pages.run.topic("orders")["appended"]
    wait_until(lambda: pages.run.topic("priced")["appended"] == offered, what="each record, once")


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
