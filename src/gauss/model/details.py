"""The text of a fault, kept short: it may quote what somebody sent."""

from __future__ import annotations

MOST_DETAIL_BYTES = 1024


def capped(detail: str, most: int = MOST_DETAIL_BYTES) -> str:
    """The text, at most `most` bytes of it in UTF-8; what was cut off is told by the full size behind it."""
    if len(detail) * 4 <= most:
        return detail
    encoded = detail.encode(errors="backslashreplace")
    if len(encoded) <= most:
        return detail
    return f"{encoded[:most].decode(errors='ignore')}… ({len(encoded)} bytes)"
