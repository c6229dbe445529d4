"""Dead letters in the page: each is shown, corrected, replayed and discarded for itself, with all its bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page

from gauss.connect.letters import SyncLetters
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from helpers.feeds import send
from helpers.waiting import wait_until
from web.conftest import Pages

pytestmark = pytest.mark.system

SHOWN_NUMBERS = "[...document.querySelectorAll('.pick[data-number]')].map((each) => Number(each.dataset.number))"


def letters(pages: Pages) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pages.run.api("/api/dlq/letters?limit=100")["letters"]
    return found


def bad(pages: Pages, *records: str | bytes) -> None:
    """Sends records that become dead letters, and waits for those."""
    before = len(letters(pages))
    lines = b"".join((each.encode() if isinstance(each, str) else each) + b"\n" for each in records)
    send(pages.feed, lines)
    wait_until(lambda: len(letters(pages)) >= before + len(records), what="the dead letters")


def quote(number: int, bid: str = '"x"') -> str:
    return f'{{"id": {number}, "symbol": "BAD", "bid": {bid}}}'


def chosen(page: Page) -> int:
    return int(str(page.get_attribute("[aria-label=Letter]", "data-number")))


@pytest.fixture(autouse=True)
def clean(pages: Pages) -> Iterator[None]:
    yield
    pages.run.cli("dlq", "discard", "--all", "--yes")


def test_letters_discarded_one_after_the_other_are_all_gone(pages: Pages) -> None:
    bad(pages, quote(1), quote(2), quote(3))
    with pages.opened("/dead") as page:
        page.wait_for_selector("h1 >> text=3 dead letters")
        first = chosen(page)
        page.keyboard.press("x")
        second = chosen(page)
        page.keyboard.press("x")
        page.wait_for_selector("h1 >> text=1 dead letter")
        assert page.evaluate(SHOWN_NUMBERS) == [chosen(page)]
        page.click(".toast:nth-child(2) >> text=Undo")
        wait_until(lambda: page.evaluate(SHOWN_NUMBERS) == [second, chosen(page)], what="the second one")
        page.keyboard.press("k")
        page.keyboard.press("x")
        page.wait_for_selector("h1 >> text=1 dead letter")
        assert len(letters(pages)) == 3, "nothing is deleted before its time"
        left = chosen(page)
        page.goto("/topics")
    wait_until(lambda: [each["dead_offset"] for each in letters(pages)] == [left], what="the one that was left")
    assert left not in (first, second)


def test_a_discard_of_all_takes_none_that_come_later(pages: Pages) -> None:
    bad(pages, quote(1), quote(2))
    with pages.opened("/dead") as page:
        page.click("[data-testid=discard-all]")
        page.wait_for_selector("h1 >> text=No dead letters")
        send(pages.feed, f"{quote(3)}\n".encode())
        page.wait_for_selector("h1 >> text=1 dead letter")
        page.wait_for_selector(".letter mark")
        page.goto("/topics")
    found = wait_until(lambda: len(found := letters(pages)) == 1 and found, what="the later one alone")
    assert b'"id": 3' in base64.b64decode(found[0]["data"])


def test_a_letter_that_waits_for_its_undo_is_not_replayed(pages: Pages) -> None:
    bad(pages, quote(1), quote(2), quote(3))
    with pages.opened("/dead") as page:
        page.wait_for_selector(".letter mark")
        page.keyboard.press("x")
        page.click("[data-testid=replay-all] >> text=Replay all 2")
        page.wait_for_selector(".toast >> text=2 records of high replayed")
    found = wait_until(lambda: len(found := letters(pages)) == 2 and found, what="two letters, refused again")
    assert [each["attempts"] for each in found] == [2, 2]
    assert not any(b'"id": 3' in base64.b64decode(each["data"]) for each in found)


def test_keys_move_among_letters_and_replay_one_once(pages: Pages) -> None:
    bad(pages, quote(1), quote(2))
    with pages.opened("/dead") as page:
        page.wait_for_selector(".letter mark")
        newest = chosen(page)
        page.keyboard.press("j")
        assert chosen(page) < newest
        page.keyboard.press("e")
        page.keyboard.press("Tab")  # the field has lost the focus, not the draft
        page.keyboard.press("r")
        page.wait_for_timeout(500)
        assert {each["attempts"] for each in letters(pages)} == {1}
        page.click("[data-testid=edit]")
        page.keyboard.down("r")
        page.keyboard.down("r")  # it repeats
        page.keyboard.up("r")
        page.wait_for_selector(".toast >> text=1 record of high replayed")
        wait_until(lambda: [each["attempts"] for each in letters(pages)] == [2, 1], what="one replay")


def test_a_draft_stays_when_other_letters_come_and_others_are_looked_at(pages: Pages) -> None:
    bad(pages, quote(1), quote(2))
    draft = quote(2, "700.5")
    with pages.opened("/dead") as page:
        page.wait_for_selector(".letter mark")
        edited = chosen(page)
        page.keyboard.press("e")
        page.fill("textarea", draft)
        bad(pages, *["nonsense"] * 5)  # another reason, and more letters of it
        page.wait_for_selector(".pick >> text=not JSON")
        page.wait_for_timeout(3500)  # another reading
        assert page.input_value("textarea") == draft
        assert "not JSON" not in page.inner_text(".pick[aria-current=true] >> nth=0"), "rows do not jump"
        page.click(".pick[data-number] >> nth=1")
        assert page.locator("textarea").count() == 0
        page.click(f".pick[data-number='{edited}']")
        page.click("[data-testid=edit]")
        assert page.input_value("textarea") == draft
        page.click("[data-testid=replay-corrected]")
        page.wait_for_selector(".toast >> text=1 record of high replayed")
    assert len([each for each in letters(pages) if each["reason"] != "bad_json"]) == 1


def test_bytes_that_are_no_text_survive_an_edit(pages: Pages) -> None:
    record = b'{"id": 1, "symbol": "M\xfcnchen \xf0\x9f\x98\x80\r", "bid": "x"}'
    bad(pages, record)
    with pages.opened("/dead?processor=high") as page:  # the table refuses it, too
        page.wait_for_selector("[data-testid=edit]")
        page.keyboard.press("e")
        page.wait_for_selector("text=Each � is a byte that is no text")
        page.click("[data-testid=replay-corrected]")
        page.wait_for_selector(".toast >> text=replayed")
    found = wait_until(
        lambda: (found := letters(pages)) and found[0]["attempts"] == 2 and found, what="the same letter"
    )
    assert base64.b64decode(found[0]["data"]) == record


def test_the_bad_place_behind_an_emoji_is_marked(pages: Pages) -> None:
    bad(pages, '{"id": 1, "symbol": "😀😀", "bid": "12x"}')
    with pages.opened("/dead") as page:
        page.wait_for_selector(".letter mark")
        assert page.locator("mark").all_inner_texts() == ['"12x"'] * 2


def test_a_corrected_record_is_sent_as_one_and_its_letter_goes(pages: Pages) -> None:
    bad(pages, quote(1) + " " * 1000)  # too long for its source, so it never was a record
    corrected = json.dumps({"id": 71, "symbol": "LONG", "bid": 710.5}, indent=2)
    before = pages.run.topic("raw")["appended"]
    with pages.opened("/dead?processor=feed") as page:
        page.wait_for_selector("text=It was never a record of a topic")
        page.click("[data-testid=edit]")
        page.fill("textarea", corrected)
        page.click("[data-testid=send]")
        page.wait_for_selector(".toast >> text=The corrected record is in raw")
        page.wait_for_selector("h1 >> text=No dead letters")
    assert pages.run.topic("raw")["appended"] == before + 1 and letters(pages) == []
    newest = pages.run.api("/api/topics/raw/latest?count=1")["records"][0]["data"]
    assert newest == corrected


def test_letters_of_a_sync_are_shown_with_what_replays_them(pages: Pages) -> None:
    kept = SyncLetters(pages.run.data_dir / "connect" / "letters", "orders")
    row = pa.RecordBatch.from_pylist([{"id": 1234567890123456789, "symbol": "A"}])
    kept.add("orders", "write", row, ConnectorError(ErrorCategory.DATA, "BAD", "the row was refused"), "orders#1")
    with pages.opened("/syncs/orders") as page:
        page.click("text=see them")
        page.wait_for_selector("h1 >> text=1 dead letter")
        assert "1234567890123456789" in page.inner_text(".letter")
        assert "gauss dlq replay --sync orders" in page.inner_text(".letter")
        assert page.locator("[data-testid=discard]").count() == 0
        page.wait_for_selector(".rail-link[aria-current] small >> text=1")
    groups = json.loads(pages.run.cli("dlq", "ls", "--json").stdout)["groups"]
    assert [(each["sync"], each["count"]) for each in groups] == [("orders", 1)], "each is counted once"
