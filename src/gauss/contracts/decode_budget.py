"""Bytes that records may take once they are decoded: some formats turn kilobytes into gigabytes."""

from __future__ import annotations

from gauss.contracts.format import BadRecord
from gauss.model.errors import Rejected

MAX_DECODED_BYTES = 64 << 20
"""Default of `max_decoded_bytes`."""
ROW_BYTES = 16
"""What a row is counted with beside its content: rows can be empty, and there are arrays of one entry per row."""


class OverBudget(Rejected):
    """The records of a batch are too large together; fewer at a time can be decoded."""

    retryable = True


class DecodeBudget:
    """What is left for the records of one call of `decode_batch`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def take(self, nbytes: int, rows: int = 1) -> None:
        """Counts one record; raises BadRecord if it is too large alone, OverBudget if it is so with those before."""
        need = nbytes + rows * ROW_BYTES
        if need > self.most:
            raise BadRecord(
                "too_large", f"decoded, the record takes {need} bytes: expected at most max_decoded_bytes = {self.most}"
            )
        self._left -= need
        if self._left < 0:
            raise OverBudget(
                f"decoded, the records of a batch take more than max_decoded_bytes = {self.most}",
                hint="read fewer records at a time, or raise max_decoded_bytes of the format",
            )
