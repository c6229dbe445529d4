"""passthrough on Spark, where the engine does not own both topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import SourceField, SourceSchema
from gauss.plugins.processors.passthrough.spec import PassthroughConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PassthroughTransform:
    def __init__(self, config: PassthroughConfig) -> None:
        self._config = config

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return []

    def apply(self, records: DataFrame) -> DataFrame:
        return records
