"""Example 5 from end to end: quotes into a socket, candles of one second in the embedded ClickHouse.

Its topic of 50,000 quotes bounds the batches, its table's `flush_interval` (a second) how soon a candle is there.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from bench.latency import GAUSS, Running

EXAMPLE = Path(__file__).parent.parent / "examples" / "05-ohlc-to-clickhouse"
RECORDS, WARM_UP = 1_000_000, 200_000
PER_SECOND = 10_000
SYMBOLS = 100
PROBES = 15


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def pipeline(port: int) -> str:
    """The example, with candles that close by the quotes' own time instead of the minute."""
    text = (EXAMPLE / "pipeline.toml").read_text()
    text = text.replace(
        'intervals = ["1m", "5m", "1h"]', 'intervals = ["1s"], event_time_field = "ts", watermark = "0s"'
    )
    text = text.replace("schemas/ohlc.avsc", str(EXAMPLE / "schemas" / "ohlc.avsc"))
    text = text.replace("port = 9100", f"port = {port}")
    return text.replace("../schema-maps", str(EXAMPLE.parent / "schema-maps"))


def quotes(begin: int, first: int, count: int) -> bytes:
    """Lines; quote `i` happened `i / PER_SECOND` seconds after `begin`."""
    return b"".join(
        b'{"symbol":"SYM%03d","bid":%.4f,"ts":%d}\n' % (i % SYMBOLS, i % 1009 / 10, begin + i * 1000 // PER_SECOND)
        for i in range(first, first + count)
    )


def closed(records: int) -> int:
    """How many candles are closed once so many quotes were read."""
    return (records - 1) // PER_SECOND * SYMBOLS


def counter(data_dir: Path) -> Callable[[], int]:
    """Asks the table how many candles it holds."""
    done = subprocess.run(
        [GAUSS, "db", "url", "clickhouse", "--data-dir", str(data_dir)], capture_output=True, text=True, check=True
    )
    client, url = httpx.Client(), done.stdout.strip()

    def count() -> int:
        answer = client.post(url, content="SELECT count() FROM ohlc_1m")
        return int(answer.text) if answer.status_code == 200 else 0

    return count


def wait(count: Callable[[], int], wanted: int) -> None:
    while count() < wanted:
        time.sleep(0.01)


def rows() -> list[dict[str, object]]:
    """Quotes per second through all of it, and how long a candle is under way."""
    begin = (int(time.time()) - 600) * 1000  # old rows would be cut off by the table's TTL
    warm_up, backlog = quotes(begin, 0, WARM_UP), quotes(begin, WARM_UP, RECORDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "pipeline.toml"
        port = free_port()
        config.write_text(pipeline(port))
        running = Running(config, folder / "data", folder)
        try:
            with running.connect(port) as feed:
                feed.sendall(warm_up)
                count = counter(folder / "data")
                wait(count, closed(WARM_UP))
                begun = time.perf_counter()
                feed.sendall(backlog)
                wait(count, closed(WARM_UP + RECORDS))
                seconds = time.perf_counter() - begun
                total, waited = closed(WARM_UP + RECORDS) + SYMBOLS, []
                for probe in range(PROBES):
                    # The first quote of a second closes the one before it.
                    sent = time.perf_counter()
                    feed.sendall(quotes(begin, WARM_UP + RECORDS + probe * PER_SECOND, 1))
                    wait(count, total + probe)
                    waited.append((time.perf_counter() - sent) * 1000)
        finally:
            running.stop()
    return [
        {"what": "socket → candles in ClickHouse", "measured": f"{RECORDS / seconds / 1000:.0f}k rec/s", "aim": ""},
        {
            "what": "last quote → its candle in ClickHouse, p50",
            "measured": f"{statistics.median(waited[3:]):.0f} ms",
            "aim": "",
        },
    ]
