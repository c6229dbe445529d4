"""The records of the golden data directories, and what their topics hold after them."""

from __future__ import annotations

from collections import Counter

MINUTE = 60_000
START = 1_700_000_040_000
BAD = b"not a quote"
KEPT = ("VERSION", "checkpoints", "journal", "memory.ends", "topics")
"""What a data directory keeps between runs, without tokens, logs and caches."""
PER_PART = 150


def quotes(part: int) -> list[bytes]:
    """Quotes of one run: a minute and a half of them, three symbols."""
    return [
        b'{"symbol":"%s","bid":%d,"at":%d}' % (b"ABC"[n % 3 : n % 3 + 1], n, START + (part * 150 + n) * 600)
        for n in range(PER_PART)
    ]


def minutes(parts: int) -> Counter[int]:
    """How many quotes each minute has."""
    return Counter((START + n * 600) // MINUTE for n in range(parts * PER_PART))


def closed(parts: int) -> dict[int, int]:
    """Minutes that the watermark has closed, with their quotes."""
    watermark = START + (parts * PER_PART - 1) * 600 - 10_000
    return {minute: count for minute, count in minutes(parts).items() if (minute + 1) * MINUTE <= watermark}


def expected(parts: int) -> dict[str, int]:
    """Topic → records after some runs: each sends its quotes and one bad record."""
    everything = parts * (PER_PART + 1)
    return {
        "quotes": everything,
        "lines": everything,
        "archive": everything,
        "high": parts * (PER_PART - 100),
        "totals": 3 * len(closed(parts)),
        "_dead": parts * 3,
    }
