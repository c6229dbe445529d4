"""A table topic in a whole run without a JVM: read by snapshot, subscription and changes."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from helpers.feeds import Collector, connect, send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]

EXAMPLE_4 = """
[[topics]]
name = "quotes.live"
storage = "memory"
storage_config = {{ mode = "table", format = "json", key_field = "symbol", delete_when = '.closed == true' }}

[[processors]]
name = "market-feed"
plugin = "tcp-source"
target = {{ topic = "quotes.live" }}
config = {{ port = {feed}, ack = "count", input = {{ format = "json", framing = "newline" }} }}

[[processors]]
name = "table"
plugin = "tcp-sink"
source = {{ topic = "quotes.live", read = "snapshot" }}
config = {{ port = {snapshot}, output = {{ framing = "newline" }} }}

[[processors]]
name = "subscribers"
plugin = "tcp-sink"
source = {{ topic = "quotes.live", read = "subscribe" }}
config = {{ port = {subscribe}, output = {{ framing = "newline" }} }}

[[processors]]
name = "changes"
plugin = "tcp-sink"
source = {{ topic = "quotes.live", read = "subscribe", subscribe = "changes" }}
config = {{ port = {changes}, output = {{ framing = "newline" }} }}
"""


def example_4() -> tuple[str, dict[str, int]]:
    ports = {name: free_port() for name in ("feed", "snapshot", "subscribe", "changes")}
    return EXAMPLE_4.format(**ports), ports


def quote(symbol: str, bid: int, **more: object) -> bytes:
    return json.dumps({"symbol": symbol, "bid": bid, **more}).encode()


def lines(*records: bytes) -> bytes:
    return b"".join(record + b"\n" for record in records)


def snapshot(port: int) -> list[bytes]:
    """Everything a client receives until the sink closes the connection."""
    with connect(port) as sock, sock.makefile("rb") as stream:
        return [line.rstrip(b"\n") for line in stream]


def test_example_4_keeps_the_newest_quote_of_each_symbol_without_a_jvm(gauss: Make) -> None:
    config, ports = example_4()
    run = gauss(config).start()
    assert not run.named("java")
    send(ports["feed"], lines(quote("ETH", 1), quote("BTC", 1), quote("ETH", 2), quote("SOL", 3)))
    assert snapshot(ports["snapshot"]) == [quote("BTC", 1), quote("ETH", 2), quote("SOL", 3)]
    send(ports["feed"], lines(quote("SOL", 0, closed=True), quote("ADA", 4)))
    assert snapshot(ports["snapshot"]) == [quote("ADA", 4), quote("BTC", 1), quote("ETH", 2)]
    found = run.api("/api/topics/quotes.live/query")["records"]
    assert [(row["offset"], row["data"]) for row in found] == [
        (2, quote("BTC", 1).decode()),
        (3, quote("ETH", 2).decode()),
        (6, quote("ADA", 4).decode()),
    ]
    topic = run.topic("quotes.live")
    assert (topic["end"], topic["records"]) == (6, 3)


def test_record_without_a_key_or_unreadable_is_a_dead_letter(gauss: Make) -> None:
    config, ports = example_4()
    run = gauss(config).start()
    send(ports["feed"], lines(quote("BTC", 1), b'{"bid": 1}', b"no json"))
    assert snapshot(ports["snapshot"]) == [quote("BTC", 1)]
    reasons = [letter["reason"] for letter in run.api("/api/dlq/letters")["letters"]]
    assert sorted(reasons) == ["bad_json", "missing_key"]


def test_subscriber_ends_with_the_newest_snapshot_and_changes_give_root_then_every_change(gauss: Make) -> None:
    config, ports = example_4()
    gauss(config).start()
    send(ports["feed"], lines(quote("B", 0), quote("A", 0)))
    subscriber, changes = Collector(ports["subscribe"]), Collector(ports["changes"])
    assert subscriber.wait(2) == [quote("A", 0), quote("B", 0)]
    assert changes.wait(2) == [quote("A", 0), quote("B", 0)]
    sent = [quote("AB"[number % 2], number) for number in range(1, 201)]
    for record in sent:
        send(ports["feed"], lines(record))
    assert changes.wait(202)[2:] == sent
    newest = [quote("A", 200), quote("B", 199)]
    wait_until(lambda: subscriber.lines[-2:] == newest, what="the newest snapshot")
    assert len(subscriber.lines) % 2 == 0
    subscriber.close()
    changes.close()


def test_slow_subscriber_holds_nobody_back_and_goes_on_with_the_newest_snapshot(gauss: Make) -> None:
    config, ports = example_4()
    gauss(config).start()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", ports["subscribe"]))
        for round_ in range(30):
            send(ports["feed"], lines(*(quote(f"K{key:04}", round_) for key in range(2_000))))
        newest = [quote(f"K{key:04}", 29) for key in range(2_000)]
        slow.settimeout(60)
        with slow.makefile("rb") as stream:
            found: list[bytes] = []
            while found[-2_000:] != newest:
                line = stream.readline()
                assert line
                found.append(line.rstrip(b"\n"))
        assert len(found) < 30 * 2_000


@pytest.mark.fault
def test_table_is_gone_with_the_engine_and_begins_a_new_incarnation(gauss: Make) -> None:
    config, ports = example_4()
    run = gauss(config).start()
    send(ports["feed"], lines(quote("BTC", 1)))
    before = run.topic("quotes.live")["inc"]
    run.kill("gauss.stream.engine")
    wait_until(lambda: _inc(run) not in (None, before), what="another incarnation")
    run.wait_ready()
    assert snapshot(ports["snapshot"]) == []
    send(ports["feed"], lines(quote("ETH", 2)))
    assert snapshot(ports["snapshot"]) == [quote("ETH", 2)]


def _inc(run: Run) -> int | None:
    try:
        return int(run.topic("quotes.live")["inc"])
    except (OSError, KeyError, ValueError):
        return None


def test_passthrough_writes_a_table_epoch_by_epoch(gauss: Make) -> None:
    config, ports = example_4()
    config = (
        config.replace('target = { topic = "quotes.live" }', 'target = { topic = "quotes.raw" }')
        + """
[[topics]]
name = "quotes.raw"
storage = "file"

[[processors]]
name = "live-writer"
plugin = "passthrough"
source = { topic = "quotes.raw", read = "offset" }
target = { topic = "quotes.live" }
"""
    )
    run = gauss(config).start()
    records = [quote(f"K{number % 100:03}", number) for number in range(20_000)]
    send(ports["feed"], lines(*records, b"broken"))
    wait_until(lambda: run.topic("quotes.live")["end"] == 20_000, what="all applied")
    assert snapshot(ports["snapshot"]) == [quote(f"K{key:03}", 19_900 + key) for key in range(100)]
    # The last record may be in an epoch of its own.
    letters = wait_until(lambda: run.api("/api/dlq/letters")["letters"], what="the dead letter")
    assert [(letter["reason"], letter["processor"]) for letter in letters] == [("bad_json", "live-writer")]


def test_offset_reader_of_a_table_is_refused_with_the_reason(gauss: Make) -> None:
    config, _ = example_4()
    run = gauss(config.replace('read = "snapshot"', 'read = "offset"'))
    done = run.cli("check", str(run.config), check=False)
    assert done.returncode != 0
    assert "not all records in order" in done.stdout + done.stderr
