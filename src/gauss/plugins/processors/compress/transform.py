"""compress: one call of a C library per record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.transform import Schemas, Traits
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.compress.spec import CompressConfig

if TYPE_CHECKING:
    import pyarrow as pa


class Compress:
    """Deterministic: no codec writes a time into its header."""

    def __init__(self, config: CompressConfig) -> None:
        self._config = config

    def bind(self, schemas: Schemas) -> Traits:  # noqa: ARG002
        return Traits([])

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records compressed."""
        import pyarrow as pa

        codec = pa.Codec(self._config.algo, compression_level=self._config.level)
        made = [codec.compress(data, asbytes=True) for data in records.column(DATA_COLUMN).to_pylist()]
        return pa.RecordBatch.from_arrays(
            [records.column(TS_MS_COLUMN), pa.array(made, pa.binary())], names=[TS_MS_COLUMN, DATA_COLUMN]
        )
