"""States into which a run gets while somebody looks: quiet, full, fast, killed, restarted; and hostile records."""

from __future__ import annotations

import base64
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, TimeoutError

from helpers.feeds import connect, push_until_stuck
from helpers.run import Run, free_port
from helpers.waiting import wait_until
from web.conftest import SHOWN, Pages

pytestmark = pytest.mark.system

HOSTILE = [
    b"</script><script>window.hit = 1</script>",
    b"\xff\xfe not \x80 text \x00\x1b[31mred\x1b[0m",
    "\u202eright to left\u202c \u0000 \ud7ff".encode(),
    b'{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}, "x": "<img src=x onerror=hit()>"}',
    b"'\"`${window.hit = 1}{{window.hit = 1}}",
    b"[" * 2000,
    b"x" * 60_000,
]


def pipeline(api: int, feed: int, out: int) -> str:
    return f"""
topics = [
    {{ name = "raw", storage = "memory", storage_config = {{ storage_size = 1000 }} }},
    {{ name = "fast", storage = "memory", storage_config = {{ storage_size = 20_000 }} }},
    {{ name = "odd", storage = "memory" }},
    {{ name = "wide", storage = "memory" }},
]

[api]
port = {api}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {feed}, input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "raw", read = "offset" }}
config = {{ port = {out}, slow_client_bytes = 65536, output = {{ framing = "newline", delimiter = "\\n" }} }}
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Pages]:
    """The pages of a run without Spark, at a port that a later run can take again."""
    api, feed, out = free_port(), free_port(), free_port()
    run = Run(tmp_path_factory.mktemp("states"), pipeline(api, feed, out)).start()
    yield Pages(run.data_dir / "engine.json", browser, run=run, feed=feed, out=out)
    run.end()


def test_a_quiet_run_says_where_it_waits_for_records(plain: Pages) -> None:
    with plain.opened() as page:
        page.wait_for_selector("h1 >> text=No records flow now")
        assert f"127.0.0.1:{plain.feed}" in page.inner_text(".lead")
        page.click("[data-id='topic odd']")
        page.wait_for_selector(".tail >> text=No record has come yet")


def test_a_full_topic_names_its_reader_and_who_waits(plain: Pages) -> None:
    with connect(plain.out) as client, connect(plain.feed) as sender, plain.opened() as page:
        block = (b"x" * 99 + b"\n") * 500
        push_until_stuck(sender, block, lambda: plain.run.api("/api/overview")["bottleneck"] == "out")
        page.wait_for_selector("h1 >> text=out holds all to 0/s")
        assert "raw is full, producers wait" in page.inner_text(".lead")
        assert "nothing is dropped" in page.inner_text(".lead")
        label = str(page.locator("[data-id='topic raw']").get_attribute("aria-label"))
        assert "full" in label and "100 %" in label
        assert "bottleneck" in str(page.locator("[data-id='processor out']").get_attribute("aria-label"))
        page.click("text=Why")
        page.wait_for_selector(".dock h2 >> text=out")
        assert "raw is full" in page.inner_text(".dock .why")
        page.click(".rail-links >> text=Topics")
        page.wait_for_selector("h1 >> text=1 of 4 topics hold their writers back")

        def drain() -> None:
            while client.recv(1 << 20):
                pass

        threading.Thread(target=drain, daemon=True).start()
        page.click(".rail-links >> text=Graph")
        page.wait_for_selector("h1 >> text=/nothing waits|No records flow/")
        client.shutdown(2)


def test_a_tail_of_a_fast_topic_shows_samples_and_stays_bounded(plain: Pages) -> None:
    ended = threading.Event()
    append = "/api/topics/fast/records"

    def feed() -> None:
        number = 0
        while not ended.is_set():
            lines = (f'{{"id": {each}, "symbol": "AAPL"}}\n' for each in range(number, number + 5000))
            plain.run.api(append, "POST", "".join(lines).encode())
            number += 5000
            time.sleep(0.1)  # 50,000 a second at most

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        with plain.opened("/?topic=fast") as page:
            page.wait_for_selector(".tail-said >> text=/1 of \\d{2,} shown/")
            newest = "Number(document.querySelector('.tail-row span').textContent.replaceAll(',', ''))"
            first = page.evaluate(newest)
            wait_until(lambda: page.evaluate(newest) > first + 5000, what="later records")
            assert page.locator(".tail-row").count() <= 200
            page.fill(".tail input", ".id > 1000000000")
            page.keyboard.press("Enter")
            page.wait_for_selector(".tail >> text=No record matches")
    finally:
        ended.set()
        thread.join(30)


def test_a_condition_that_all_records_meet_says_so(plain: Pages) -> None:
    lines = "".join(f'{{"id": {each}, "error": "timeout"}}\n' for each in range(600))
    plain.run.api("/api/topics/wide/records", "POST", lines.encode())
    with plain.opened("/topics/wide") as page:
        page.fill(".tail input", ".id >= 0")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tail-said >> text=600 of the newest 600 match")
        plain.run.api("/api/topics/wide/records", "POST", lines.encode())
        page.wait_for_selector(".tail-said >> text=1.2 k of the newest 1.2 k match")
        places = page.locator(".tail-row span[title=offset]").all_text_contents()
        assert len(set(places)) == len(places), "no record is shown twice"
        page.click(".segments >> text=Scan")
        page.fill("[data-testid=scan]", "select(.id > 597) | {id, error}")
        page.keyboard.press("Enter")
        page.wait_for_selector(".scan td >> text=timeout")
        assert page.locator(".scan tbody tr").count() == 4 and page.locator(".scan [role=alert]").count() == 0


def test_a_tail_asks_once_at_a_time_and_not_for_what_was_left(plain: Pages) -> None:
    with plain.opened("/topics/odd") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for text in (".id > 1", ".id > 2", ".id > 3"):
            page.fill(".tail input", text)
            page.keyboard.press("Enter")
            page.click(".tail .segments >> text=Raw")
            page.click(".tail .segments >> text=Decoded")
        page.wait_for_timeout(500)
        asked.clear()
        page.wait_for_timeout(3000)
        assert len([each for each in asked if "/latest" in each]) <= 6
        page.click(".rail-links >> text=Graph")
        for name in ("processor out", "processor feed", "topic raw", "topic odd") * 3:
            page.click(f"[data-id='{name}']")
        page.click("[aria-label='Close the dock']")
        page.wait_for_timeout(500)
        asked.clear()
        page.wait_for_timeout(3000)
        assert [each for each in asked if "/api/" in each] == []


def test_a_tail_is_held_while_it_is_scrolled_or_has_the_focus(plain: Pages) -> None:
    append = "/api/topics/wide/records"
    plain.run.api(append, "POST", b"".join(b'{"n": %d}\n' % each for each in range(100)))
    with plain.opened("/topics/wide") as page:
        newest = "document.querySelector('.tail-row span').textContent"
        page.wait_for_selector(".tail-row:nth-child(50)")
        page.evaluate("document.querySelector('.tail-rows').scrollTop = 200")
        page.wait_for_selector("text=held while you read")
        shown = page.evaluate(newest)
        plain.run.api(append, "POST", b"later\n")
        page.wait_for_timeout(1500)
        assert page.evaluate(newest) == shown
        page.evaluate("document.querySelector('.tail-rows').scrollTop = 0")
        page.wait_for_selector(".tail-row >> text=later")
        page.focus(".tail .btn")
        page.keyboard.press("Tab")
        page.wait_for_selector("text=held while you read")
        page.keyboard.press("Tab")
        page.wait_for_selector("text=every record is shown")


def test_pages_copy_without_the_clipboard_of_scripts(plain: Pages) -> None:
    with plain.opened("/topics/wide") as page:
        page.evaluate(
            "() => { window.board = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', {}); }"
        )
        page.click(".segments >> text=Scan")
        page.click("text=Copy curl")
        page.wait_for_selector(".toast >> text=The curl command is in the clipboard")
        command = str(page.evaluate("window.board.readText()"))
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd="/", check=True)
    assert "timeout" in done.stdout, "it runs from anywhere"


def test_whole_numbers_and_bytes_keep_what_they_are(plain: Pages) -> None:
    with plain.opened() as page:
        found = page.evaluate(
            """async () => {
              const { parse, stringify } = await import("gauss-web/api.js");
              const { shown, spaced } = await import("gauss-web/parts.js");
              const text = '{"id":1234567890123456789,"at":-9223372036854775808,"text":"[ 1234567890123456789 ]"}';
              const given = parse(text), both = { base64: "a", id: 1 };
              return [stringify(given) === text, spaced(given), shown({ base64: "/w==" }), shown(both)];
            }"""
        )
        assert found == [
            True,
            '{"id": 1234567890123456789, "at": -9223372036854775808, "text": "[ 1234567890123456789 ]"}',
            "base64:/w==",
            '{"base64": "a", "id": 1}',
        ]


def test_hostile_records_are_shown_as_text(plain: Pages) -> None:
    for record in HOSTILE:
        plain.run.api("/api/topics/odd/records?framing=length_prefixed&prefix_type=u32be", "POST", framed(record))
    with plain.opened("/topics/odd") as page:
        for form in ("Raw", "Decoded"):
            page.click(f".tail .segments >> text={form}")
            page.wait_for_selector(f".tail-row:nth-child({len(HOSTILE)})")
            rows = page.locator(".tail-row code").all_inner_texts()
            assert "</script><script>window.hit = 1</script>" in rows[-1]
            assert base64.b64encode(HOSTILE[1]).decode() in rows[-2]
            assert "onerror=hit()" in rows[-4]
        page.click(".segments >> text=Scan")
        page.click("[data-testid=scan]")
        page.keyboard.press("Enter")
        page.wait_for_selector(".scan td >> text=onerror=hit()")
        assert page.evaluate("[window.hit, {}.polluted]") == [None, None]


def framed(record: bytes) -> bytes:
    return len(record).to_bytes(4, "big") + record


def test_everything_is_reached_and_done_by_keys_alone(plain: Pages) -> None:
    with plain.opened() as page:

        def tab_to(selector: str) -> None:
            for _ in range(60):
                page.keyboard.press("Tab")
                if page.evaluate("(found) => document.activeElement.matches(found)", selector):
                    return
            raise AssertionError(f"no Tab stop {selector}")

        tab_to("[data-id='topic odd']")
        page.keyboard.press("Enter")
        page.wait_for_selector(".dock h2 >> text=odd")
        tab_to(".tail .btn")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=paused")
        page.keyboard.press("Control+k")
        page.keyboard.type("health")
        page.keyboard.press("Enter")
        page.wait_for_url("**/health")
        page.keyboard.press("?")
        page.wait_for_selector("dialog.keys")
        page.keyboard.press("?")
        page.wait_for_selector("dialog.keys", state="detached")


def test_a_page_of_another_site_cannot_frame_the_pages(plain: Pages) -> None:
    with plain.opened() as page:
        other = page.context.new_page()
        other.set_content(f'<iframe src="{plain.endpoint}/"></iframe>')
        frame = wait_until(lambda: [each for each in other.frames if each is not other.main_frame], what="the frame")[0]
        wait_until(lambda: frame.url.startswith("chrome-error:"), what="a refused frame")


def test_a_killed_engine_is_told_and_the_page_goes_on(plain: Pages) -> None:
    with plain.opened() as page:
        page.wait_for_selector("text=Live")
        for _ in range(4):  # it may be back before the next reading
            plain.run.kill("gauss.stream.engine")
            with suppress(TimeoutError):
                page.wait_for_selector("h1 >> text=/The engine (restarts|is down|starts)/", timeout=5000)
                break
        assert "file topics keep their records" in page.inner_text(".lead")
        page.wait_for_selector("h1 >> text=No records flow now")
        page.wait_for_selector("text=Live")


def test_a_page_left_open_over_a_restart_shows_the_new_run(plain: Pages) -> None:
    run = plain.run
    with plain.opened("/topics/odd") as page:
        run.stop()
        page.wait_for_selector(".banner >> text=You look at")
        page.wait_for_selector("main.stale h1 >> text=odd")
        run.config.write_text(run.config.read_text().replace('"odd"', '"even"'))
        run.start()
        page.wait_for_selector("h1 >> text=There is no topic")
        page.wait_for_selector(".banner", state="detached")
        page.click(".rail-links >> text=Topics")
        page.wait_for_selector("a.name >> text=even")
        assert page.locator(SHOWN).count() == 1
        plain.problems = [each for each in plain.problems if "WebSocket connection" not in each]
