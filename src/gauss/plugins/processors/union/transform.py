"""union: records of all its topics are read and pass unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.transform import Schemas, Traits
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.union.spec import UnionConfig

if TYPE_CHECKING:
    import pyarrow as pa


class Union:
    def __init__(self, config: UnionConfig) -> None:
        self._config = config

    def bind(self, schemas: Schemas) -> Traits:  # noqa: ARG002
        return Traits([])

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return records.select([TS_MS_COLUMN, DATA_COLUMN])
