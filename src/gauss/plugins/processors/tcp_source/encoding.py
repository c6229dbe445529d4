"""Detection of a text stream's encoding from its first bytes."""

from __future__ import annotations

from typing import Literal, NamedTuple

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]

SAMPLE_BYTES = 128
"""Without a byte order mark this many first bytes decide, however they were split in transit."""
MARKS: dict[bytes, Encoding] = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
MANY = 0.2
"""Minimum share of zeros among the high bytes of UTF-16 text with some Latin letters, spaces or line ends."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\f\r\x1b"))
FEW = 0.05


class Detected(NamedTuple):
    """An encoding, and the length of its byte order mark."""

    encoding: Encoding
    mark: int = 0


def detect(head: bytes | bytearray, *, final: bool) -> Detected | None:
    """The encoding of the first bytes; None if more are needed, never if `final`."""
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return Detected(encoding, len(mark))
    may_be_mark = any(mark.startswith(bytes(head)) for mark in MARKS)
    if not final and (may_be_mark or len(head) < SAMPLE_BYTES):
        return None
    return Detected(_by_statistics(bytes(head[:SAMPLE_BYTES])))


def _by_statistics(sample: bytes) -> Encoding:
    even, odd = sample[::2], sample[1::2]
    zeros_even, zeros_odd = even.count(0) / max(len(even), 1), odd.count(0) / max(len(odd), 1)
    if max(zeros_even, zeros_odd) >= MANY and zeros_even != zeros_odd:
        return "utf-16-le" if zeros_odd > zeros_even else "utf-16-be"
    if _is_utf8(sample):
        return "utf-8"
    # Text of one script: its high bytes are few, its low bytes many.
    kinds_even, kinds_odd = len(set(even)), len(set(odd))
    if 2 * min(kinds_even, kinds_odd) <= max(kinds_even, kinds_odd):
        return "utf-16-le" if kinds_odd < kinds_even else "utf-16-be"
    return "utf-8"


def _is_utf8(sample: bytes) -> bool:
    """Whether it is UTF-8, except for a character cut off at the end, with hardly any control characters."""
    if len(sample) - len(sample.translate(None, CONTROLS)) > len(sample) * FEW:
        return False
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
