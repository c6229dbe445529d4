"""decompress: its input format has decompressed the records, here that column becomes the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.transform import Schemas, Traits
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.decompress.spec import DecompressConfig

if TYPE_CHECKING:
    import pyarrow as pa

DATA = SourceField("data", FieldType("bytes"))


class Decompress:
    def __init__(self, config: DecompressConfig) -> None:
        self._config = config

    def bind(self, schemas: Schemas) -> Traits:  # noqa: ARG002
        return Traits([DATA])

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The decompressed records."""
        return records.select([TS_MS_COLUMN, DATA.name]).rename_columns([TS_MS_COLUMN, DATA_COLUMN])
