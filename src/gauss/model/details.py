"""Shortens error details, which may quote received data."""

from __future__ import annotations

MOST_DETAIL_BYTES = 1024
_SIZE_BYTES = 32
"""Room for the size that follows a text that was cut."""


def capped(detail: str, most: int = MOST_DETAIL_BYTES) -> str:
    """The text if it has at most `most` bytes in UTF-8, else its beginning and its size, `most` bytes together. Cutting
    a text again changes nothing."""
    if len(detail) * 4 <= most:
        return detail
    encoded = detail.encode(errors="backslashreplace")
    if len(encoded) <= most:
        return detail
    return f"{encoded[: most - _SIZE_BYTES].decode(errors='ignore')}… ({len(encoded)} bytes)"
