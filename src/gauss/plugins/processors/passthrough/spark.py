"""passthrough on Spark, where the records are rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.transform import Schemas, Traits
from gauss.plugins.processors.passthrough.spec import PassthroughConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PassthroughTransform:
    def __init__(self, config: PassthroughConfig) -> None:
        self._config = config

    def bind(self, schemas: Schemas) -> Traits:  # noqa: ARG002
        return Traits([])

    def apply(self, records: DataFrame) -> DataFrame:
        return records
