"""Binary encoding of values in blobs. Canonical: each value has exactly one encoding."""

from __future__ import annotations

import math
import struct
from typing import NoReturn

from gauss.model.errors import ConfigError

MAX_BLOB = 256 << 10
MAX_TEXT = 64 << 10
"""Maximum size of a string in bytes."""


class Writer:
    """Appends values to a blob."""

    def __init__(self, header: bytes) -> None:
        self._bytes = bytearray(header)

    def byte(self, value: int) -> None:
        self._bytes.append(value)

    def unsigned(self, value: int) -> None:
        if not 0 <= value < 1 << 64:
            raise ConfigError(f"expected a number from 0 to 2^64 - 1, found {value}")
        while value >= 0x80:
            self._bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self._bytes.append(value)

    def signed(self, value: int) -> None:
        self.unsigned(value << 1 if value >= 0 else ~value << 1 | 1)

    def double(self, value: float) -> None:
        self._bytes += struct.pack("<d", value)

    def text(self, value: str) -> None:
        data = value.encode()
        if len(data) > MAX_TEXT:
            raise ConfigError(f"a string may have {MAX_TEXT} bytes (got {len(data)})")
        self.unsigned(len(data))
        self._bytes += data

    def optional(self, value: int | str | None) -> None:
        """Writes a flag, then the value unless it is `None`."""
        self.byte(value is not None)
        if isinstance(value, int):
            self.unsigned(value)
        elif value is not None:
            self.text(value)

    def done(self) -> bytes:
        if len(self._bytes) > MAX_BLOB:
            raise ConfigError(f"a program may have {MAX_BLOB} bytes (got {len(self._bytes)})", hint="make it shorter")
        return bytes(self._bytes)


class Reader:
    """Reads values from a blob. Raises ConfigError with the byte position for non-canonical encodings."""

    def __init__(self, blob: bytes, header: bytes, what: str) -> None:
        self._blob = blob
        self._what = what
        self.at = 0
        if len(blob) > MAX_BLOB:
            raise ConfigError(f"a {what} may have {MAX_BLOB} bytes (got {len(blob)})")
        if blob[: len(header)] != header:
            raise ConfigError(f"expected a {what} that begins with {header!r}, found {blob[: len(header)]!r}")
        self.at = len(header)

    def fault(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (at byte {self.at} of the {self._what})")

    def byte(self, below: int = 256) -> int:
        value = self._take(1)[0]
        if value >= below:
            self.fault(f"expected a number below {below}, found {value}")
        return value

    def unsigned(self, most: int = (1 << 64) - 1) -> int:
        value = shift = 0
        while True:
            part = self._take(1)[0]
            value |= (part & 0x7F) << shift
            if part < 0x80:
                break
            shift += 7
            if shift > 63:
                self.fault("a number has more than 64 bits")
        if part == 0 and shift:
            self.fault("a number is not in its shortest encoding")
        if value > most:
            self.fault(f"expected a number up to {most}, found {value}")
        return value

    def signed(self) -> int:
        value = self.unsigned()
        return ~(value >> 1) if value & 1 else value >> 1

    def double(self) -> float:
        value: float = struct.unpack("<d", self._take(8))[0]
        if not math.isfinite(value):
            self.fault("a number is not finite")
        return value

    def text(self) -> str:
        try:
            return self._take(self.unsigned(MAX_TEXT)).decode()
        except UnicodeDecodeError:
            self.fault("a string is not UTF-8")

    def optional_number(self) -> int | None:
        return self.unsigned((1 << 63) - 1) if self.byte(2) else None

    def optional_text(self) -> str | None:
        return self.text() if self.byte(2) else None

    def more(self) -> bool:
        return self.at < len(self._blob)

    def end(self) -> None:
        if self.more():
            self.fault(f"{len(self._blob) - self.at} unexpected bytes at the end")

    def _take(self, count: int) -> bytes:
        if count > len(self._blob) - self.at:
            self.fault("unexpected end")
        taken = self._blob[self.at : self.at + count]
        self.at += count
        return taken
