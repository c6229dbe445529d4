"""What outside systems' errors mean for a writer, whatever the system.

GaussError
├── Unavailable            transient: the same again, later
│   └── Unclear            transient, and the write may have happened: read back first
├── DiskFull               transient, but somebody must make room
├── RowError               the record's own fault: bisect, dead letter, go on
├── ConfigError            table, column, rights or address: a person must change something
└── StorageError           the server's own failure
"""

from __future__ import annotations

from gauss.model.errors import GaussError, Unavailable


class Unclear(Unavailable):
    """The answer was lost: what was asked for may have happened."""

    code = "unclear"


class RowError(GaussError):
    """A value that the table refuses; `reason` is a fixed code for the dead letter, `column` empty when unknown."""

    code = "row"

    def __init__(self, message: str, *, reason: str = "insert", column: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint or "correct the record and replay it, or change the column's type")
        self.reason = reason
        self.column = column
