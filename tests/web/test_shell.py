"""What holds for every page: no error, no sideways scroll, named controls, contrast, keys, themes, lost connections."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.page_checks import CONTRAST, NAMES, WITH_DOCK, Traffic, visit
from helpers.waiting import wait_until
from web.conftest import PAGES, SHOWN, Pages

pytestmark = pytest.mark.system

IDLE_BYTES, IDLE_SECONDS = 2_000, 8


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_of_every_page_has_contrast_and_every_control_a_name(pages: Pages, dark: bool) -> None:
    with pages.opened(dark=dark) as page:
        for path in (*PAGES, *WITH_DOCK):
            visit(page, path)
            assert page.evaluate(CONTRAST) == [], path
            assert page.evaluate(NAMES) == [], path


def test_no_page_scrolls_sideways_on_a_phone(pages: Pages) -> None:
    with pages.opened(width=390) as page:
        for path in (*PAGES, *WITH_DOCK):
            visit(page, path)
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path


def test_every_tab_stop_shows_where_it_is(pages: Pages) -> None:
    with pages.opened() as page:
        seen: list[Any] = []
        for _ in range(20):
            page.keyboard.press("Tab")
            seen.append(
                page.evaluate(
                    "() => [document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
                )
            )
        assert [stop for stop in seen if stop[0] != "BODY" and stop[1] == "none"] == []
        assert len({stop[0] for stop in seen}) > 1


def test_keys_go_to_pages_and_find_or_do_opens_a_topic(pages: Pages) -> None:
    with pages.opened() as page:
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.wait_for_url("**/topics")
        page.keyboard.press("Control+k")
        page.fill("dialog input", "hig")
        page.keyboard.press("Enter")
        page.wait_for_url("**/topics/high")
        page.keyboard.press("Control+k")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog.find", state="detached")


def test_another_topic_is_shown_with_nothing_of_the_one_before(pages: Pages) -> None:
    pages.send('{"id": 1234567890123456789, "symbol": "BIG", "bid": 90.5}')
    with pages.opened("/topics/live") as page:
        page.wait_for_selector("[aria-label=Table] dd >> text=symbol")
        page.wait_for_selector(".tail-row >> text=1234567890123456789")
        page.fill(".tail input", ".bid == 90.5")
        for name in ("high", "raw"):
            page.keyboard.press("Control+k")
            page.fill("dialog input", name)
            page.keyboard.press("Enter")
            page.wait_for_selector(f"[aria-label='Newest records of {name}'] .tail-row")
        assert page.locator("[aria-label=Table]").count() == 0
        assert page.input_value(".tail input") == ""
        shown = page.locator(".tail-row span[title=offset]").all_text_contents()
        assert len(set(shown)) == len(shown) == 50
        assert shown[0] == f"{pages.run.topic('raw')['end'] - 1:,}"


def test_the_theme_is_chosen_and_kept(pages: Pages) -> None:
    with pages.opened() as page:
        for _ in range(2):
            page.click("[aria-label^='Theme']")
        page.wait_for_selector("body.body--dark")
        page.reload()
        page.wait_for_selector("body.body--dark")


def test_a_page_that_lost_its_connection_says_since_when(pages: Pages) -> None:
    with pages.opened() as page:
        page.wait_for_selector("text=Live")
        page.evaluate("window.socket.disconnect()")
        page.wait_for_selector(".banner >> text=You look at")
        page.wait_for_selector("main.stale")
        page.evaluate("window.socket.connect()")
        page.wait_for_selector(".banner", state="detached")


def test_a_hidden_tab_is_sent_nothing(pages: Pages) -> None:
    with pages.opened() as page:
        page.evaluate(
            """() => { window.heard = 0; window.socket.on('live', () => window.heard++);
            Object.defineProperty(document, 'hidden', { value: true, configurable: true });
            document.dispatchEvent(new Event('visibilitychange')); }"""
        )
        page.wait_for_timeout(1500)
        before = page.evaluate("window.heard")
        page.wait_for_timeout(1500)
        assert page.evaluate("window.heard") == before
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        wait_until(lambda: page.evaluate("window.heard") > before, what="figures for a tab that is shown again")


def test_idle_pages_receive_less_than_2_kb_a_second(pages: Pages) -> None:
    with pages.opened() as first:
        seen: dict[str, Traffic] = {}
        for path in (*PAGES, *WITH_DOCK):
            page = first.context.new_page()
            seen[path] = Traffic(page.context.new_cdp_session(page))
            page.goto(path)
            page.wait_for_selector(SHOWN)
        first.wait_for_timeout(5000)  # each has read all that it reads
        before = {path: each.loaded + each.pushed for path, each in seen.items()}
        first.wait_for_timeout(1000 * IDLE_SECONDS)
        rates = {path: (each.loaded + each.pushed - before[path]) / IDLE_SECONDS for path, each in seen.items()}
    assert {path: rate for path, rate in rates.items() if rate > IDLE_BYTES} == {}


def test_a_page_that_is_not_heard_asks_again(pages: Pages) -> None:
    with pages.opened() as page:
        page.evaluate(
            """() => { Object.defineProperty(document, 'hidden', { value: true, configurable: true });
            document.dispatchEvent(new Event('visibilitychange')); }"""
        )
        page.wait_for_timeout(1500)  # the server has taken it for hidden
        page.evaluate("window.heard = 0; window.socket.on('live', () => window.heard++); delete document.hidden")
        wait_until(lambda: page.evaluate("window.heard") > 1, what="figures, asked for again")
        page.wait_for_selector("text=Live")


def test_an_unknown_topic_says_what_became_of_it(pages: Pages) -> None:
    with pages.opened("/topics/removed") as page:
        assert "no topic" in page.inner_text("h1")
    with pages.opened("/?topic=removed") as page:
        page.wait_for_selector(".dock >> text=There is no topic")
