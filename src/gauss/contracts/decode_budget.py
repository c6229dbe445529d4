"""Limit on the decoded size of records: some formats expand kilobytes to gigabytes."""

from __future__ import annotations

from gauss.contracts.format import BadRecord
from gauss.model.errors import Rejected

MAX_DECODED_BYTES = 64 << 20
"""Default of `max_decoded_bytes`."""
ROW_BYTES = 16
"""Bytes counted per row in addition to its content, since empty rows take memory too."""


class OverBudget(Rejected):
    """The records of a batch exceed the limit together. Smaller batches can be decoded."""

    retryable = True


class DecodeBudget:
    """The remaining bytes for one call of `decode_batch`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def take(self, nbytes: int, rows: int = 1) -> None:
        """Counts one record. Raises BadRecord if it alone exceeds the limit, OverBudget if the batch does."""
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
