"""Errors of external systems, by what a writer can do about them.

GaussError
├── Unavailable            transient: retry later
│   └── Unclear            transient, but the write may have succeeded: read back first
├── DiskFull               transient, but someone must free space
├── RowError               caused by the record: bisect, dead letter, continue
├── ConfigError            table, column, permissions or address: someone must change something
└── StorageError           the server's own failure
"""

from __future__ import annotations

from gauss.model.errors import GaussError, Unavailable


class Unclear(Unavailable):
    """The answer was lost: the request may have succeeded."""

    code = "unclear"


class RowError(GaussError):
    """A value that the table rejects; `reason` is a code for the dead letter, `column` is empty if unknown."""

    code = "row"

    def __init__(self, message: str, *, reason: str = "insert", column: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint or "correct the record and replay it, or change the column's type")
        self.reason = reason
        self.column = column
