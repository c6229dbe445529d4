"""Records of the golden data directories, and the expected contents of their topics."""

from __future__ import annotations

from collections import Counter

MINUTE = 60_000
START = 1_700_000_040_000
BAD = b"not a quote"
KEPT = ("VERSION", "checkpoints", "journal", "memory.ends", "topics")
"""The files of a data directory that outlive a run, without tokens, logs and caches."""
PER_PART = 150


def quotes(part: int) -> list[bytes]:
    """The quotes of one run: 90 seconds, three symbols."""
    return [
        b'{"symbol":"%s","bid":%d,"at":%d}' % (b"ABC"[n % 3 : n % 3 + 1], n, START + (part * 150 + n) * 600)
        for n in range(PER_PART)
    ]


def minutes(parts: int) -> Counter[int]:
    """Number of quotes per minute."""
    return Counter((START + n * 600) // MINUTE for n in range(parts * PER_PART))


def closed(parts: int) -> dict[int, int]:
    """Number of quotes of each minute that the watermark has closed."""
    watermark = START + (parts * PER_PART - 1) * 600 - 10_000
    return {minute: count for minute, count in minutes(parts).items() if (minute + 1) * MINUTE <= watermark}


def expected(parts: int) -> dict[str, int]:
    """Expected records of each topic after some runs, each of which sends its quotes and one bad record."""
    everything = parts * (PER_PART + 1)
    return {
        "quotes": everything,
        "lines": everything,
        "archive": everything,
        "high": parts * (PER_PART - 100),
        "totals": 3 * len(closed(parts)),
        "_dead": parts * 3,
    }
