"""passthrough on Spark, where records are rows of a table or their topic is in an outside system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.transform import Schemas, Traits
from gauss.plugins.processors.fields import passed_on
from gauss.plugins.processors.passthrough.spec import PassthroughConfig

if TYPE_CHECKING:
    import pyarrow as pa


class PassthroughTransform:
    def __init__(self, config: PassthroughConfig) -> None:
        self._config = config

    def bind(self, schemas: Schemas) -> Traits:  # noqa: ARG002
        return Traits([])

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return passed_on(records)
